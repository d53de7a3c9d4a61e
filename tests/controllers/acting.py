"""An actor before a server, and things for it to do."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import orjson

from kuberay.api.core import Pod
from kuberay.controllers.act import Actor, Cache
from kuberay.controllers.plan import HEAD_POD, WORKER_POD, Create, Delete, Patch, PatchStatus, Require, Subject
from kuberay.kube.lanes import Lanes
from kuberay.kube.resources import PODS
from kuberay.kube.store import Store

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractAsyncContextManager

    from kuberay.kube.client import Client
    from kuberay.kube.transport import Request, Response, Stream, Transport
    from tests.controllers.embedded import Meddler

OWNER = {"apiVersion": "ray.io/v1", "kind": "RayCluster", "name": "rc", "uid": "u-1", "controller": True}


def body(name: str, **metadata: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "ownerReferences": [OWNER], **metadata},
        "spec": {"containers": [{"name": "ray", "image": "ray"}]},
    }


def create(name: str, *, scope: str = "head", **metadata: Any) -> Create:
    return Create(
        resource=PODS,
        namespace="default",
        name=name,
        body=orjson.dumps(body(name, **metadata)),
        subject=HEAD_POD,
        scope=scope,
        why="it is missing",
    )


def delete(name: str, uid: str) -> Delete:
    return Delete(
        resource=PODS,
        namespace="default",
        name=name,
        uid=uid,
        subject=WORKER_POD,
        scope="group wg",
        why="it is too much",
    )


def require(name: str) -> Require:
    return Require(
        resource=PODS, namespace="default", name=name, subject=Subject("friend", "Friend"), scope="friend", why="why"
    )


def patch(name: str, uid: str) -> Patch:
    return Patch(
        resource=PODS,
        namespace="default",
        name=name,
        uid=uid,
        patch={"metadata": {"annotations": {"colour": "red"}}},
        subject=HEAD_POD,
        scope="head",
        why="it is blue",
    )


def status(name: str, uid: str) -> PatchStatus:
    return PatchStatus(
        resource=PODS,
        namespace="default",
        name=name,
        uid=uid,
        patch={"phase": "Running"},
        is_urgent=False,
        leads_on=False,
        why="it runs",
    )


def webhook(change: Callable[[dict[str, Any]], Any]) -> Callable[[Request], Request]:
    """An admission webhook that changes the metadata of every Pod that is made."""

    def admit(request: Request) -> Request:
        if request.method != "POST" or not request.path.endswith("/pods"):
            return request
        pod = orjson.loads(request.body or b"")
        change(pod["metadata"])
        return replace(request, body=orjson.dumps(pod))

    return admit


class Crowd:
    """A transport that counts how many requests are under way at once; none ends before others could begin."""

    def __init__(self, inner: Transport) -> None:
        self._inner = inner
        self._under_way = 0
        self.most = 0

    async def send(self, request: Request, *, timeout: float | None = None) -> Response:
        self._under_way += 1
        self.most = max(self.most, self._under_way)
        for _ in range(10):
            await asyncio.sleep(0)
        self._under_way -= 1
        return await self._inner.send(request, timeout=timeout)

    def stream(self, request: Request) -> AbstractAsyncContextManager[Stream]:
        return self._inner.stream(request)

    async def close(self) -> None:
        await self._inner.close()


class World:
    """An actor, its store, and the server behind."""

    def __init__(self, client: Client, meddler: Meddler) -> None:
        self.client = client
        self.meddler = meddler
        self.store: Store[Pod] = Store()
        self.store.replaced([], "1")
        self.actor = Actor(client, {PODS: Cache(self.store, Pod)}, Lanes(4))

    async def pod(self, name: str, **metadata: Any) -> Pod:
        """A Pod that is on the server and in the cache."""
        made = await self.client.create(PODS, body(name, **metadata), namespace="default", type=Pod)
        self.store.applied(made)
        return made

    async def names(self) -> list[str]:
        return sorted(pod.name for pod in (await self.client.list(PODS, namespace="default", type=Pod)).items)
