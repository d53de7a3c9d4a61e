"""Clusters that outlive their head: what is left in Redis or on a volume when they go, and who removes it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from kuberay.api.gates import FeatureGates, Gate
from kuberay.controllers.kinds import RAY_CLUSTERS
from kuberay.controllers.raycluster.deletion import FINALIZER
from kuberay.kube.errors import NotFound
from kuberay.kube.resources import EVENTS, JOBS, NAMESPACES, PERSISTENT_VOLUME_CLAIMS
from kuberay.sim.kubelet import Fate
from tests.operator.world import OPTIONS, World, living, operating

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from kuberay.api.core import Pod
    from kuberay.kube.client import Client

pytestmark = pytest.mark.timeout(120)

EMBEDDED = replace(OPTIONS, gates=FeatureGates({Gate.GCS_FAULT_TOLERANCE_EMBEDDED_STORAGE: True}))
REDIS: dict[str, Any] = {"gcsFaultToleranceOptions": {"redisAddress": "redis:6379"}}
JOB = "rc-redis-cleanup"


@pytest.fixture
async def world(api: Client) -> AsyncIterator[World]:
    async with living(api) as world, operating(api, world.namespace, EMBEDDED):
        yield world


async def is_gone(world: World) -> None:
    async def holds() -> bool:
        try:
            await world.client.get(RAY_CLUSTERS, "rc", namespace=world.namespace)
        except NotFound:
            return True
        return False

    await world.becomes(holds)


async def has_job(world: World) -> dict[str, Any]:
    """Wait for the cleanup Job."""
    found: list[dict[str, Any]] = []

    async def holds() -> bool:
        page = await world.client.list(JOBS, namespace=world.namespace)
        found[:] = page.items
        return bool(found)

    await world.becomes(holds)
    return found[0]


class TestRedis:
    @pytest.fixture
    def cleanup(self, world: World) -> Callable[[Fate], None]:
        """Lets the Job's Pod end in a way; until then it never starts."""
        ends: list[Fate] = [Fate.PENDING]

        def fate(pod: Pod) -> Fate:
            return ends[-1] if pod.metadata.labels["ray.io/node-type"] == "redis-cleanup" else Fate.RUNNING

        def end(how: Fate) -> None:
            ends.append(how)
            world.kubelet.look_again()

        world.kubelet.fate = fate
        return end

    async def test_the_finalizer_is_there_when_the_cluster_is_ready(self, world: World) -> None:
        await world.apply(**REDIS)
        await world.ready(1)
        assert (await world.cluster()).metadata.finalizers == [FINALIZER]
        assert (await world.cluster()).metadata.generation == 1

    async def test_the_cluster_goes_when_its_state_has_been_removed(
        self, world: World, cleanup: Callable[[Fate], None]
    ) -> None:
        await world.apply(**REDIS)
        await world.ready(1)
        await world.delete(RAY_CLUSTERS, "rc")
        job = await has_job(world)
        assert job["metadata"]["name"] == JOB
        assert await world.has_event("CreatedRedisCleanupJob") == f"Created Redis cleanup Job {world.namespace}/{JOB}"
        assert [pod for pod in await world.pods() if pod.metadata.labels["ray.io/node-type"] != "redis-cleanup"] == []
        assert (await world.condition("RedisCleanup")).reason == "CleanupJobRunning"
        cleanup(Fate.SUCCEEDED)
        await is_gone(world)

    async def test_it_goes_too_when_that_fails_and_says_what_is_left(
        self, world: World, cleanup: Callable[[Fate], None]
    ) -> None:
        rc = await world.apply(**REDIS)
        await world.ready(1)
        await world.delete(RAY_CLUSTERS, "rc")
        await has_job(world)
        cleanup(Fate.FAILED)
        await is_gone(world)
        assert f"storage namespace {rc.metadata.uid}" in await world.has_event("RedisCleanupFailed")

    @pytest.mark.usefixtures("cleanup")
    async def test_a_cleanup_that_never_ends_is_given_up(self, world: World) -> None:
        rc = await world.apply(**REDIS, metadata={"annotations": {"ray.io/gcs-ft-deletion-timeout": "1"}})
        await world.ready(1)
        await world.delete(RAY_CLUSTERS, "rc")
        await is_gone(world)
        assert f"storage namespace {rc.metadata.uid}" in await world.has_event("ForceDeletedStuckCluster")

    async def test_an_invalid_spec_does_not_keep_it(self, world: World, cleanup: Callable[[Fate], None]) -> None:
        await world.apply(**REDIS)
        await world.ready(1)
        await world.patch({"spec": {"headGroupSpec": {"rayStartParams": {"redis-password": "x"}}}})
        await world.condition("Blocked")
        await world.delete(RAY_CLUSTERS, "rc")
        await has_job(world)
        cleanup(Fate.SUCCEEDED)
        await is_gone(world)

    async def test_fault_tolerance_that_was_switched_off_does_not_keep_it(self, world: World) -> None:
        await world.apply(**REDIS)
        await world.ready(1)
        await world.patch({"spec": {"gcsFaultToleranceOptions": None}})
        await world.delete(RAY_CLUSTERS, "rc")
        await is_gone(world)
        assert "switched off" in await world.has_event("SkippedRedisCleanup")

    async def test_a_namespace_that_is_deleted_goes(self, world: World) -> None:
        rc = await world.apply(**REDIS)
        await world.ready(1)
        await world.client.delete(NAMESPACES, world.namespace)
        await is_gone(world)
        notes: list[str] = []

        async def is_told() -> bool:
            page = await world.client.list(EVENTS, namespace="default")
            mine = [each for each in page.items if each["regarding"].get("name") == world.namespace]
            notes[:] = [each["note"] for each in mine if each["reason"] == "SkippedRedisCleanup"]
            return bool(notes)

        await world.becomes(is_told)
        assert f"storage namespace {rc.metadata.uid}" in notes[0]


class TestRocksDb:
    def storage(self, **storage: Any) -> dict[str, Any]:
        return {"gcsFaultToleranceOptions": {"backend": "rocksdb", "storage": storage}}

    async def claim(self, world: World) -> dict[str, Any]:
        claim: dict[str, Any] = await world.client.get(
            PERSISTENT_VOLUME_CLAIMS, "rc-gcs-pvc", namespace=world.namespace
        )
        return claim

    async def test_the_head_gets_a_claim_that_goes_with_the_cluster(self, world: World) -> None:
        rc = await world.apply(**self.storage(size="2Gi"))
        await world.ready(1)
        claim = await self.claim(world)
        assert claim["spec"]["resources"]["requests"]["storage"] == "2Gi"
        assert [each["uid"] for each in claim["metadata"]["ownerReferences"]] == [rc.metadata.uid]
        assert (await world.cluster()).metadata.finalizers == []
        assert await world.has_event("CreatedPVC") == f"Created GCS storage PVC {world.namespace}/rc-gcs-pvc"

    async def test_the_policy_decides_whose_it_is(self, world: World) -> None:
        await world.apply(**self.storage())
        await world.ready(1)
        for policy, count in (("Retain", 0), ("DeleteWithCluster", 1)):
            await world.patch({"spec": self.storage(deletionPolicy=policy)})

            async def is_so(count: int = count) -> bool:
                return len((await self.claim(world))["metadata"].get("ownerReferences", [])) == count

            await world.becomes(is_so)

    async def test_a_claim_is_not_resized_but_spoken_of(self, world: World) -> None:
        await world.apply(**self.storage())
        await world.ready(1)
        await world.patch({"spec": self.storage(size="5Gi")})
        assert "size is 1Gi and shall be 5Gi" in await world.has_event("FailedToCreatePVC")
        assert (await self.claim(world))["spec"]["resources"]["requests"]["storage"] == "1Gi"

    async def test_a_claim_of_the_user_that_is_missing_is_spoken_of(self, world: World) -> None:
        await world.apply(**self.storage(claimName="mine"))
        assert "/mine does not exist" in await world.has_event("FailedToCreatePVC")
        await world.ready(1)
