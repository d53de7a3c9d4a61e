from __future__ import annotations

from typing import Any

import pytest

from kuberay.api.gates import FeatureGates, Gate
from kuberay.api.problems import Severity
from kuberay.api.v1 import RayService
from kuberay.api.validate import rayservice
from tests.api.clusters import ALL_GATES, manifest

CLUSTER = manifest()["spec"]
SCALING = {**CLUSTER, "enableInTreeAutoscaling": True}
OPTIONS = {"stepSizePercent": 10, "intervalSeconds": 5, "gatewayClassName": "istio"}


def judged(spec: dict[str, Any], severity: Severity, gates: FeatureGates = ALL_GATES) -> list[str]:
    service = RayService.from_dict({"spec": {"rayClusterConfig": CLUSTER, **spec}})
    found = rayservice.spec_problems(service, gates)
    return [problem.path.removeprefix("spec.") for problem in found if problem.severity is severity]


def problems(**spec: Any) -> list[str]:
    return judged(spec, Severity.ERROR)


def incremental(**options: Any) -> dict[str, Any]:
    return {"type": "NewClusterWithIncrementalUpgrade", "clusterUpgradeOptions": {**OPTIONS, **options}}


class TestMetadata:
    def judged(self, timeout: str) -> bool:
        metadata = {"name": "demo", "annotations": {"ray.io/initializing-timeout": timeout}}
        return rayservice.metadata_problems(RayService.from_dict({"metadata": metadata})) == []

    @pytest.mark.parametrize("timeout", ["", "5m", "300", "1h30m", "100ms"])
    def test_a_timeout_is_a_duration_or_a_number_of_seconds(self, timeout: str) -> None:
        assert self.judged(timeout)

    @pytest.mark.parametrize("timeout", ["0", "-100", "-5m", "invalid", "1.5", "٣", "0s"])
    def test_other_timeouts_are_refused(self, timeout: str) -> None:
        assert not self.judged(timeout)

    def test_a_timeout_is_read_as_seconds(self) -> None:
        assert rayservice.initializing_timeout("5m") == rayservice.initializing_timeout("300") == 300

    def test_a_name_leaves_room_for_the_clusters(self) -> None:
        assert rayservice.metadata_problems(RayService.from_dict({"metadata": {"name": "a" * 47}})) == []
        assert rayservice.metadata_problems(RayService.from_dict({"metadata": {"name": "a" * 48}})) != []


class TestTheCluster:
    def test_the_rules_of_clusters_hold_under_the_services_path(self) -> None:
        assert problems() == []
        assert problems(rayClusterConfig={}) == ["rayClusterConfig.headGroupSpec.template.spec.containers"]

    def test_some_options_are_not_for_clusters_of_a_service(self) -> None:
        head = {**CLUSTER["headGroupSpec"], "headService": {"metadata": {"name": "mine"}}}
        cluster = {
            **CLUSTER,
            "headGroupSpec": head,
            "authOptions": {"enableK8sTokenAuth": True},
            "upgradeStrategy": {"type": "None"},
        }
        assert problems(rayClusterConfig=cluster) == [
            "rayClusterConfig.authOptions.enableK8sTokenAuth",
            "rayClusterConfig.upgradeStrategy.type",
            "rayClusterConfig.headGroupSpec.headService.metadata.name",
        ]


class TestUpgrades:
    @pytest.mark.parametrize("kind", ["NewCluster", "None", ""])
    def test_plain_strategies_need_nothing(self, kind: str) -> None:
        assert problems(upgradeStrategy={"type": kind}) == []

    def test_other_words_are_refused(self) -> None:
        assert problems(upgradeStrategy={"type": "Rolling"}) == ["upgradeStrategy.type"]

    def test_the_incremental_one_needs_the_autoscaler_and_its_options(self) -> None:
        assert problems(upgradeStrategy=incremental(), rayClusterConfig=SCALING) == []
        assert problems(upgradeStrategy={"type": "NewClusterWithIncrementalUpgrade"}) == [
            "rayClusterConfig.enableInTreeAutoscaling",
            "upgradeStrategy.clusterUpgradeOptions",
        ]

    @pytest.mark.parametrize(
        ("options", "wrong"),
        [
            ({"maxSurgePercent": 101}, "maxSurgePercent"),
            ({"stepSizePercent": -1}, "stepSizePercent"),
            ({"stepSizePercent": None}, "stepSizePercent"),
            ({"stepSizePercent": 50, "maxSurgePercent": 40}, "stepSizePercent"),
            ({"intervalSeconds": 0}, "intervalSeconds"),
            ({"gatewayClassName": ""}, "gatewayClassName"),
        ],
    )
    def test_its_options_have_bounds(self, options: dict[str, Any], wrong: str) -> None:
        assert problems(upgradeStrategy=incremental(**options), rayClusterConfig=SCALING) == [
            f"upgradeStrategy.clusterUpgradeOptions.{wrong}"
        ]

    def test_without_its_gate_it_is_only_a_warning(self) -> None:
        gates = FeatureGates({Gate.RAY_SERVICE_INCREMENTAL_UPGRADE: False})
        spec = {"upgradeStrategy": incremental(stepSizePercent=-1)}
        assert judged(spec, Severity.ERROR, gates) == []
        assert judged(spec, Severity.WARNING, gates) == ["upgradeStrategy.type"]

    def test_what_the_strategy_does_not_use_is_a_warning(self) -> None:
        spec = {"upgradeStrategy": incremental(), "rayClusterConfig": SCALING, "serveService": {}}
        assert judged(spec, Severity.WARNING) == ["serveService"]
        spec = {"upgradeStrategy": incremental() | {"type": "NewCluster"}}
        assert judged(spec, Severity.WARNING) == ["upgradeStrategy.clusterUpgradeOptions"]

    def test_an_upgrade_that_cannot_advance_is_a_warning(self) -> None:
        spec = {"upgradeStrategy": incremental(stepSizePercent=0), "rayClusterConfig": SCALING}
        assert judged(spec, Severity.ERROR) == []
        assert judged(spec, Severity.WARNING) == ["upgradeStrategy.clusterUpgradeOptions.stepSizePercent"]


class TestValues:
    def test_a_delay_is_not_negative(self) -> None:
        assert problems(rayClusterDeletionDelaySeconds=-1) == ["rayClusterDeletionDelaySeconds"]

    def test_thresholds_are_deprecated(self) -> None:
        spec = {"serviceUnhealthySecondThreshold": 1, "deploymentUnhealthySecondThreshold": 0}
        assert judged(spec, Severity.WARNING) == list(spec)
