"""What has left is put back only for a cluster that is still there: watches of different kinds do not keep step."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from kuberay.api.gates import FeatureGates, Gate
from kuberay.controllers.kinds import RAY_CLUSTERS
from kuberay.controllers.options import ControllerOptions
from kuberay.controllers.raycluster.controller import RayClusterController
from kuberay.kube.identity import Key
from kuberay.kube.recorder import Recorder
from kuberay.kube.resources import PERSISTENT_VOLUME_CLAIMS, PODS, SERVICES
from tests.build.clusters import group
from tests.controllers.embedded import embedded
from tests.controllers.raycluster.test_controller import fill
from tests.operator.world import World, living

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from kuberay.kube.resources import Resource
    from tests.controllers.embedded import Meddler


class Scene:
    """A cluster that is settled, and a controller that is told by hand what has happened since."""

    def __init__(self, world: World, meddler: Meddler) -> None:
        self.world = world
        self.meddler = meddler
        gates = FeatureGates({Gate.GCS_FAULT_TOLERANCE_EMBEDDED_STORAGE: True})
        options = ControllerOptions(resync=None, status_delay=0.0, gates=gates)
        self.controller = RayClusterController(world.client, Recorder(world.client, "test"), options)

    async def work(self) -> None:
        for _ in range(6):
            await self.controller.reconcile(Key(self.world.namespace, "rc"))

    async def lose_service(self) -> None:
        [service] = self.controller.services
        await self.world.client.delete(SERVICES, service.name, namespace=self.world.namespace)
        self.controller.services.removed(service, await self._version(SERVICES))

    async def lose_workers(self) -> None:
        for pod in await self.world.pods("worker"):
            await self.world.client.delete(PODS, pod.name, namespace=self.world.namespace, grace_period_seconds=0)
            self.controller.pods.removed(pod, await self._version(PODS))

    async def lose_claim(self) -> None:
        [claim] = self.controller.claims
        # Its finalizer waits for no Pod to use it: a node's business, and there is none.
        free = {"metadata": {"finalizers": None}}
        await self.world.client.patch(PERSISTENT_VOLUME_CLAIMS, claim.name, free, namespace=self.world.namespace)
        await self.world.delete(PERSISTENT_VOLUME_CLAIMS, claim.name)
        self.controller.claims.removed(claim, await self._version(PERSISTENT_VOLUME_CLAIMS))

    async def _version(self, resource: Resource) -> str:
        return (await self.world.client.list(resource, namespace=self.world.namespace)).resource_version

    @property
    def looks(self) -> int:
        """How often the server was asked for a cluster."""
        return sum("/rayclusters/" in request.path for request in self.meddler.reads)

    def forget(self) -> None:
        self.meddler.reads.clear()
        self.meddler.writes.clear()


@asynccontextmanager
async def settled(**fields: Any) -> AsyncIterator[Scene]:
    client, meddler = await embedded()
    async with living(client) as world:
        made = Scene(world, meddler)
        await world.apply(groups=[group(replicas=2)], **fields)
        await fill(made.controller, client)
        await made.work()
        made.forget()
        yield made


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    async with settled() as made:
        yield made


async def test_what_left_with_its_cluster_is_not_put_back(scene: Scene) -> None:
    await scene.world.delete(RAY_CLUSTERS, "rc")
    await scene.lose_service()
    await scene.lose_workers()
    scene.forget()
    await scene.work()
    assert scene.meddler.writes == []


async def test_a_claim_that_left_with_its_cluster_is_not_put_back() -> None:
    async with settled(gcsFaultToleranceOptions={"backend": "rocksdb"}) as scene:
        await scene.world.delete(RAY_CLUSTERS, "rc")
        await scene.lose_claim()
        scene.forget()
        await scene.work()
        assert scene.meddler.writes == []


async def test_what_belonged_to_a_cluster_that_was_made_anew_is_not_put_back(scene: Scene) -> None:
    await scene.world.delete(RAY_CLUSTERS, "rc")
    await scene.world.apply(groups=[group(replicas=2)])
    await scene.lose_service()
    scene.forget()
    await scene.controller.reconcile(Key(scene.world.namespace, "rc"))
    assert scene.meddler.writes == []
    assert scene.controller.clusters.get(scene.world.namespace, "rc") == await scene.world.cluster()


async def test_what_left_by_itself_is_put_back_after_one_look_at_its_cluster(scene: Scene) -> None:
    await scene.lose_service()
    await scene.work()
    assert len(scene.controller.services) == 1
    assert scene.looks == 1


async def test_nobody_looks_at_a_cluster_that_grows_again_after_its_status_was_written(scene: Scene) -> None:
    for replicas in (0, 2):
        await scene.world.scale(replicas)
        scene.controller.clusters.applied(await scene.world.cluster())
        scene.forget()
        await scene.work()
        assert scene.looks == 0
    assert len(await scene.world.pods("worker")) >= 2
