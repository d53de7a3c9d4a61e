"""What was just written is known before any watch tells of it.

KubeRay remembers what it expects to see, and leaves a group alone until then or until time is up. Here the answer of a
write is knowledge like any other: nothing is waited for, and nothing is done twice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kuberay.controllers.options import ControllerOptions
from kuberay.controllers.raycluster.controller import RayClusterController
from kuberay.kube.identity import Key, version_order
from kuberay.kube.recorder import Recorder
from kuberay.kube.resources import PODS
from tests.build.clusters import group
from tests.controllers.embedded import embedded
from tests.controllers.raycluster.test_controller import fill, is_create
from tests.operator.world import World, living

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.controllers.embedded import Meddler


OPTIONS = ControllerOptions(resync=None)


class Scene:
    """A controller that follows nothing: it knows what it wrote, and what it is told."""

    def __init__(self, world: World, meddler: Meddler) -> None:
        self.world = world
        self._meddler = meddler
        self.controller = RayClusterController(world.client, Recorder(world.client, "test"), OPTIONS)

    async def begin(self, *groups: dict[str, Any]) -> None:
        """Make a cluster, and work on it."""
        await self.world.apply(groups=list(groups))
        await self.tell_all()
        await self.work()

    async def scale(self, **fields: Any) -> None:
        """Change the one group, and work on that."""
        await self.world.patch({"spec": {"workerGroupSpecs": [group(**fields)]}})
        self.controller.clusters.applied(await self.world.cluster())
        await self.work()

    async def work(self) -> None:
        """A few passes: one too many would show."""
        for _ in range(6):
            await self.controller.reconcile(Key(self.world.namespace, "rc"))

    async def tell_all(self) -> None:
        await fill(self.controller, self.world.client)

    @property
    def creates(self) -> int:
        """How many Pods were asked for."""
        return sum(is_create(request, "pods") for request in self._meddler.writes)

    async def workers(self) -> set[str]:
        return {pod.metadata.uid for pod in await self.world.pods("worker") if not pod.is_leaving}


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    client, meddler = await embedded()
    async with living(client) as world:
        yield Scene(world, meddler)


async def test_a_pod_that_nobody_has_told_of_is_not_asked_for_again(scene: Scene) -> None:
    """raycluster EX-53."""
    await scene.begin(group(replicas=2))
    assert len(await scene.workers()) == 2
    assert scene.creates == 3


async def test_a_pod_that_takes_its_time_to_go_is_removed_once_and_replaced_at_once(scene: Scene) -> None:
    """raycluster EX-53: to KubeRay the group is frozen until it is gone."""
    held = {"metadata": {"finalizers": ["example.com/hold"]}}
    await scene.begin(group())
    (victim,) = await scene.world.pods("worker")
    await scene.world.client.patch(PODS, victim.name, held, namespace=scene.world.namespace)
    await scene.scale(scaleStrategy={"workersToDelete": [victim.name]})
    assert victim.name in [pod.name for pod in await scene.world.pods("worker") if pod.is_leaving]
    assert len(await scene.workers()) == 1
    release: dict[str, Any] = {"metadata": {"finalizers": None}}
    await scene.world.client.patch(PODS, victim.name, release, namespace=scene.world.namespace)


async def test_a_pod_that_was_gone_before_it_was_removed_leaves_nothing_to_wait_for(scene: Scene) -> None:
    """raycluster EX-54."""
    await scene.begin(group())
    (victim,) = await scene.world.pods("worker")
    await scene.world.delete(PODS, victim.name)
    await scene.scale(replicas=0, scaleStrategy={"workersToDelete": [victim.name]})
    assert await scene.workers() == set()
    await scene.scale(replicas=1)
    assert len(await scene.workers()) == 1


async def test_news_of_one_pod_does_not_hide_those_that_were_made_with_it(scene: Scene) -> None:
    """raycluster EX-55."""
    await scene.begin(group("a"), group("b", replicas=2))
    scene.controller.pods.applied(
        min(scene.controller.pods, key=lambda pod: version_order(pod.metadata.resource_version))
    )
    await scene.work()
    assert len(await scene.workers()) == 3
    assert scene.creates == 4


async def test_a_pod_that_is_gone_before_anybody_saw_it_is_replaced_when_that_is_known(scene: Scene) -> None:
    """raycluster EX-56: known by the watch and not by half a minute's silence."""
    await scene.begin(group())
    (lost,) = await scene.world.pods("worker")
    await scene.world.delete(PODS, lost.name)
    await scene.work()
    assert await scene.workers() == set()
    await scene.tell_all()
    await scene.work()
    assert len(await scene.workers()) == 1


async def test_the_replacement_of_a_lost_pod_has_another_name(scene: Scene) -> None:
    """Ray's autoscaler knows workers by their names, and has removed whom it takes for a dead one."""
    await scene.begin(group(replicas=2))
    lost, kept = await scene.world.pods("worker")
    await scene.world.client.delete(PODS, lost.name, namespace=scene.world.namespace, grace_period_seconds=0)
    await scene.tell_all()
    await scene.work()
    names = {pod.name for pod in await scene.world.pods("worker")}
    assert len(names) == 2
    assert kept.name in names
    assert lost.name not in names


async def test_a_pod_that_was_taken_out_by_its_label_is_replaced_under_another_name(scene: Scene) -> None:
    await scene.begin(group(replicas=2))
    taken_out, _ = await scene.world.pods("worker")
    unlabelled = {"metadata": {"labels": {"ray.io/node-type": None}}}
    await scene.world.client.patch(PODS, taken_out.name, unlabelled, namespace=scene.world.namespace)
    # An operator that was started only then does not know the name.
    scene.controller = RayClusterController(scene.world.client, Recorder(scene.world.client, "test"), OPTIONS)
    await scene.tell_all()
    await scene.work()
    assert len(await scene.workers()) == 2
    assert await scene.world.uid(PODS, taken_out.name) == taken_out.metadata.uid


async def test_a_cluster_that_is_gone_is_forgotten(scene: Scene) -> None:
    """raycluster EX-01."""
    await scene.begin(group())
    rc = await scene.world.cluster()
    scene.controller.clusters.removed(rc)
    assert await scene.controller.reconcile(Key(scene.world.namespace, "rc")) is None
    assert Key(scene.world.namespace, "rc") not in scene.controller._memory
