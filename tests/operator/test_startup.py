"""What command line, Configuration file and environment make together."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pytest

from kuberay.api.gates import Gate
from kuberay.operator.flags import parse
from kuberay.operator.logs import LogFormat
from kuberay.operator.startup import StartupError, prepare

if TYPE_CHECKING:
    from kuberay.operator.startup import Startup

HEADER = "apiVersion: config.ray.io/v1alpha1\nkind: Configuration\n"


def startup(*arguments: str, file: str = "", **environment: str) -> Startup:
    return prepare(parse(arguments), environment, lambda _: HEADER + file)


class TestDefaults:
    def test_outside_a_pod_nothing_listens_beyond_loopback(self) -> None:
        settings = startup().settings
        assert (settings.health_address, settings.metrics_address) == ("127.0.0.1:8082", "127.0.0.1:8080")

    def test_in_a_pod_the_addresses_are_kuberays(self) -> None:
        settings = startup(KUBERNETES_SERVICE_HOST="10.96.0.1").settings
        assert (settings.health_address, settings.metrics_address) == (":8082", ":8080")

    def test_it_leads_before_it_works_and_asks_as_fast_as_the_server_answers(self) -> None:
        made = startup()
        assert made.leader_election
        assert made.qps == 0.0
        assert made.settings.reconcile_concurrency == 8
        assert made.settings.controllers.writes_in_flight == 8
        assert made.settings.watch_namespaces == ()
        assert not made.settings.cluster_metrics
        assert made.notices == ()

    def test_the_log_is_json_from_level_info(self) -> None:
        log = startup().log
        assert (log.format, log.level, log.file) == (LogFormat.JSON, logging.INFO, "")


class TestFlags:
    def test_they_say_where_to_listen_and_zero_is_nowhere(self) -> None:
        settings = startup("--metrics-addr=0", "--health-probe-bind-address=0.0.0.0:1").settings
        assert (settings.metrics_address, settings.health_address) == (None, "0.0.0.0:1")

    def test_a_limit_on_requests_is_kept_when_it_is_asked_for(self) -> None:
        made = startup("--qps=100", "--burst=300")
        assert (made.qps, made.burst) == (100.0, 300)

    @pytest.mark.parametrize(
        ("flags", "batch"),
        [
            ((), 1000),
            (("--reconcile-concurrency=2",), 1000),
            (("--reconcile-concurrency=1",), 250),
            (("--reconcile-concurrency=1", "--qps=100"), 100),
            (("--qps=0.5",), 10),
            (("--qps=5000",), 1000),
        ],
    )
    def test_a_pass_takes_about_a_second_where_others_have_to_wait_for_its_end(
        self, flags: tuple[str, ...], batch: int
    ) -> None:
        assert startup(*flags).settings.controllers.batch == batch

    def test_more_writes_may_be_under_way_where_each_takes_long(self) -> None:
        assert startup("--writes-in-flight=32").settings.controllers.writes_in_flight == 32

    def test_namespaces_are_a_list(self) -> None:
        assert startup("--watch-namespace=a, b,").settings.watch_namespaces == ("a", "b")

    def test_a_namespace_that_is_named_twice_is_one(self) -> None:
        assert startup("--watch-namespace=a,b,a").settings.watch_namespaces == ("a", "b")

    def test_gates_reach_the_controllers(self) -> None:
        assert Gate.RAY_CRON_JOB in startup("--feature-gates=RayCronJob=true").settings.controllers.gates

    @pytest.mark.parametrize(
        ("arguments", "level"),
        [
            (["--zap-devel"], logging.DEBUG),
            (["--zap-log-level=5"], logging.DEBUG),
            (["--zap-log-level=error"], logging.ERROR),
            (["--zap-log-level=INFO"], logging.INFO),
            (["--zap-log-level=Debug"], logging.DEBUG),
            (["--zap-devel", "--zap-log-level=info"], logging.INFO),
        ],
    )
    def test_the_level_is_taken_from_zaps_flags(self, arguments: list[str], level: int) -> None:
        assert startup(*arguments).log.level == level

    def test_what_is_deprecated_or_without_effect_is_told(self) -> None:
        notices = startup("--forced-cluster-upgrade", "--zap-encoder=json").notices
        assert notices == (
            "--forced-cluster-upgrade is deprecated and has no effect",
            "--zap-encoder has no effect: --log-stdout-encoder decides",
        )

    def test_what_this_version_does_not_do_is_told_whoever_asks_for_it(self) -> None:
        proxy = "--use-kubernetes-proxy (useKubernetesProxy) has no effect yet: nobody asks Ray"
        jobs = "deleteRayJobAfterJobFinishes has no effect yet: RayJobs are not looked at"
        assert startup("--use-kubernetes-proxy").notices == (proxy,)
        assert startup("--use-kubernetes-proxy=false").notices == ()
        file = "useKubernetesProxy: true\ndeleteRayJobAfterJobFinishes: true\n"
        assert startup("--config=c.yaml", file=file).notices == (proxy, jobs)


class TestFile:
    def test_it_replaces_the_flags_and_says_which_it_put_out_of_force(self) -> None:
        made = startup("--config=c.yaml", "--qps=5", "--watch-namespace=a", file="watchNamespace: b\nqps: 7\n")
        assert (made.qps, made.settings.watch_namespaces) == (7.0, ("b",))
        assert made.notices == ("ignored because of --config, where the same can be said: --qps, --watch-namespace",)

    def test_what_it_leaves_out_has_the_default_not_the_flags_value(self) -> None:
        made = startup("--config=c.yaml", "--reconcile-concurrency=3", file="reconcileConcurrency: 0\n")
        assert made.settings.reconcile_concurrency == 8

    def test_it_may_say_how_many_writes_are_under_way(self) -> None:
        assert startup("--config=c.yaml", file="writesInFlight: 3\n").settings.controllers.writes_in_flight == 3

    def test_gates_kubeconfig_and_log_level_are_still_taken_from_flags(self) -> None:
        made = startup("--config=c.yaml", "--kubeconfig=k", "--zap-devel", "--feature-gates=RayCronJob=true")
        assert made.kubeconfig == "k"
        assert made.log.level == logging.DEBUG
        assert Gate.RAY_CRON_JOB in made.settings.controllers.gates
        assert made.notices == ()

    def test_what_it_puts_into_pods_reaches_the_builders(self) -> None:
        file = """
headSidecarContainers: [{name: agent, image: agent:1}]
workerSidecarContainers: [{name: other, image: agent:1}]
defaultContainerEnvs: [{name: A, value: "1"}]
defaultPodLabels: {team: ml}
defaultPodAnnotations: {note: x}
"""
        build = startup("--config=c.yaml", file=file).settings.controllers.build
        assert [each["name"] for each in (*build.head_sidecars, *build.worker_sidecars)] == ["agent", "other"]
        assert build.default_environment == ({"name": "A", "value": "1"},)
        assert (build.default_labels, build.default_annotations) == ({"team": "ml"}, {"note": "x"})

    def test_its_encoders_count_unless_flags_name_others(self) -> None:
        file = "logStdoutEncoder: console\nlogFile: /var/log/x\nlogFileEncoder: console\n"
        log = startup("--config=c.yaml", "--log-file-encoder=json", file=file).log
        assert (log.format, log.file, log.file_format) == (LogFormat.CONSOLE, "/var/log/x", LogFormat.JSON)

    def test_fields_it_does_not_know_are_told_of(self) -> None:
        assert startup("--config=c.yaml", file="speed: 9\n").notices == (
            "c.yaml has fields that mean nothing here: speed",
        )

    def test_fields_of_containers_that_it_does_not_know_too(self) -> None:
        made = startup("--config=c.yaml", file="headSidecarContainers: [{name: a, image: i, mood: good}]\n")
        assert made.notices == ("c.yaml has fields that mean nothing here: headSidecarContainers[0].mood",)
        assert made.settings.controllers.build.head_sidecars == ({"name": "a", "image": "i", "mood": "good"},)

    def test_json_is_yaml_too(self) -> None:
        text = '{"apiVersion": "config.ray.io/v1alpha1", "kind": "Configuration", "enableMetrics": true}'
        assert prepare(parse(["--config=c"]), {}, lambda _: text).settings.cluster_metrics

    @pytest.mark.parametrize(
        ("text", "why"),
        [
            (HEADER + "qps: fast\n", r"c.yaml: Expected `float`, got `str` - at `\$.qps`"),
            (
                HEADER + "defaultContainerEnvs: [{name: A, value: 1}, {foo: bar}]\n",
                r"c.yaml: defaultContainerEnvs\[0\].value: expected a string, got an integer; "
                r"defaultContainerEnvs\[1\].name: is required",
            ),
            (
                HEADER + "headSidecarContainers: [{name: a, ports: [{containerPort: http}]}]\n",
                r"headSidecarContainers\[0\].ports\[0\].containerPort: expected an integer",
            ),
            (HEADER + "workerSidecarContainers: [{image: i}]\n", r"workerSidecarContainers\[0\].name: is required"),
            (HEADER + "defaultPodLabels: {team: x y}\n", "defaultPodLabels.team: "),
            (HEADER + "defaultPodAnnotations: {x y: z}\n", r"defaultPodAnnotations\[x y\]: "),
            ("kind: ConfigMap\napiVersion: v1\n", "kind Configuration are wanted, not v1 and ConfigMap"),
            ("- a\n", "one object of kind Configuration is wanted"),
            ("", "one object of kind Configuration is wanted"),
            ("a: [\n", "c.yaml: line"),
        ],
    )
    def test_what_is_no_configuration_is_refused(self, text: str, why: str) -> None:
        with pytest.raises(StartupError, match=why):
            prepare(parse(["--config=c.yaml"]), {}, lambda _: text)


class TestPartsOfPods:
    """What no Pod can have is told once, when the operator starts, and by field."""

    @pytest.mark.parametrize(
        ("text", "why"),
        [
            (
                "headSidecarContainers: [{name: Bad Name, image: x}]",
                r"headSidecarContainers\[0\].name: 'Bad Name' is",
            ),
            ("headSidecarContainers: [{name: a}]", r"headSidecarContainers\[0\].image: is required"),
            (
                "workerSidecarContainers: [{name: a, image: x}, {name: a, image: y}]",
                r"workerSidecarContainers\[1\].name: 'a' is the name of another container, too",
            ),
            (
                "headSidecarContainers: [{name: a, image: x, imagePullPolicy: Sometimes}]",
                r"headSidecarContainers\[0\].imagePullPolicy: 'Sometimes' is none of Always, IfNotPresent, Never",
            ),
            (
                "headSidecarContainers: [{name: a, image: x, ports: [{containerPort: 99999}]}]",
                r"headSidecarContainers\[0\].ports\[0\].containerPort: must be between 1 and 65535, not 99999",
            ),
            (
                "headSidecarContainers: [{name: a, image: x, env: [{name: A=B}]}]",
                r"headSidecarContainers\[0\].env\[0\].name: 'A=B' is no name of a variable",
            ),
            ("defaultContainerEnvs: [{name: ''}]", r"defaultContainerEnvs\[0\].name: '' is no name of a variable"),
            (
                "defaultContainerEnvs: [{name: A, value: x, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]",
                r"defaultContainerEnvs\[0\].valueFrom: cannot stand beside a value",
            ),
        ],
    )
    def test_it_is_refused(self, text: str, why: str) -> None:
        with pytest.raises(StartupError, match=f"^c.yaml: {why}"):
            startup("--config=c.yaml", file=text)

    def test_what_a_pod_can_have_is_taken(self) -> None:
        file = """
headSidecarContainers:
- {name: a, image: x, imagePullPolicy: Always, ports: [{containerPort: 1}, {containerPort: 65535}]}
- {name: b, image: x, env: [{name: a.b-c, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]}
workerSidecarContainers: [{name: a, image: x, env: null, ports: null}]
defaultContainerEnvs: [{name: A, value: "", valueFrom: {fieldRef: {fieldPath: metadata.name}}}]
"""
        assert len(startup("--config=c.yaml", file=file).settings.controllers.build.head_sidecars) == 2


class TestRefusals:
    @pytest.mark.parametrize(
        ("arguments", "why"),
        [
            (
                ["--feature-gates=RayTurbo=true"],
                "--feature-gates: feature gate 'RayTurbo' is unknown; known are .*RayCronJob",
            ),
            (
                ["--batch-scheduler=default"],
                r"--batch-scheduler \(batchScheduler\): 'default' is unknown; known are volcano, yunikorn, ",
            ),
            (["--batch-scheduler=volcano"], r"--batch-scheduler \(batchScheduler\): volcano is not supported yet"),
            (
                ["--enable-batch-scheduler"],
                r"--enable-batch-scheduler \(enableBatchScheduler\): volcano is not supported",
            ),
            (
                ["--enable-batch-scheduler", "--batch-scheduler=yunikorn"],
                r"--batch-scheduler \(batchScheduler\) and --enable-batch-scheduler \(enableBatchScheduler\) choose",
            ),
            (["--feature-gates=KubernetesWAS=true"], "--feature-gates: KubernetesWAS is not supported yet"),
            (["--feature-gates=AllAlpha=true,KubernetesWAS=true"], "KubernetesWAS is not supported yet"),
            (["--log-stdout-encoder=xml"], "log stdout encoder 'xml' is unknown; known are json and console"),
            (["--log-file-path=f", "--log-file-encoder=xml"], "log file encoder 'xml' is unknown"),
            (["--zap-log-level=Loud"], "--zap-log-level=Loud: debug, info, error"),
            (
                ["--reconcile-concurrency=-1"],
                r"--reconcile-concurrency \(reconcileConcurrency\) must be at least 1, not -1",
            ),
            (
                ["--reconcile-concurrency=100000000000000000000"],
                r"--reconcile-concurrency \(reconcileConcurrency\) must be at most 10000, not 1000",
            ),
            (["--writes-in-flight=-1"], r"--writes-in-flight \(writesInFlight\) must be at least 1, not -1"),
            (["--qps=5", "--burst=-1"], r"--burst \(burst\) must be at least 1, not -1"),
            (
                ["--metrics-addr=8080"],
                r"--metrics-addr \(metricsAddr\): '8080' is no address to listen on",
            ),
            (["--health-probe-bind-address=:x"], r"--health-probe-bind-address \(probeAddr\): ':x' is no address"),
            (["--watch-namespace=a,B_c"], r"--watch-namespace \(watchNamespace\): 'B_c' is not a DNS-1123 label"),
            (
                ["--leader-election-namespace=a b"],
                r"--leader-election-namespace \(leaderElectionNamespace\): 'a b' is not a DNS-1123 label",
            ),
            (["--qps=nan"], r"--qps \(qps\) must be a number of requests per second, or 0 for no limit, not nan"),
            (["--qps=inf"], r"--qps \(qps\) must be a number of requests per second, or 0 for no limit, not inf"),
        ],
    )
    def test_what_cannot_be_done_is_said_at_once(self, arguments: list[str], why: str) -> None:
        with pytest.raises(StartupError, match=why):
            startup(*arguments)

    def test_all_gates_at_once_are_those_that_lead_somewhere(self) -> None:
        made = startup("--feature-gates=AllAlpha=true,RayCronJob=false")
        gates = made.settings.controllers.gates
        assert Gate.RAY_CLUSTER_NETWORK_POLICY in gates
        assert Gate.RAY_CRON_JOB not in gates
        assert Gate.KUBERNETES_WAS not in gates
        assert made.notices == ("--feature-gates: AllAlpha leaves out KubernetesWAS, which is not supported yet",)

    def test_an_encoder_of_a_file_that_is_not_written_does_not_matter(self) -> None:
        assert startup("--log-file-encoder=xml").log.file == ""


class TestWebhooks:
    @pytest.mark.parametrize(("value", "address"), [("true", "127.0.0.1:9443"), ("True", None), ("", None)])
    def test_they_are_served_when_the_variable_is_exactly_true(self, value: str, address: str | None) -> None:
        assert startup(ENABLE_WEBHOOKS=value).settings.webhook_address == address

    def test_in_a_pod_api_servers_reach_them(self) -> None:
        made = startup(ENABLE_WEBHOOKS="true", KUBERNETES_SERVICE_HOST="10.96.0.1")
        assert made.settings.webhook_address == ":9443"
