"""What becomes of a policy whose name somebody else has, and of one that is lost."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from kuberay.api.partial import NetworkPolicy
from kuberay.api.v1 import RayCluster
from kuberay.controllers.kinds import RAY_CLUSTERS
from kuberay.controllers.networkpolicy.controller import NetworkPolicyController
from kuberay.controllers.options import ControllerOptions
from kuberay.controllers.running import CATCHING_UP, Crew
from kuberay.kube.controller import Result
from kuberay.kube.identity import Key
from kuberay.kube.informer import Informer
from kuberay.kube.resources import NETWORK_POLICIES
from kuberay.kube.store import Store
from tests.controllers.embedded import embedded
from tests.operator.world import World, living

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from kuberay.kube.recorder import Regarding
    from tests.controllers.embedded import Meddler


class Listener:
    """Takes the place of a recorder, and remembers what is told."""

    def __init__(self) -> None:
        self.reasons: list[str] = []

    def event(self, regarding: Regarding, kind: str, reason: str, action: str, note: str) -> None:
        self.reasons.append(reason)

    def has_heard(self, count: int) -> Any:
        async def holds() -> bool:
            return self.reasons.count("NetworkPolicyNameCollision") == count

        return holds


class Neighbour:
    """Somebody else in the namespace, who has policies of his own."""

    def __init__(self, world: World) -> None:
        self._world = world

    async def makes(self, name: str) -> None:
        policy = {
            "apiVersion": "networking.k8s.io/v1",
            "kind": "NetworkPolicy",
            "metadata": {"name": name},
            "spec": {"podSelector": {}},
        }
        await self._world.client.create(NETWORK_POLICIES, policy, namespace=self._world.namespace)

    async def removes(self, name: str) -> None:
        await self._world.client.delete(NETWORK_POLICIES, name, namespace=self._world.namespace)


class TestANameThatIsTaken:
    @pytest.fixture
    async def world(self) -> AsyncIterator[World]:
        client, _ = await embedded()
        async with living(client) as world:
            yield world

    @pytest.fixture
    async def told(self, world: World) -> AsyncIterator[Listener]:
        listener: Any = Listener()
        clusters = Informer(world.client, RAY_CLUSTERS, Store(), type=RayCluster, namespace=world.namespace)
        controller = NetworkPolicyController(
            world.client, listener, ControllerOptions(), clusters, namespace=world.namespace
        )
        stop = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            following = group.create_task(clusters.run())
            group.create_task(Crew("networkpolicy", [controller], workers=1).run(stop))
            yield listener
            stop.set()
            following.cancel()

    async def test_is_taken_up_as_soon_as_it_is_free_and_told_each_time(self, world: World, told: Listener) -> None:
        neighbour = Neighbour(world)
        await neighbour.makes("rc-head")
        await world.apply(networkPolicy={})
        await world.becomes(told.has_heard(1))
        await neighbour.removes("rc-head")

        async def is_closed() -> bool:
            page = await world.client.list(NETWORK_POLICIES, namespace=world.namespace)
            return {"rc-head", "rc-workers-wg"} == {each["metadata"]["name"] for each in page.items}

        await world.becomes(is_closed)
        await world.patch({"spec": {"networkPolicy": None}})

        async def is_open() -> bool:
            return not (await world.client.list(NETWORK_POLICIES, namespace=world.namespace)).items

        await world.becomes(is_open)
        await neighbour.makes("rc-head")
        await world.patch({"spec": {"networkPolicy": {}}})
        await world.becomes(told.has_heard(2))


class TestAPolicyThatIsLost:
    """By a controller that is told by hand what has happened."""

    @pytest.fixture
    async def scene(self) -> AsyncIterator[tuple[World, NetworkPolicyController, Meddler]]:
        client, meddler = await embedded()
        listener: Any = Listener()
        async with living(client) as world:
            await world.apply(networkPolicy={})
            clusters = await client.list(RAY_CLUSTERS, type=RayCluster)
            known: Store[RayCluster] = Store()
            known.replaced(clusters.items, clusters.resource_version)
            informer = Informer(client, RAY_CLUSTERS, known, type=RayCluster)
            controller = NetworkPolicyController(client, listener, ControllerOptions(), informer)
            controller.policies.replaced([], clusters.resource_version)
            await controller.reconcile(Key(world.namespace, "rc"))
            made = await client.list(NETWORK_POLICIES, type=NetworkPolicy)
            controller.policies.replaced(made.items, made.resource_version)
            assert len(controller.policies) == 2
            yield world, controller, meddler

    async def lose_one(self, world: World, controller: NetworkPolicyController) -> None:
        await world.delete(NETWORK_POLICIES, "rc-head")
        lost = controller.policies.get(world.namespace, "rc-head")
        assert lost is not None
        page = await world.client.list(NETWORK_POLICIES, namespace=world.namespace)
        controller.policies.removed(lost, page.resource_version)

    async def test_is_made_anew(self, scene: tuple[World, NetworkPolicyController, Meddler]) -> None:
        world, controller, _ = scene
        await self.lose_one(world, controller)
        await controller.reconcile(Key(world.namespace, "rc"))
        assert len(controller.policies) == 2

    async def test_is_not_made_anew_for_a_cluster_that_is_gone_though_nobody_has_said_so_yet(
        self, scene: tuple[World, NetworkPolicyController, Meddler]
    ) -> None:
        world, controller, meddler = scene
        await world.delete(RAY_CLUSTERS, "rc")
        await self.lose_one(world, controller)
        meddler.writes.clear()
        assert await controller.reconcile(Key(world.namespace, "rc")) == Result(requeue_after=CATCHING_UP)
        assert meddler.writes == []
