"""Clusters that cannot be read, as a CustomResourceDefinition of somebody else lets them in: their users are told."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Literal

import pytest

from kuberay.api.crd import crd
from kuberay.controllers.kinds import RAY_CLUSTERS
from kuberay.controllers.options import ControllerOptions
from kuberay.controllers.raycluster.controller import RayClusterController
from kuberay.controllers.running import Crew
from kuberay.engine.apiserver import ApiServer, InProcessTransport, MemoryStorage
from kuberay.kube.client import Client
from kuberay.kube.recorder import Recorder
from kuberay.kube.resources import CUSTOM_RESOURCE_DEFINITIONS
from tests.build.clusters import cluster

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


class Telltale(Recorder):
    """Keeps of which clusters it was told that they cannot be read."""

    def __init__(self, client: Client) -> None:
        super().__init__(client, "test")
        self.told: asyncio.Queue[str] = asyncio.Queue()

    def event(self, regarding: Any, type: Literal["Normal", "Warning"], reason: str, action: str, note: str) -> None:
        if "cannot be read" in note:
            self.told.put_nowait(regarding.name)


class Scene:
    """A controller that waits for its turn, on a server that takes everything for a RayCluster."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._recorder = Telltale(client)
        self._controller = RayClusterController(client, self._recorder, ControllerOptions(resync=None))
        self._has_turn = asyncio.Event()

    async def run(self, stop: asyncio.Event) -> None:
        await Crew("test", [self._controller], workers=1).run(stop, turn=self._turn)

    async def _turn(self) -> str:
        await self._has_turn.wait()
        return "1"

    def win(self) -> None:
        self._has_turn.set()

    async def put_unreadable(self, name: str) -> None:
        manifest = cluster(name=name).to_dict()
        manifest["spec"]["rayVersion"] = 2.46
        await self._client.create(RAY_CLUSTERS, manifest, namespace="default")
        await self._catch_up()

    async def mend(self, name: str) -> None:
        await self._client.patch(RAY_CLUSTERS, name, {"spec": {"rayVersion": "2.46.0"}}, namespace="default")
        await self._catch_up()

    async def delete(self, name: str) -> None:
        await self._client.delete(RAY_CLUSTERS, name, namespace="default")
        await self._catch_up()

    async def _catch_up(self) -> None:
        await self._controller.cluster_informer.reach((await self._client.list(RAY_CLUSTERS)).resource_version)

    async def told(self) -> str:
        """Of which cluster users are told next."""
        async with asyncio.timeout(20):
            return await self._recorder.told.get()

    @property
    def is_quiet(self) -> bool:
        return self._recorder.told.empty()


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    client = Client(InProcessTransport(ApiServer(MemoryStorage())))
    lax = crd("RayCluster", slim=True)
    for version in lax["spec"]["versions"]:
        version["schema"]["openAPIV3Schema"] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    await client.create(CUSTOM_RESOURCE_DEFINITIONS, lax)
    made, stop = Scene(client), asyncio.Event()
    running = asyncio.create_task(made.run(stop))
    yield made
    stop.set()
    await running


async def test_a_standby_has_them_in_mind_until_its_turn_has_come(scene: Scene) -> None:
    await scene.put_unreadable("a")
    await scene.put_unreadable("b")
    assert scene.is_quiet
    scene.win()
    assert [await scene.told(), await scene.told()] == ["a", "b"]


async def test_from_then_on_they_are_told_of_at_once(scene: Scene) -> None:
    await scene.put_unreadable("a")
    scene.win()
    assert await scene.told() == "a"
    await scene.put_unreadable("b")
    assert await scene.told() == "b"
    await scene.delete("b")
    assert scene.is_quiet


async def test_what_was_mended_or_deleted_meanwhile_is_not_told_of(scene: Scene) -> None:
    for name in ("deleted", "mended", "left"):
        await scene.put_unreadable(name)
    await scene.delete("deleted")
    await scene.mend("mended")
    scene.win()
    assert await scene.told() == "left"
    assert scene.is_quiet
