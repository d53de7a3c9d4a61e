from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kuberay.cli import main
from tests.api.clusters import group, manifest
from tests.api.upstream import RAY_KINDS, ROOT, documents, needs_upstream

if TYPE_CHECKING:
    from pathlib import Path

    from click.testing import Result

VALID = """\
apiVersion: ray.io/v1
kind: RayCluster
metadata:
  name: demo
spec:
  headGroupSpec:
    template:
      spec:
        containers:
        - name: ray
          image: rayproject/ray:2.52.0
"""


def run(*arguments: str, text: str | bytes = "") -> Result:
    return CliRunner().invoke(main, ["validate", *arguments], input=text)


def check(text: str | bytes) -> tuple[int, list[str]]:
    """The exit code and the printed problems for a text on standard input."""
    result = run("-", text=text)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.stdout.splitlines()


class TestProblems:
    def test_a_valid_manifest_prints_nothing_and_exits_with_0(self) -> None:
        assert check(VALID) == (0, [])

    def test_a_misspelt_field_is_told_with_its_line_and_a_suggestion(self) -> None:
        assert check(VALID + "  workerGroupSpec: []\n") == (
            1,
            ["<stdin>:12 RayCluster/demo spec.workerGroupSpec: unknown field; did you mean workerGroupSpecs?"],
        )

    def test_a_misspelt_field_inside_a_pod_too(self) -> None:
        assert check(VALID + "          imagePullPolice: Always\n") == (
            1,
            [
                "<stdin>:12 RayCluster/demo spec.headGroupSpec.template.spec.containers[0].imagePullPolice: "
                "unknown field; did you mean imagePullPolicy?"
            ],
        )

    @pytest.mark.parametrize(
        ("line", "message"),
        [
            ("  suspend: soon", "spec.suspend: expected a boolean, got a string"),
            ("  rayVersion: 2.5", "spec.rayVersion: expected a string, got a number"),
            ("  workerGroupSpecs: {}", "spec.workerGroupSpecs: expected a list, got an object"),
            ("  workerGroupSpecs: [null]", "spec.workerGroupSpecs[0]: expected an object, got null"),
            ("  managedBy: me", "spec.managedBy: managedBy must be"),
            ("  upgradeStrategy: {type: Often}", "spec.upgradeStrategy.type: must be one of 'Recreate', 'None'"),
            ("          resources: {limits: {cpu: 1.5e3m}}", "limits.cpu: expected a quantity like"),
            ("          resources: {limits: {cpu: ''}}", "limits.cpu: expected a quantity like"),
            ("          resources: {limits: {cpu: -1}}", "limits.cpu: must not be negative, got -1"),
            ("          resources: {limits: {cpu: 1}, requests: {cpu: 1100m}}", "1100m is more than the limit of 1"),
            ("  authOptions: {mode: token}", "spec.rayVersion: must be set for authOptions.mode token"),
            ("  networkPolicy: {}", "spec.networkPolicy: needs the feature gate RayClusterNetworkPolicy"),
        ],
    )
    def test_schema_rules_and_the_operators_rules_are_checked(self, line: str, message: str) -> None:
        code, found = check(f"{VALID}{line}\n")
        assert code == 1
        assert len(found) == 1
        assert message in found[0]

    def test_a_serve_config_that_cannot_be_read_is_told(self) -> None:
        document = manifest()
        spec = {"rayClusterConfig": document["spec"], "serveConfigV2": "applications:\n- name: [x"}
        code, found = check(json.dumps({**document, "kind": "RayService", "spec": spec}))
        assert code == 1
        assert "spec.serveConfigV2: line 2: not YAML" in found[0]

    def test_a_field_that_is_missing_is_told_where_it_should_be(self) -> None:
        assert check("apiVersion: ray.io/v1\nkind: RayCluster\nmetadata:\n  name: demo\nspec:\n  suspend: true\n") == (
            1,
            ["<stdin>:5 RayCluster/demo spec.headGroupSpec: is required"],
        )

    def test_null_where_an_object_belongs_is_as_good_as_nothing(self) -> None:
        code, found = check(
            "apiVersion: ray.io/v1\nkind: RayCluster\nmetadata: {name: demo}\nspec:\n  headGroupSpec:\n"
        )
        assert (code, found) == (1, ["<stdin>:5 RayCluster/demo spec.headGroupSpec: is required"])

    def test_what_has_the_wrong_shape_is_told_once(self) -> None:
        assert check(VALID.replace("name: demo", "name: 5", 1)) == (
            1,
            ["<stdin>:4 RayCluster/5 metadata.name: expected a string, got an integer"],
        )

    def test_a_repeated_key_is_a_problem(self) -> None:
        assert check(VALID + "  suspend: true\n  suspend: false\n") == (
            1,
            ["<stdin>:13 RayCluster/demo spec.suspend: stands here twice, first in line 12"],
        )

    def test_labels_and_names_are_those_of_kubernetes(self) -> None:
        code, found = check(VALID.replace("name: demo", "name: Demo\n  labels: {'a b': c}", 1))
        assert code == 1
        assert [line.split(": ")[0] for line in found] == [
            "<stdin>:5 RayCluster/Demo metadata.labels[a b]",
            "<stdin>:4 RayCluster/Demo metadata.name",
        ]

    @pytest.mark.parametrize(
        ("head", "message"),
        [
            ("apiVersion: ray.io/v1\nkind: RayClutser", "kind: ray.io has no kind 'RayClutser'"),
            ("apiVersion: ray.io/v2\nkind: RayCluster", "apiVersion: ray.io/v2 is not served for RayCluster"),
            (
                "apiVersion: ray.io/v1alpha1\nkind: RayCronJob",
                "apiVersion: ray.io/v1alpha1 is not served for RayCronJob",
            ),
            ("apiVersion: ray.io/v1", "kind: is missing"),
            ("- a", "expected a Kubernetes object, got a list"),
            ("text", "expected a Kubernetes object, got a string"),
        ],
    )
    def test_what_is_no_object_of_ray_is_told(self, head: str, message: str) -> None:
        code, found = check(head)
        assert code == 1
        assert message in found[0]


class TestWarnings:
    TEXT = VALID + "  autoscalerOptions: {}\n"

    def test_they_are_marked_and_do_not_fail(self) -> None:
        assert check(self.TEXT) == (
            0,
            [
                "<stdin>:12 RayCluster/demo spec.autoscalerOptions: "
                "warning: has no effect while enableInTreeAutoscaling is not true"
            ],
        )

    def test_a_letter_that_kubectl_reads_as_a_boolean_is_one(self) -> None:
        text = VALID.replace("  name: demo", "  name: demo\n  labels:\n    answer: y", 1)
        assert check(text) == (
            0,
            [
                "<stdin>:6 RayCluster/demo metadata.labels.answer: "
                "warning: kubectl takes y without quotes for a boolean; write 'y'"
            ],
        )

    def test_strict_makes_them_fail(self) -> None:
        assert run("--strict", "-", text=self.TEXT).exit_code == 1
        assert run("--strict", "-", text=VALID).exit_code == 0

    def test_the_old_version_is_one(self) -> None:
        old = VALID.replace("ray.io/v1", "ray.io/v1alpha1").replace(
            "    template", "    rayStartParams: {}\n    template"
        )
        code, found = check(old)
        assert code == 0
        assert found[0].startswith("<stdin>:1 RayCluster/demo apiVersion: warning: ray.io/v1alpha1 is deprecated")


class TestFiles:
    def test_other_kinds_pass_and_documents_are_counted(self, tmp_path: Path) -> None:
        file = tmp_path / "all.yaml"
        file.write_text(f"apiVersion: v1\nkind: ConfigMap\ndata: [what]\n---\n{VALID}---\n{VALID}  suspended: 1\n")
        result = run(str(file))
        assert result.exit_code == 1
        assert result.stdout == f"{file}:28 RayCluster/demo spec.suspended: unknown field; did you mean suspend?\n"
        assert result.stderr == "1 problem in 2 Ray objects of 1 file\n"

    def test_items_of_lists_are_checked(self) -> None:
        item = "\n".join("  " + line for line in VALID.splitlines())
        text = f"apiVersion: v1\nkind: List\nitems:\n-{item[1:]}\n    other: 1\n"
        assert check(text) == (1, ["<stdin>:15 RayCluster/demo spec.other: unknown field"])

    def test_items_of_a_typed_list_need_not_say_what_they_are(self) -> None:
        document = {"apiVersion": "ray.io/v1", "kind": "RayClusterList", "items": [{"metadata": {"name": "a"}}]}
        code, found = check(json.dumps(document))
        assert code == 1
        assert "RayCluster/a" in found[0]

    def test_an_unreadable_file_does_not_hide_the_others(self, tmp_path: Path) -> None:
        bad, good = tmp_path / "bad.yaml", tmp_path / "good.yaml"
        bad.write_text(f"{VALID}---\na: [\n")
        good.write_text(VALID + "  nope: 1\n")
        result = run(str(tmp_path / "gone.yaml"), str(bad), str(good), str(tmp_path))
        assert result.exit_code == 2
        assert [line.split(": ")[0] for line in result.stdout.splitlines()] == [
            f"{tmp_path / 'gone.yaml'}:0",
            f"{bad}:13",
            f"{good}:12 RayCluster/demo spec.nope",
            f"{tmp_path}:0",
        ]

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            (b"a: [", "<stdin>:1: not YAML"),
            (VALID.replace("    template", "\ttemplate", 1).encode(), "<stdin>:7: not YAML"),
            (b"\xff\xfe\x00", "<stdin>:0: not text in UTF-8"),
            (b"[" * 50_000, "<stdin>:1: nested deeper"),
        ],
    )
    def test_bad_files_are_told_in_words(self, text: bytes, message: str) -> None:
        code, found = check(text)
        assert code == 2
        assert found[0].startswith(message)

    def test_json_output_has_a_record_per_problem(self) -> None:
        result = run("--output", "json", "-", text=VALID + "  nope: 1\n")
        assert result.exit_code == 1
        assert json.loads(result.stdout) == [
            {
                "file": "<stdin>",
                "line": 12,
                "kind": "RayCluster",
                "name": "demo",
                "path": "spec.nope",
                "message": "unknown field",
                "severity": "error",
            }
        ]

    def test_a_gate_that_does_not_exist_is_refused(self) -> None:
        result = run("--feature-gates", "Nope=true", "-", text=VALID)
        assert result.exit_code == 2
        assert "feature gate 'Nope' is unknown" in result.stderr

    @pytest.mark.slow
    def test_thousands_of_problems_are_told_in_seconds(self) -> None:
        groups = [group(f"g{index}", replica=1, numOfHosts=0, minReplicas="x") for index in range(5000)]
        code, found = check(json.dumps(manifest(*groups)))
        assert code == 1
        assert len(found) == 10_000

    @pytest.mark.parametrize("long", ["x" * 1_000_000, "9" * 1_000_000, "1." + "9" * 10_000, "a-" * 500_000])
    def test_a_long_word_makes_a_short_message(self, long: str) -> None:
        text = VALID.replace("name: demo", f"name: demo\n  labels: {{a: {long}}}", 1)
        for part in (
            f"  rayVersion: {long}\n  authOptions: {{}}\n",
            f"  upgradeStrategy: {{type: '{long}'}}\n",
            f"  {long}: 1\n",
        ):
            code, found = check(text + part)
            assert code in (1, 2)
            assert max(map(len, found)) < 400

    @pytest.mark.slow
    def test_a_file_of_three_megabytes_is_checked_in_seconds(self) -> None:
        groups = [group(f"g{index}", rayStartParams={"a": "b" * 500}) for index in range(5000)]
        text = yaml.dump(manifest(*groups), Dumper=yaml.CSafeDumper)
        assert len(text) > 3_000_000
        assert check(text) == (0, [])


@needs_upstream
class TestUpstream:
    """The records say which flags the operator had, and what it thought of the manifest."""

    FILES = sorted([*ROOT.glob("samples/*.yaml"), *ROOT.glob("cases/*.yaml")])

    @pytest.mark.parametrize("file", FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
    def test_a_manifest_fails_when_the_operator_or_the_server_refused_it(self, file: Path) -> None:
        if not any(document.get("kind") in RAY_KINDS for document in documents(file)):
            pytest.skip("holds no Ray object")
        record = self.record(file)
        gates = [flag for flag in record["flags"] if flag.startswith("--feature-gates")]
        result = run(*gates, str(file))
        refused = [event["note"] for event in record["events"] if event["reason"].startswith("Invalid")]
        refused += [answer["message"] for answer in record.get("rejected", [])]
        refused += self.REFUSED_HERE.get(file.stem, [])
        assert result.exit_code == (1 if refused else 0), result.output
        for note in refused:
            named = self.FIELDS[file.stem]
            assert named in result.stdout
            assert self.same_words(named, note), (named, note)

    REFUSED_HERE = {  # noqa: RUF012
        "hosts-zero": ["numOfHosts"],
        "cpu-limit-zero-falls-to-request": ["requests"],
    }
    """What upstream takes and we refuse: no worker could ever run (the second is refused by the API server later)."""

    FIELDS = {  # noqa: RUF012
        "cpu-limit-zero-falls-to-request": "requests",
        "cron-invalid-zone": "timeZone",
        "history-gate-off": "historyServer",
        "history-gcs-without-bucket": "GCS_BUCKET",
        "history-no-collector": "historyServerOptions.collectorOptions",
        "history-no-image": "historyServerOptions.collectorOptions.image",
        "hosts-zero": "numOfHosts",
        "invalid-auth-kubernetes-and-secret": "authOptions.secretName",
        "invalid-auth-kubernetes-old": "authOptions.enableK8sTokenAuth",
        "invalid-auth-kubernetes-without-token-mode": "authOptions.enableK8sTokenAuth",
        "invalid-auth-version-nightly": "rayVersion",
        "invalid-auth-version-old": "authOptions.mode",
        "invalid-autoscaler-idle-negative": "autoscalerOptions.idleTimeoutSeconds",
        "invalid-ft-address-variable": "RAY_REDIS_ADDRESS",
        "invalid-ft-annotation-and-options": "ray.io/ft-enabled",
        "invalid-ft-namespace-annotation": "ray.io/external-storage-namespace",
        "invalid-ft-password-variable": "REDIS_PASSWORD",
        "invalid-group-idle-without-v2": "idleTimeoutSeconds",
        "invalid-head-params-and-resources": "rayStartParams",
        "invalid-labels-param-empty": "labels",
        "invalid-max-negative": "maxReplicas",
        "invalid-min-negative": "minReplicas",
        "invalid-num-gpus-and-group-resources": "rayStartParams",
        "invalid-priority-version-nightly": "priority",
        "invalid-redis-username-param": "redisUsername",
        "invalid-rocksdb-claim-and-size": "claimName",
        "invalid-rocksdb-own-mount": "gcs-storage",
        "invalid-rocksdb-own-variable": "RAY_gcs_storage",
        "invalid-suspended-group-with-autoscaler": "suspend",
        "invalid-upgrade-strategy-of-job": "upgradeStrategy",
        "invalid-upgrade-strategy-of-service": "upgradeStrategy",
        "invalid-v2-worker-restart-policy": "restartPolicy",
        "job-invalid-both-styles": "deletionStrategy.deletionRules",
        "job-invalid-sidecar-restart-policy": "restartPolicy",
        "mtls-gate-off": "tlsOptions",
        "network-policy-gate-off": "networkPolicy",
        "network-policy-ingress-rules-in-egress-mode": "networkPolicy.head.ingressRules",
        "rejected-managed-by-other": "spec.managedBy",
        "rejected-name-upper-case": "metadata.name",
        "rejected-start-param-number": "spec.headGroupSpec.rayStartParams.num-cpus",
        "rejected-upscaling-mode": "spec.autoscalerOptions.upscalingMode",
        "service-invalid-incremental": "NewClusterWithIncrementalUpgrade",
    }
    """The field (or the variable) that both messages name."""

    def record(self, file: Path) -> dict[str, Any]:
        folder = "golden" if file.parent.name == "samples" else "cases-golden"
        loaded: dict[str, Any] = json.loads((ROOT / folder / f"{file.stem}.json").read_text())
        return loaded

    def same_words(self, field: str, note: str) -> bool:
        """Whether a note speaks of a field, spelled in Go's way or in words."""
        return re.sub(r"[^a-z]", "", field.lower()) in re.sub(r"[^a-z]", "", note.lower())


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)


class TestFuzz:
    """Whatever stands in a file, there is a verdict and never a traceback."""

    @given(st.binary() | st.text().map(str.encode))
    def test_any_bytes(self, content: bytes) -> None:
        assert check(content)[0] in (0, 1, 2)

    @given(st.text(alphabet=" \n\t-:[]{}'\"#&*!|>%@`?,abkr1.~", max_size=40), st.integers(0, len(VALID)))
    def test_a_manifest_with_something_pasted_into_it(self, junk: str, place: int) -> None:
        assert check(VALID[:place] + junk + VALID[place:])[0] in (0, 1, 2)

    @settings(suppress_health_check=[HealthCheck.too_slow])
    @given(st.data())
    def test_any_value_at_any_place(self, data: st.DataObject) -> None:
        document: Any = manifest(group(labels={"a": "b"}, scaleStrategy={"workersToDelete": ["x"]}), suspend=True)
        holder, key = document, data.draw(st.sampled_from(sorted(document)))
        while data.draw(st.booleans()) and holder[key] and isinstance(holder[key], dict | list):
            holder = holder[key]
            keys = sorted(holder) if isinstance(holder, dict) else list(range(len(holder)))
            key = data.draw(st.sampled_from(keys))
        holder[key] = data.draw(ANYTHING)
        assert check(json.dumps(document))[0] in (0, 1, 2)
