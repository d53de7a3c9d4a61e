"""What becomes of a policy whose name somebody else has."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from kuberay.controllers.networkpolicy.controller import NetworkPolicyController
from kuberay.controllers.options import ControllerOptions
from kuberay.controllers.running import Crew
from kuberay.kube.resources import NETWORK_POLICIES
from tests.controllers.embedded import embedded
from tests.operator.world import World, living

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from kuberay.kube.recorder import Regarding


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
        controller = NetworkPolicyController(world.client, listener, ControllerOptions(), namespace=world.namespace)
        stop = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            group.create_task(Crew("networkpolicy", [controller], workers=1).run(stop))
            yield listener
            stop.set()

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
