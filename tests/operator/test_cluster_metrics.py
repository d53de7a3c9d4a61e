"""Metrics of Ray clusters, under KubeRay's names."""

from __future__ import annotations

import pytest

from kuberay.api.v1 import RayCluster
from kuberay.kube.metrics import Metrics
from kuberay.kube.store import Store
from kuberay.operator.cluster_metrics import ClusterMetrics

WHICH = 'name="rc",namespace="ns",uid="u1"'


def cluster(*, provisioned: bool, version: int, uid: str = "u1", origin: str | None = None) -> RayCluster:
    condition = {
        "type": "RayClusterProvisioned",
        "status": "True" if provisioned else "False",
        "reason": "R",
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    return RayCluster.from_dict(
        {
            "apiVersion": "ray.io/v1",
            "kind": "RayCluster",
            "metadata": {
                "name": "rc",
                "namespace": "ns",
                "uid": uid,
                "resourceVersion": str(version),
                "creationTimestamp": "2026-01-01T00:00:00Z",
                "labels": {"ray.io/originated-from-crd": origin} if origin else {},
            },
            "spec": {"headGroupSpec": {"template": {"spec": {"containers": []}}}},
            "status": {"conditions": [condition]},
        }
    )


class Scene:
    """A store of clusters and its metrics, eight seconds after the clusters' creation."""

    def __init__(self, *, leads: bool = True) -> None:
        self.metrics = Metrics()
        self.store: Store[RayCluster] = Store()
        ClusterMetrics(self.metrics, [self.store], leads=lambda: leads, now=lambda: 1767225608.0)

    async def lines(self, name: str) -> list[str]:
        text = (await self.metrics.render()).decode()
        return [line for line in text.splitlines() if line.startswith(f"{name}{{")]


class TestOfEachCluster:
    @pytest.mark.parametrize(("origin", "kind"), [(None, "None"), ("RayJob", "RayJob")])
    async def test_there_is_a_line_with_who_owns_it(self, origin: str | None, kind: str) -> None:
        scene = Scene()
        scene.store.replaced([cluster(provisioned=False, version=1, origin=origin)], "1")
        assert await scene.lines("kuberay_cluster_info") == [
            f'kuberay_cluster_info{{name="rc",namespace="ns",owner_kind="{kind}",uid="u1"}} 1.0'
        ]

    @pytest.mark.parametrize(("provisioned", "text"), [(True, "true"), (False, "false")])
    async def test_there_is_a_line_with_whether_it_is_provisioned(self, provisioned: bool, text: str) -> None:
        scene = Scene()
        scene.store.replaced([cluster(provisioned=provisioned, version=1)], "1")
        [line] = await scene.lines("kuberay_cluster_condition_provisioned")
        assert f'condition="{text}"' in line
        assert line.endswith(" 1.0")

    async def test_a_cluster_that_is_gone_has_no_line(self) -> None:
        scene = Scene()
        scene.store.replaced([cluster(provisioned=True, version=1)], "1")
        scene.store.removed(cluster(provisioned=True, version=2))
        assert await scene.lines("kuberay_cluster_info") == []


class TestDuration:
    NAME = "kuberay_cluster_provisioned_duration_seconds"

    async def test_it_is_set_when_a_cluster_becomes_provisioned(self) -> None:
        """raycluster EX-99."""
        scene = Scene()
        scene.store.replaced([cluster(provisioned=False, version=1)], "1")
        assert await scene.lines(self.NAME) == []
        scene.store.applied(cluster(provisioned=True, version=2))
        assert await scene.lines(self.NAME) == [f"{self.NAME}{{{WHICH}}} 8.0"]

    async def test_it_is_not_set_for_one_that_was_provisioned_before(self) -> None:
        """raycluster EX-99."""
        scene = Scene()
        scene.store.replaced([cluster(provisioned=True, version=1)], "1")
        scene.store.applied(cluster(provisioned=True, version=2))
        assert await scene.lines(self.NAME) == []

    async def test_it_goes_with_the_cluster(self) -> None:
        """raycluster EX-01."""
        scene = Scene()
        scene.store.replaced([cluster(provisioned=False, version=1)], "1")
        scene.store.applied(cluster(provisioned=True, version=2))
        scene.store.removed(cluster(provisioned=True, version=3))
        assert await scene.lines(self.NAME) == []

    async def test_another_cluster_of_the_same_name_starts_anew(self) -> None:
        scene = Scene()
        scene.store.replaced([cluster(provisioned=False, version=1)], "1")
        scene.store.applied(cluster(provisioned=True, version=2, uid="u2"))
        assert await scene.lines(self.NAME) == []

    async def test_it_goes_with_a_cluster_whose_name_was_taken_before_anybody_saw_it_go(self) -> None:
        scene = Scene()
        scene.store.replaced([cluster(provisioned=False, version=1)], "1")
        scene.store.applied(cluster(provisioned=True, version=2))
        scene.store.replaced([cluster(provisioned=False, version=9, uid="u2")], "9")
        assert await scene.lines(self.NAME) == []

    async def test_a_standby_does_not_measure(self) -> None:
        scene = Scene(leads=False)
        scene.store.replaced([cluster(provisioned=False, version=1)], "1")
        scene.store.applied(cluster(provisioned=True, version=2))
        assert await scene.lines(self.NAME) == []
