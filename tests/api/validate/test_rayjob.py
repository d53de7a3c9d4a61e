from __future__ import annotations

from typing import Any

import pytest

from kuberay.api.gates import FeatureGates, Gate
from kuberay.api.problems import Severity
from kuberay.api.v1 import RayJob
from kuberay.api.validate import rayjob
from tests.api.clusters import ALL_GATES, manifest, pod

CLUSTER = manifest()["spec"]
SELECTED = {"clusterSelector": {"ray.io/cluster": "mine"}}


def judged(spec: dict[str, Any], severity: Severity, gates: FeatureGates = ALL_GATES) -> list[str]:
    found = rayjob.spec_problems(RayJob.from_dict({"spec": spec}), gates)
    return [problem.path.removeprefix("spec.") for problem in found if problem.severity is severity]


def problems(gates: FeatureGates = ALL_GATES, **spec: Any) -> list[str]:
    """Paths of the errors of a job that has a cluster of its own, unless it says otherwise."""
    return judged({"rayClusterSpec": CLUSTER, **spec}, Severity.ERROR, gates)


def rule(policy: str, ttl: int = 0, status: str = "SUCCEEDED") -> dict[str, Any]:
    return {"policy": policy, "condition": {"jobStatus": status, "ttlSeconds": ttl}}


class TestNames:
    @pytest.mark.parametrize(("name", "fine"), [("a" * 47, True), ("a" * 48, False), ("1a", False)])
    def test_a_name_leaves_room_for_the_clusters(self, name: str, fine: bool) -> None:
        assert (rayjob.metadata_problems(RayJob.from_dict({"metadata": {"name": name}})) == []) is fine


class TestTheCluster:
    def test_one_of_the_two_ways_to_a_cluster_is_needed(self) -> None:
        assert judged({}, Severity.ERROR) == ["spec"]
        assert judged({"clusterSelector": {}}, Severity.ERROR) == ["spec"]
        assert problems() == []
        assert judged(SELECTED, Severity.ERROR) == []

    def test_a_selector_names_a_cluster(self) -> None:
        assert judged({"clusterSelector": {"other": "x"}}, Severity.ERROR) == ["clusterSelector"]

    def test_a_selected_cluster_is_not_the_jobs_own(self) -> None:
        spec = {**SELECTED, "suspend": True, "shutdownAfterJobFinishes": True, "backoffLimit": 1}
        assert judged(spec, Severity.ERROR) == ["suspend", "backoffLimit"]
        assert judged({**SELECTED, "submissionMode": "SidecarMode"}, Severity.ERROR) == ["submissionMode"]

    def test_other_keys_of_a_selector_are_a_warning(self) -> None:
        selector = {"ray.io/cluster": "mine", "zone": "a"}
        assert judged({"clusterSelector": selector}, Severity.WARNING) == ["clusterSelector.zone"]

    def test_a_cluster_beside_a_selector_is_a_warning(self) -> None:
        assert judged({**SELECTED, "rayClusterSpec": CLUSTER}, Severity.WARNING) == ["rayClusterSpec"]

    def test_the_rules_of_clusters_hold_under_the_jobs_path(self) -> None:
        assert problems(rayClusterSpec={}) == ["rayClusterSpec.headGroupSpec.template.spec.containers"]
        tokens = {**CLUSTER, "authOptions": {"enableK8sTokenAuth": True}}
        assert problems(rayClusterSpec=tokens) == ["rayClusterSpec.authOptions.enableK8sTokenAuth"]
        upgrade = {**CLUSTER, "upgradeStrategy": {"type": "Recreate"}}
        assert problems(rayClusterSpec=upgrade) == ["rayClusterSpec.upgradeStrategy.type"]


class TestSubmission:
    def test_an_interactive_job_is_not_tried_again(self) -> None:
        assert problems(submissionMode="InteractiveMode", backoffLimit=1) == ["backoffLimit"]

    def test_a_sidecar_is_not_a_pod_and_not_restarted(self) -> None:
        head = {"headGroupSpec": {"template": pod(restartPolicy="Always")}}
        assert problems(
            submissionMode="SidecarMode", submitterPodTemplate={}, submitterConfig={}, rayClusterSpec=head
        ) == [
            "submitterPodTemplate",
            "submitterConfig",
            "rayClusterSpec.headGroupSpec.template.spec.restartPolicy",
        ]

    @pytest.mark.parametrize("mode", ["HTTPMode", "InteractiveMode"])
    def test_without_a_pod_that_submits_its_settings_are_a_warning(self, mode: str) -> None:
        spec = {"rayClusterSpec": CLUSTER, "submissionMode": mode, "submitterPodTemplate": {}, "submitterConfig": {}}
        assert judged(spec, Severity.ERROR) == []
        assert judged(spec, Severity.WARNING) == ["submitterPodTemplate", "submitterConfig"]

    def test_an_unknown_mode_is_a_warning(self) -> None:
        assert problems(submissionMode="Pigeon") == []
        assert judged({"rayClusterSpec": CLUSTER, "submissionMode": "Pigeon"}, Severity.WARNING) == ["submissionMode"]


class TestValues:
    @pytest.mark.parametrize(
        "field", ["activeDeadlineSeconds", "preRunningDeadlineSeconds", "backoffLimit", "ttlSecondsAfterFinished"]
    )
    def test_numbers_are_not_negative(self, field: str) -> None:
        assert judged({"rayClusterSpec": CLUSTER, field: -1}, Severity.ERROR) == [field]

    @pytest.mark.parametrize("field", ["activeDeadlineSeconds", "preRunningDeadlineSeconds"])
    def test_a_deadline_is_not_zero(self, field: str) -> None:
        assert judged({"rayClusterSpec": CLUSTER, field: 0}, Severity.ERROR) == [field]

    @pytest.mark.parametrize(
        ("text", "fine"), [('{"a": 1}', True), ("", True), ("[1]", False), ("{", False), ("x", False)]
    )
    def test_resources_that_are_no_json_object_are_a_warning(self, text: str, fine: bool) -> None:
        found = judged({"rayClusterSpec": CLUSTER, "entrypointResources": text}, Severity.WARNING)
        assert found == ([] if fine else ["entrypointResources"])

    @pytest.mark.parametrize("text", ["", "pip: [x]", "null", "# nothing"])
    def test_a_runtime_environment_is_a_mapping_or_nothing(self, text: str) -> None:
        assert problems(runtimeEnvYAML=text) == []

    @pytest.mark.parametrize(
        "text", ["[1]", "word", "a: b: c", "\ta: 1", "a: &x [*x]\nb: *y", "- " * 3000, "[" * 100_000, "a: 1\n---\nb: 2"]
    )
    def test_other_texts_are_told(self, text: str) -> None:
        assert problems(runtimeEnvYAML=text) == ["runtimeEnvYAML"]


class TestEnding:
    def test_suspending_and_waiting_need_a_shutdown(self) -> None:
        assert problems(suspend=True, ttlSecondsAfterFinished=5) == ["suspend", "ttlSecondsAfterFinished"]
        assert problems(suspend=True, ttlSecondsAfterFinished=5, shutdownAfterJobFinishes=True) == []

    def test_a_strategy_needs_its_gate(self) -> None:
        gates = FeatureGates({Gate.RAY_JOB_DELETION_POLICY: False})
        strategy = {"deletionRules": [rule("DeleteSelf")]}
        assert problems(deletionStrategy=strategy) == []
        assert problems(gates, deletionStrategy=strategy) == ["deletionStrategy"]

    def test_a_strategy_says_something(self) -> None:
        assert problems(deletionStrategy={}) == ["deletionStrategy"]

    def test_rules_stand_alone(self) -> None:
        strategy = {"deletionRules": [rule("DeleteSelf")], "onSuccess": {}}
        assert problems(deletionStrategy=strategy, shutdownAfterJobFinishes=True) == [
            "deletionStrategy.deletionRules",
            "deletionStrategy.deletionRules",
        ]

    @pytest.mark.parametrize("condition", [{}, {"jobStatus": "FAILED", "jobDeploymentStatus": "Failed"}])
    def test_a_condition_is_about_one_state(self, condition: dict[str, str]) -> None:
        strategy = {"deletionRules": [{"policy": "DeleteSelf", "condition": condition}]}
        assert problems(deletionStrategy=strategy) == ["deletionStrategy.deletionRules[0].condition"]

    def test_no_rule_is_said_twice_and_none_waits_less_than_nothing(self) -> None:
        rules = [rule("DeleteSelf"), rule("DeleteSelf", 5), rule("DeleteCluster", -1)]
        assert problems(deletionStrategy={"deletionRules": rules}) == [
            "deletionStrategy.deletionRules[1]",
            "deletionStrategy.deletionRules[2].condition.ttlSeconds",
        ]

    def test_workers_go_before_their_cluster_and_the_cluster_before_the_job(self) -> None:
        rules = [rule("DeleteSelf", 10), rule("DeleteWorkers", 30), rule("DeleteCluster", 20)]
        assert problems(deletionStrategy={"deletionRules": rules}) == [
            "deletionStrategy.deletionRules[2].condition.ttlSeconds",
            "deletionStrategy.deletionRules[0].condition.ttlSeconds",
        ]
        other_ends = [rule("DeleteSelf", 10), rule("DeleteWorkers", 30, "FAILED")]
        assert problems(deletionStrategy={"deletionRules": other_ends}) == []
        same_time = [rule(policy, 5) for policy in ("DeleteWorkers", "DeleteCluster", "DeleteSelf")]
        assert problems(deletionStrategy={"deletionRules": same_time}) == []

    def test_only_an_own_cluster_is_deleted(self) -> None:
        rules = [rule("DeleteCluster"), rule("DeleteWorkers"), rule("DeleteSelf"), rule("DeleteNone")]
        assert judged({**SELECTED, "deletionStrategy": {"deletionRules": rules}}, Severity.ERROR) == [
            "deletionStrategy.deletionRules[0].policy",
            "deletionStrategy.deletionRules[1].policy",
        ]

    def test_the_autoscaler_would_bring_deleted_workers_back(self) -> None:
        cluster = {**CLUSTER, "enableInTreeAutoscaling": True}
        strategy = {"deletionRules": [rule("DeleteWorkers")]}
        assert problems(rayClusterSpec=cluster, deletionStrategy=strategy) == [
            "deletionStrategy.deletionRules[0].policy"
        ]

    @pytest.mark.parametrize(
        ("strategy", "wrong"),
        [
            ({"onSuccess": {"policy": "DeleteSelf"}}, "onFailure"),
            ({"onSuccess": {}, "onFailure": {"policy": "DeleteSelf"}}, "onSuccess.policy"),
        ],
    )
    def test_the_older_policies_come_in_pairs(self, strategy: dict[str, Any], wrong: str) -> None:
        assert problems(deletionStrategy=strategy) == [f"deletionStrategy.{wrong}"]

    def test_the_older_policies_are_deprecated_and_bound_by_the_same_rules(self) -> None:
        strategy = {"onSuccess": {"policy": "DeleteNone"}, "onFailure": {"policy": "DeleteCluster"}}
        assert problems(deletionStrategy=strategy) == []
        assert judged({"rayClusterSpec": CLUSTER, "deletionStrategy": strategy}, Severity.WARNING) == [
            "deletionStrategy"
        ]
        assert problems(deletionStrategy=strategy, shutdownAfterJobFinishes=True) == [
            "deletionStrategy.onSuccess.policy"
        ]
        assert judged({**SELECTED, "deletionStrategy": strategy}, Severity.ERROR) == [
            "deletionStrategy.onFailure.policy"
        ]


class TestStatus:
    def test_only_an_interactive_job_waits(self) -> None:
        waiting = {"status": {"jobDeploymentStatus": "Waiting"}}
        assert [each.path for each in rayjob.status_problems(RayJob.from_dict(waiting))] == [
            "status.jobDeploymentStatus"
        ]
        interactive = {**waiting, "spec": {"submissionMode": "InteractiveMode"}}
        assert rayjob.status_problems(RayJob.from_dict(interactive)) == []
