from __future__ import annotations

from typing import Any

import pytest

from kuberay.api.gates import DEFAULT_GATES, FeatureGates, Gate
from kuberay.api.v1 import RayCluster
from kuberay.api.validate import raycluster
from tests.api.clusters import group, manifest, pod, pod_with_env, problems, warnings

OPTIONS = {"gcsFaultToleranceOptions": {"redisAddress": "redis:6379"}}


class TestNames:
    """raycluster EX-06, pod-template 24.15."""

    @pytest.mark.parametrize("name", ["a", "a" * 53, "my-cluster-1"])
    def test_a_name_that_leaves_room_for_service_names_is_fine(self, name: str) -> None:
        assert raycluster.metadata_problems(RayCluster.from_dict({"metadata": {"name": name}})) == []

    @pytest.mark.parametrize(("name", "why"), [("a" * 54, "at most 53"), ("1" * 53, "DNS-1035"), ("", "needs a name")])
    def test_other_names_are_refused(self, name: str, why: str) -> None:
        [problem] = raycluster.metadata_problems(RayCluster.from_dict({"metadata": {"name": name}}))
        assert problem.path == "metadata.name"
        assert why in problem.message

    def test_a_name_the_server_is_to_generate_is_no_problem(self) -> None:
        assert raycluster.metadata_problems(RayCluster.from_dict({"metadata": {"generateName": "demo-"}})) == []


class TestGroups:
    def test_a_plain_cluster_is_valid(self) -> None:
        assert problems(manifest(group(), group("more"))) == {}

    def test_an_empty_object_is_told_what_it_needs(self) -> None:
        assert list(problems({})) == ["spec.headGroupSpec.template.spec.containers"]

    @pytest.mark.parametrize(
        "template", [{}, {"spec": None}, {"spec": {"containers": []}}, {"spec": {"containers": 3}}]
    )
    def test_every_group_needs_a_container(self, template: dict[str, Any]) -> None:
        assert list(problems(manifest(group(template=template), head={"template": template}))) == [
            "spec.headGroupSpec.template.spec.containers",
            "spec.workerGroupSpecs[0].template.spec.containers",
        ]

    def test_two_groups_cannot_share_a_name(self) -> None:
        found = problems(manifest(group("a"), group("b"), group("a")))
        assert list(found) == ["spec.workerGroupSpecs[2].groupName"]
        assert "workerGroupSpecs[0]" in found["spec.workerGroupSpecs[2].groupName"]

    def test_the_name_of_the_heads_group_is_not_for_workers(self) -> None:
        assert list(problems(manifest(group("headgroup")))) == ["spec.workerGroupSpecs[0].groupName"]

    def test_one_group_may_have_an_empty_name(self) -> None:
        assert problems(manifest(group("a"), group(""), group("b"))) == {}
        assert list(problems(manifest(group(""), group("")))) == ["spec.workerGroupSpecs[1].groupName"]

    def test_a_group_whose_replicas_or_policies_are_named_after_it_needs_a_name(self) -> None:
        assert list(problems(manifest(group("", numOfHosts=2)))) == ["spec.workerGroupSpecs[0].groupName"]
        assert list(problems(manifest(group(""), networkPolicy={}))) == ["spec.workerGroupSpecs[0].groupName"]

    @pytest.mark.parametrize("hosts", [0, -1, 10_001])
    def test_a_replica_has_at_least_one_host_and_not_more_than_can_be_made_at_once(self, hosts: int) -> None:
        assert list(problems(manifest(group(numOfHosts=hosts)))) == ["spec.workerGroupSpecs[0].numOfHosts"]

    def test_without_autoscaling_both_bounds_are_needed(self) -> None:
        """raycluster EX-07."""
        bare = {"groupName": "a", "template": pod()}
        assert list(problems(manifest(bare))) == [
            "spec.workerGroupSpecs[0].minReplicas",
            "spec.workerGroupSpecs[0].maxReplicas",
        ]
        assert problems(manifest(bare, enableInTreeAutoscaling=True)) == {}

    @pytest.mark.parametrize(
        ("bounds", "field"),
        [
            ({"minReplicas": -1}, "minReplicas"),
            ({"maxReplicas": -1}, "maxReplicas"),
            ({"minReplicas": 4, "maxReplicas": 3}, "minReplicas"),
        ],
    )
    def test_bounds_must_make_sense(self, bounds: dict[str, Any], field: str) -> None:
        assert list(problems(manifest(group(**bounds)))) == [f"spec.workerGroupSpecs[0].{field}"]

    def test_replicas_outside_the_bounds_are_only_a_warning(self) -> None:
        """raycluster EX-08."""
        document = manifest(group(replicas=1, minReplicas=2), group("b", replicas=9))
        assert problems(document) == {}
        assert warnings(document) == {
            "spec.workerGroupSpecs[0].replicas": "1 is below minReplicas; 2 will run",
            "spec.workerGroupSpecs[1].replicas": "9 is above maxReplicas; 3 will run",
        }

    def test_a_name_for_all_workers_is_a_warning(self) -> None:
        named = {"metadata": {"name": "mine"}, **pod()}
        assert problems(manifest(group(template=named))) == {}
        assert list(warnings(manifest(group(template=named), head={"template": named}))) == [
            "spec.workerGroupSpecs[0].template.metadata.name"
        ]

    def test_a_resource_that_is_no_quantity_is_a_warning(self) -> None:
        document = manifest(group(resources={"CPU": "many", "GPU": "1"}))
        assert problems(document) == {}
        assert list(warnings(document)) == ["spec.workerGroupSpecs[0].resources.CPU"]

    def test_resources_are_set_in_one_place(self) -> None:
        """raycluster EX-11a, pod-template 24.8."""
        both: dict[str, Any] = {"rayStartParams": {"num-gpus": "1"}, "resources": {"GPU": "1"}}
        assert list(problems(manifest(group(**both), head=both))) == [
            "spec.headGroupSpec.resources",
            "spec.workerGroupSpecs[0].resources",
        ]
        for one in both:
            assert problems(manifest(group(**{one: both[one]}))) == {}
        assert problems(manifest(group(rayStartParams={"num-gpus": ""}, resources={"GPU": "1"}))) == {}

    def test_the_labels_parameter_is_refused_even_when_empty(self) -> None:
        """raycluster EX-11a, pod-template 24.9."""
        found = problems(manifest(group(rayStartParams={"labels": ""})))
        assert list(found) == ["spec.workerGroupSpecs[0].rayStartParams.labels"]

    @pytest.mark.parametrize("name", ["port", "dashboard-port", "dashboard-agent-listen-port", "metrics-export-port"])
    @pytest.mark.parametrize("port", ["65536", "9" * 5000], ids=["one too many", "long"])
    def test_a_port_that_no_machine_has_is_a_warning(self, name: str, port: str) -> None:
        params: dict[str, Any] = {"rayStartParams": {name: port}}
        document = manifest(group(**params), head=params)
        assert problems(document) == {}
        assert list(warnings(document)) == [
            f"spec.headGroupSpec.rayStartParams.{name}",
            f"spec.workerGroupSpecs[0].rayStartParams.{name}",
        ]

    @pytest.mark.parametrize("port", ["0", "65535", "008265", "$PORT", "²", ""])
    def test_what_the_shell_may_make_a_port_of_is_left_to_it(self, port: str) -> None:
        assert warnings(manifest(head={"rayStartParams": {"port": port}})) == {}

    @pytest.mark.parametrize(
        "text",
        [f'{{"a": {"9" * 400}}}', f'{{"a": {"9" * 5000}}}', "'{\"a\": 1e400}'", '{"a": NaN}', '{"a": ' + "[" * 100_000],
        ids=["large", "long", "exponent", "none", "deep"],
    )
    def test_resources_that_cannot_be_counted_are_refused(self, text: str) -> None:
        found = problems(manifest(group(rayStartParams={"resources": text})))
        assert list(found) == ["spec.workerGroupSpecs[0].rayStartParams.resources"]
        assert len(str(found)) < 200

    @pytest.mark.parametrize("text", ["$RESOURCES", r'"{\"Custom\": 1}"', '{"a": "1"}', "null", "'{\"TPU\": 4}'"])
    def test_what_the_shell_may_make_resources_of_is_left_to_it(self, text: str) -> None:
        assert problems(manifest(group(rayStartParams={"resources": text}))) == {}

    def test_labels_must_be_labels_of_kubernetes(self) -> None:
        """pod-template 24.9."""
        found = problems(manifest(head={"labels": {"x.io/zone": "a b", "-": "ok", "fine": ""}}))
        assert list(found) == ["spec.headGroupSpec.labels[x.io/zone]", "spec.headGroupSpec.labels[-]"]


class TestAutoscaling:
    V2: dict[str, Any] = {"enableInTreeAutoscaling": True, "autoscalerOptions": {"version": "v2"}}  # noqa: RUF012

    def test_a_groups_own_idle_timeout_needs_version_2(self) -> None:
        timed = group(idleTimeoutSeconds=5)
        assert list(problems(manifest(timed))) == ["spec.workerGroupSpecs[0].idleTimeoutSeconds"]
        assert problems(manifest(timed, **self.V2)) == {}
        by_variable = {"template": pod_with_env(RAY_enable_autoscaler_v2="true")}
        assert problems(manifest(timed, head=by_variable, enableInTreeAutoscaling=True)) == {}

    def test_an_idle_timeout_is_not_negative(self) -> None:
        assert list(problems(manifest(group(idleTimeoutSeconds=-1), **self.V2))) == [
            "spec.workerGroupSpecs[0].idleTimeoutSeconds"
        ]
        assert list(problems(manifest(autoscalerOptions={"idleTimeoutSeconds": -1}))) == [
            "spec.autoscalerOptions.idleTimeoutSeconds"
        ]

    @pytest.mark.parametrize("version", ["2.55.9", "nightly", ""])
    def test_priorities_need_a_ray_that_knows_them(self, version: str) -> None:
        document = manifest(group(priority=1), **self.V2 | {"rayVersion": version})
        assert list(problems(document)) == ["spec.workerGroupSpecs[0].priority"]
        assert problems(manifest(group(priority=0), rayVersion=version)) == {}
        assert problems(manifest(group(priority=1), **self.V2)) == {}

    def test_a_suspended_group_does_not_go_with_the_autoscaler(self) -> None:
        assert problems(manifest(group(suspend=True))) == {}
        assert list(problems(manifest(group(suspend=True), enableInTreeAutoscaling=True))) == [
            "spec.workerGroupSpecs[0].suspend"
        ]

    def test_a_suspended_group_needs_its_gate(self) -> None:
        gates = FeatureGates({Gate.RAY_JOB_DELETION_POLICY: False})
        assert list(problems(manifest(group(suspend=True)), gates)) == ["spec.workerGroupSpecs[0].suspend"]

    def test_the_version_is_chosen_in_one_place(self) -> None:
        """pod-template 24.10."""
        variable = "spec.headGroupSpec.template.spec.containers[0].env[0]"
        assert list(problems(manifest(head={"template": pod_with_env(RAY_enable_autoscaler_v2="0")}, **self.V2))) == [
            variable
        ]
        assert list(problems(manifest(head={"template": pod_with_env(RAY_enable_autoscaler_v2="1")}))) == [variable]

    def test_version_2_refuses_restarting_pods_and_version_1_warns_of_workers(self) -> None:
        """raycluster EX-11, pod-template 24.11."""
        restarting = pod(restartPolicy="Always")
        document = manifest(group(template=restarting), head={"template": restarting}, **self.V2)
        assert list(problems(document)) == [
            "spec.headGroupSpec.template.spec.restartPolicy",
            "spec.workerGroupSpecs[0].template.spec.restartPolicy",
        ]
        document["spec"]["autoscalerOptions"] = {"version": "v1"}
        assert problems(document) == {}
        assert list(warnings(document)) == ["spec.workerGroupSpecs[0].template.spec.restartPolicy"]

    def test_the_start_command_variable_is_the_operators(self) -> None:
        """pod-template 24.12."""
        options = {"env": [{"name": "A"}, {"name": "KUBERAY_GEN_AUTOSCALER_START_CMD"}]}
        found = problems(manifest(enableInTreeAutoscaling=True, autoscalerOptions=options))
        assert list(found) == ["spec.autoscalerOptions.env[1]"]

    def test_options_without_autoscaling_are_a_warning(self) -> None:
        assert list(warnings(manifest(autoscalerOptions={"image": "x"}))) == ["spec.autoscalerOptions"]


class TestFaultTolerance:
    def annotated(self, value: str) -> dict[str, Any]:
        return {"annotations": {"ray.io/ft-enabled": value}}

    def test_it_is_asked_for_in_one_way(self) -> None:
        """raycluster EX-09, pod-template 24.1."""
        found = problems(manifest(metadata=self.annotated("false"), **OPTIONS))
        assert list(found) == ["metadata.annotations[ray.io/ft-enabled]"]

    def test_the_annotation_is_deprecated(self) -> None:
        assert list(warnings(manifest(metadata=self.annotated("true")))) == ["metadata.annotations[ray.io/ft-enabled]"]

    def test_an_address_without_it_is_an_error(self) -> None:
        """raycluster EX-09, pod-template 24.2."""
        head = {"template": pod_with_env(RAY_REDIS_ADDRESS="redis:6379")}
        path = "spec.headGroupSpec.template.spec.containers[0].env[0]"
        assert list(problems(manifest(head=head))) == [path]
        assert list(problems(manifest(head=head, metadata=self.annotated("false")))) == [path]
        assert problems(manifest(head=head, metadata=self.annotated("TRUE"))) == {}

    def test_with_options_nothing_else_says_the_same(self) -> None:
        """pod-template 24.3, pod-template 24.4, pod-template 24.5."""
        head = {
            "template": pod_with_env(REDIS_PASSWORD="x", RAY_REDIS_ADDRESS="y"),
            "rayStartParams": {"redis-password": "x"},
        }
        metadata = {"annotations": {"ray.io/external-storage-namespace": "n"}}
        assert list(problems(manifest(head=head, metadata=metadata, **OPTIONS))) == [
            "spec.headGroupSpec.rayStartParams.redis-password",
            "spec.headGroupSpec.template.spec.containers[0].env[0]",
            "spec.headGroupSpec.template.spec.containers[0].env[1]",
            "metadata.annotations[ray.io/external-storage-namespace]",
        ]

    def test_a_redis_user_is_never_set_by_hand(self) -> None:
        """raycluster EX-10, pod-template 24.6."""
        head = {"template": pod_with_env(REDIS_USERNAME="u"), "rayStartParams": {"redis-username": "u"}}
        assert list(problems(manifest(head=head))) == [
            "spec.headGroupSpec.rayStartParams.redis-username",
            "spec.headGroupSpec.template.spec.containers[0].env[0]",
        ]

    def test_redis_has_no_volume_and_needs_no_address(self) -> None:
        """raycluster EX-11e, pod-template 24.7."""
        assert problems(manifest(gcsFaultToleranceOptions={})) == {}
        assert list(problems(manifest(gcsFaultToleranceOptions={"storage": {}}))) == [
            "spec.gcsFaultToleranceOptions.storage"
        ]

    def test_the_embedded_store_needs_its_gate(self) -> None:
        """raycluster EX-11e, pod-template 24.7."""
        document = manifest(gcsFaultToleranceOptions={"backend": "rocksdb"})
        assert problems(document) == {}
        assert list(problems(document, DEFAULT_GATES)) == ["spec.gcsFaultToleranceOptions.backend"]

    def test_the_embedded_store_takes_nothing_of_redis(self) -> None:
        """raycluster EX-11e, pod-template 24.7."""
        options = {
            "backend": "rocksdb",
            "redisAddress": "a",
            "redisUsername": {},
            "redisPassword": {"value": "x"},
            "externalStorageNamespace": "n",
        }
        assert [path.rpartition(".")[2] for path in problems(manifest(gcsFaultToleranceOptions=options))] == [
            "redisAddress",
            "redisUsername",
            "redisPassword",
            "externalStorageNamespace",
        ]

    def test_a_claim_of_the_user_has_its_own_size(self) -> None:
        """pod-template 24.7."""
        storage = {"claimName": "mine", "size": "1Gi", "accessModes": ["ReadWriteOnce"]}
        found = problems(manifest(gcsFaultToleranceOptions={"backend": "rocksdb", "storage": storage}))
        assert [path.rpartition(".")[2] for path in found] == ["size", "accessModes"]

    def test_what_the_operator_mounts_is_not_mounted_by_the_user(self) -> None:
        """pod-template 24.7."""
        template = pod_with_env(RAY_gcs_storage="x")
        template["spec"]["containers"][0]["volumeMounts"] = [{"name": "other", "mountPath": "/data/gcs"}]
        template["spec"]["volumes"] = [{"name": "gcs-storage"}]
        found = problems(manifest(head={"template": template}, gcsFaultToleranceOptions={"backend": "rocksdb"}))
        assert [path.removeprefix("spec.headGroupSpec.template.spec.") for path in found] == [
            "containers[0].env[0]",
            "containers[0].volumeMounts[0]",
            "volumes[0]",
        ]


class TestAuthentication:
    @pytest.mark.parametrize("mode", [{"mode": "token"}, {"mode": ""}, {}])
    @pytest.mark.parametrize("version", ["2.51.9", "nightly", ""])
    def test_tokens_need_a_ray_that_knows_them(self, mode: dict[str, str], version: str) -> None:
        """raycluster EX-11b."""
        assert list(problems(manifest(authOptions=mode, rayVersion=version))) == ["spec.rayVersion"]
        assert problems(manifest(authOptions=mode, rayVersion="2.52.0")) == {}

    def test_disabled_needs_nothing(self) -> None:
        assert problems(manifest(authOptions={"mode": "disabled"}, rayVersion="")) == {}

    def test_tokens_of_kubernetes_need_a_later_ray_and_no_secret(self) -> None:
        """raycluster EX-11b."""
        options = {"mode": "token", "enableK8sTokenAuth": True}
        assert list(problems(manifest(authOptions=options, rayVersion="2.54.0"))) == ["spec.rayVersion"]
        assert problems(manifest(authOptions=options, rayVersion="2.55.0")) == {}
        assert list(problems(manifest(authOptions=options | {"secretName": "s"}))) == ["spec.authOptions.secretName"]

    def test_tokens_of_kubernetes_need_token_mode(self) -> None:
        options = {"mode": "disabled", "enableK8sTokenAuth": True}
        assert list(problems(manifest(authOptions=options))) == ["spec.authOptions.enableK8sTokenAuth"]


class TestHistoryServer:
    def options(self, *env: dict[str, Any], **fields: Any) -> dict[str, Any]:
        return {"historyServerOptions": {"collectorOptions": {"image": "c", "env": list(env), **fields}}}

    def test_it_needs_its_gate(self) -> None:
        """pod-template 24.14."""
        document = manifest(**self.options({"name": "STORAGE_BACKEND", "value": "local"}))
        assert problems(document) == {}
        assert list(problems(document, DEFAULT_GATES)) == ["spec.historyServerOptions"]

    def test_it_needs_a_collector_with_an_image(self) -> None:
        collector = "spec.historyServerOptions.collectorOptions"
        assert list(problems(manifest(historyServerOptions={}))) == [collector]
        backend = {"name": "STORAGE_BACKEND", "value": "local"}
        assert list(problems(manifest(**self.options(backend, image="")))) == [f"{collector}.image"]

    @pytest.mark.parametrize("env", [{}, {"name": "STORAGE_BACKEND"}, {"name": "STORAGE_BACKEND", "valueFrom": {}}])
    def test_the_backend_is_a_literal(self, env: dict[str, Any]) -> None:
        assert list(problems(manifest(**self.options(env)))) == ["spec.historyServerOptions.collectorOptions.env"]

    @pytest.mark.parametrize(
        ("backend", "mode", "needs"),
        [
            ("gcs", "", ["GCS_BUCKET"]),
            ("S3", "", ["S3_REGION"]),
            ("AliyunOSS", "", ["OSS_BUCKET", "OSS_ENDPOINT", "OSS_REGION"]),
            ("azureblob", "", ["AZURE_STORAGE_ACCOUNT_URL"]),
            ("azureblob", " Connection_String ", ["AZURE_STORAGE_CONNECTION_STRING"]),
            ("azureblob", "workload_identity", ["AZURE_STORAGE_ACCOUNT_URL"]),
            ("anything", "", []),
        ],
    )
    def test_each_backend_has_needs(self, backend: str, mode: str, needs: list[str]) -> None:
        env = [{"name": "STORAGE_BACKEND", "value": backend}, {"name": "AZURE_STORAGE_AUTH_MODE", "value": mode}]
        assert bool(problems(manifest(**self.options(*env)))) == bool(needs)
        given = [{"name": name, "valueFrom": {"secretKeyRef": {}}} for name in needs]
        assert problems(manifest(**self.options(*env, *given))) == {}

    def test_what_the_operator_sets_is_not_set_by_the_user(self) -> None:
        env = [{"name": "STORAGE_BACKEND", "value": "x"}, {"name": "POD_IP", "value": "y"}]
        template = {"spec": {"containers": [{"name": "ray"}, {"name": "ray-history-collector"}]}}
        assert list(problems(manifest(group(template=template), **self.options(*env)))) == [
            "spec.historyServerOptions.collectorOptions.env[1]",
            "spec.workerGroupSpecs[0].template.spec.containers[1].name",
        ]


class TestNetwork:
    def test_policies_need_their_gate(self) -> None:
        """pod-template 24.14."""
        assert problems(manifest(networkPolicy={})) == {}
        assert list(problems(manifest(networkPolicy={}), DEFAULT_GATES)) == ["spec.networkPolicy"]

    def test_rules_are_for_the_closed_direction(self) -> None:
        """raycluster EX-11c."""
        rules: dict[str, Any] = {"ingressRules": [{}], "egressRules": [{}]}
        for mode, wrong in (("DenyAllEgress", "ingressRules"), ("DenyAllIngress", "egressRules")):
            policy = {
                "mode": mode,
                "head": rules,
                "worker": rules,
                "workerGroups": [{"groupName": "workers", **rules}],
            }
            assert list(problems(manifest(group(), networkPolicy=policy))) == [
                f"spec.networkPolicy.head.{wrong}",
                f"spec.networkPolicy.worker.{wrong}",
                f"spec.networkPolicy.workerGroups[0].{wrong}",
            ]
        assert problems(manifest(networkPolicy={"head": rules})) == {}

    def test_groups_have_names_that_objects_can_have_and_rules_name_groups_that_exist(self) -> None:
        """raycluster EX-11c."""
        policy = {"workerGroups": [{"groupName": "other"}]}
        assert list(problems(manifest(group("GPU-Group"), networkPolicy=policy))) == [
            "spec.workerGroupSpecs[0].groupName",
            "spec.networkPolicy.workerGroups[0].groupName",
        ]

    def test_tls_needs_its_gate_even_when_off(self) -> None:
        """raycluster EX-11d, pod-template 24.14."""
        document = manifest(tlsOptions={"enabled": False})
        assert problems(document) == {}
        assert list(problems(document, DEFAULT_GATES)) == ["spec.tlsOptions"]

    def test_with_tls_the_user_sets_none_of_its_parts(self) -> None:
        """raycluster EX-11d, pod-template 24.13."""
        template = pod_with_env(RAY_USE_TLS="1")
        template["spec"]["containers"][0]["volumeMounts"] = [{"name": "x", "mountPath": "/etc/ray/tls"}]
        options = {"env": [{"name": "RAY_TLS_CA_CERT"}], "volumeMounts": [{"name": "ray-tls", "mountPath": "/y"}]}
        document = manifest(group(template=template), autoscalerOptions=options, enableInTreeAutoscaling=True)
        assert problems(document) == {}
        document["spec"]["tlsOptions"] = {"enabled": True}
        assert list(problems(document)) == [
            "spec.workerGroupSpecs[0].template.spec.containers[0].env[0]",
            "spec.workerGroupSpecs[0].template.spec.containers[0].volumeMounts[0]",
            "spec.autoscalerOptions.env[0]",
            "spec.autoscalerOptions.volumeMounts[0]",
        ]


class TestUpgradeStrategy:
    @pytest.mark.parametrize("origin", ["RayJob", "RayService"])
    def test_a_cluster_of_a_job_or_service_has_none(self, origin: str) -> None:
        """raycluster EX-12."""
        labels = {"labels": {"ray.io/originated-from-crd": origin}}
        assert list(problems(manifest(metadata=labels, upgradeStrategy={"type": "None"}))) == [
            "spec.upgradeStrategy.type"
        ]
        assert problems(manifest(upgradeStrategy={"type": "None"})) == {}

    def test_other_words_are_refused(self) -> None:
        assert list(problems(manifest(upgradeStrategy={"type": "Rolling"}))) == ["spec.upgradeStrategy.type"]


class TestStatus:
    def test_a_cluster_is_not_suspending_and_suspended_at_once(self) -> None:
        def conditions(suspended: str) -> RayCluster:
            kinds = {"RayClusterSuspending": "True", "RayClusterSuspended": suspended}
            rest = {"reason": "R", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}
            return RayCluster.from_dict(
                {"status": {"conditions": [{"type": kind, "status": status, **rest} for kind, status in kinds.items()]}}
            )

        assert raycluster.status_problems(conditions("False")) == []
        assert [each.path for each in raycluster.status_problems(conditions("True"))] == ["status.conditions"]
