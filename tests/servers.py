"""The API servers that tests run on: the embedded one with its loops, and a real one with its controllers.

What holds must hold on both. Objects can be put into the storage of either as they are: an API server itself gives out
uids of its own, and knows no past.
"""

from __future__ import annotations

import asyncio
import base64
import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Protocol

import aiohttp
import pytest

from kuberay.controllers.kinds import RAY_CLUSTERS
from kuberay.engine.apiserver import ApiServer, InProcessTransport, MemoryStorage
from kuberay.engine.apiserver.builtin import builtin_kinds
from kuberay.engine.loops import Claims, GarbageCollector, Jobs, Namespaces
from kuberay.kube.client import Client
from kuberay.kube.http import HttpTransport
from kuberay.kube.kubeconfig import load

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from contextlib import AbstractAsyncContextManager

    from kuberay.kube.transport import Transport
    from tests.control_plane import ControlPlane

BOTH = ("embedded", pytest.param("kubernetes", marks=pytest.mark.kubernetes))
"""For fixtures: the server that is meant, by name."""


class Server(Protocol):
    """An API server that serves."""

    transport: Transport

    @property
    def client(self) -> Client:
        """One that may do everything."""
        ...

    async def put(self, obj: dict[str, Any]) -> None:
        """Store an object as it is, with its uid and status. Its namespace has to be there."""
        ...


def serving(name: str, request: pytest.FixtureRequest) -> AbstractAsyncContextManager[Server]:
    """The server of a name; the real one is shared by all tests, so use a namespace of your own."""
    return _embedded() if name == "embedded" else _real(request.getfixturevalue("kubernetes"))


class _Embedded:
    def __init__(self) -> None:
        self._storage = MemoryStorage()
        self.transport: Transport = InProcessTransport(ApiServer(self._storage))
        self.client = Client(self.transport)
        self._tables = {kind.resource.kind: kind.table for kind in builtin_kinds()}
        self._tables[RAY_CLUSTERS.kind] = RAY_CLUSTERS.name

    async def put(self, obj: dict[str, Any]) -> None:
        meta = obj["metadata"]
        self._storage.put(self._tables[obj["kind"]], meta["namespace"], meta["name"], json.loads(json.dumps(obj)))


@asynccontextmanager
async def _embedded() -> AsyncIterator[Server]:
    server = _Embedded()
    client = server.client
    loops = (GarbageCollector(client), Namespaces(client), Jobs(client), Claims(client))
    running = [asyncio.create_task(loop.run()) for loop in loops]
    try:
        yield server
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


class _Real:
    def __init__(self, plane: ControlPlane) -> None:
        self._etcd = plane.etcd_url
        self.transport: Transport = HttpTransport(load(plane.kubeconfig))
        self.client = Client(self.transport)

    async def put(self, obj: dict[str, Any]) -> None:
        """By the hand of etcd: a real server reads JSON there, too, although it writes something else."""
        meta = obj["metadata"]
        key = f"/registry/{_FOLDERS[obj['kind']]}/{meta['namespace']}/{meta['name']}"
        entry = {"key": _base64(key), "value": _base64(json.dumps(obj))}
        async with aiohttp.ClientSession() as session, session.post(f"{self._etcd}/v3/kv/put", json=entry) as answer:
            answer.raise_for_status()


@asynccontextmanager
async def _real(plane: ControlPlane) -> AsyncIterator[Server]:
    server = _Real(plane)
    try:
        yield server
    finally:
        await server.client.close()


_FOLDERS = {
    "Pod": "pods",
    "RayCluster": "ray.io/rayclusters",
    "Role": "roles",
    "RoleBinding": "rolebindings",
    "Service": "services/specs",
    "ServiceAccount": "serviceaccounts",
}
"""Where a real API server keeps the objects of a kind."""


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
