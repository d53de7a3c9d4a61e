"""An operator that dies in the middle of things, at every point there is, and another that goes on.

The transport is cut after so many writes: the write itself is carried out, and nobody hears of it, as when a process is
killed. Then a new operator starts with empty caches. However often and wherever it happened, the end is the same and
no healthy Pod is lost on the way.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from kuberay.controllers.kinds import RAY_CLUSTERS
from kuberay.engine.apiserver import ApiServer, InProcessTransport, MemoryStorage
from kuberay.engine.loops import GarbageCollector, Namespaces
from kuberay.kube.client import Client
from kuberay.kube.errors import TransportError
from kuberay.kube.resources import PODS
from kuberay.operator.main import run
from kuberay.operator.settings import Settings
from tests.build.clusters import group
from tests.controllers.embedded import Meddler
from tests.operator.world import OPTIONS, World, living

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from kuberay.kube.transport import Request

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

MOST_WRITES = 16
"""More than any of the changes below takes, events not counted."""


class Mortal(Meddler):
    """A transport whose operator dies after so many writes."""

    def __init__(self, inner: InProcessTransport, lives: int) -> None:
        super().__init__(inner)
        self._left = lives
        self.died = asyncio.Event()
        self.after = self._count
        self.before = self._dead

    def _dead(self, _: Request) -> Exception | None:
        return TransportError("the operator is dead") if self.died.is_set() else None

    def _count(self, request: Request) -> Exception | None:
        if request.method == "GET" or "/events" in request.path:
            return None
        self._left -= 1
        if self._left > 0:
            return None
        self.died.set()
        return TransportError("the operator died before it heard of this")


class Place:
    """A server on which operators live and die."""

    def __init__(self, transport: InProcessTransport, world: World) -> None:
        self._transport = transport
        self.world = world

    async def until(self, change: Any, holds: Any, *, lives: int) -> None:
        """Make a change while an operator is at work that dies after so many writes; then let another finish it."""
        mortal = Mortal(self._transport, lives)
        dying = asyncio.create_task(self._operate(mortal))
        await change()
        finished = asyncio.create_task(self.world.becomes(holds))
        died = asyncio.create_task(mortal.died.wait())
        await asyncio.wait((finished, died), return_when=asyncio.FIRST_COMPLETED)
        for task in (dying, died):
            task.cancel()
        await asyncio.gather(dying, died, return_exceptions=True)
        heir = asyncio.create_task(self._operate(Meddler(self._transport)))
        try:
            await finished
        finally:
            heir.cancel()
            await asyncio.gather(heir, return_exceptions=True)

    async def _operate(self, transport: Meddler) -> None:
        settings = Settings(health_address=None, watch_namespaces=(self.world.namespace,), controllers=OPTIONS)
        await run(Client(transport), settings, stop=asyncio.Event())

    async def uids(self) -> set[str]:
        page = await self.world.client.list(PODS, namespace=self.world.namespace)
        return {each["metadata"]["uid"] for each in page.items}


@pytest.fixture
async def place() -> AsyncIterator[Place]:
    transport = InProcessTransport(ApiServer(MemoryStorage()))
    client = Client(transport)
    loops = [asyncio.create_task(loop.run()) for loop in (GarbageCollector(client), Namespaces(client))]
    async with living(client) as world:
        yield Place(transport, world)
    for loop in loops:
        loop.cancel()
    await asyncio.gather(*loops, return_exceptions=True)


@pytest.mark.parametrize("lives", range(1, MOST_WRITES))
async def test_a_cluster_comes_up_grows_shrinks_and_rests_however_often_its_operator_dies(
    place: Place, lives: int
) -> None:
    world = place.world

    async def is_whole(workers: int) -> bool:
        pods = await world.pods()
        return await world.is_ready(workers) and len(pods) == workers + 1

    await place.until(lambda: world.apply(groups=[group(replicas=2)]), lambda: is_whole(2), lives=lives)
    two = await place.uids()
    assert len(two) == 3

    await place.until(lambda: world.scale(4), lambda: is_whole(4), lives=lives)
    four = await place.uids()
    assert two < four

    await place.until(lambda: world.scale(1), lambda: is_whole(1), lives=lives)
    assert await place.uids() < four

    async def is_suspended() -> bool:
        return (await world.cluster()).status.state == "suspended" and not await world.pods()

    await place.until(lambda: world.patch({"spec": {"suspend": True}}), is_suspended, lives=lives)
    await place.until(lambda: world.patch({"spec": {"suspend": False}}), lambda: is_whole(1), lives=lives)


@pytest.mark.parametrize("lives", range(1, 6))
async def test_a_fault_tolerant_cluster_gets_its_finalizer_before_its_head(place: Place, lives: int) -> None:
    world = place.world
    options: dict[str, Any] = {"gcsFaultToleranceOptions": {"redisAddress": "redis:6379"}}
    await place.until(lambda: world.apply(**options), lambda: world.is_ready(1), lives=lives)
    assert (await world.cluster()).metadata.finalizers
    await world.patch({"metadata": {"finalizers": None}})
    await world.delete(RAY_CLUSTERS, "rc")
