"""A kubelet that runs nothing writes no more than a real one."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from kuberay.kube.client import Client
from kuberay.kube.resources import NAMESPACES, PODS
from kuberay.sim.kubelet import FakeKubelet
from tests.controllers.embedded import embedded

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from kuberay.kube.transport import Request, Response, Stream, Transport


class LateNews:
    """A server whose watch tells of addresses only when `told` is set, and that writes a status only once the watch has
    told of the binding."""

    def __init__(self, inner: Transport) -> None:
        self._inner = inner
        self.bound, self.told = asyncio.Event(), asyncio.Event()
        self.statuses: list[str] = []
        self.written: asyncio.Queue[str] = asyncio.Queue()
        self.close = inner.close

    async def send(self, request: Request, *, timeout: float | None = None) -> Response:
        if not request.path.endswith("/status"):
            return await self._inner.send(request, timeout=timeout)
        name = request.path.split("/")[-2]
        self.statuses.append(name)
        await self.bound.wait()
        answer = await self._inner.send(request, timeout=timeout)
        self.written.put_nowait(name)
        return answer

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[_LateStream]:
        async with self._inner.stream(request) as stream:
            yield _LateStream(stream, self)


class _LateStream:
    def __init__(self, inner: Stream, news: LateNews) -> None:
        self.status: int = inner.status
        self.headers: Mapping[str, str] = inner.headers
        self.read = inner.read
        self._inner = inner
        self._news = news

    async def chunks(self) -> AsyncIterator[bytes]:
        async for chunk in self._inner.chunks():
            if b'"podIP"' in chunk:
                await self._news.told.wait()
            yield chunk
            if b'"nodeName"' in chunk:
                self._news.bound.set()


def pod(name: str) -> dict[str, Any]:
    spec = {"containers": [{"name": "c", "image": "i"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


@pytest.mark.timeout(20)
async def test_the_news_of_its_own_binding_does_not_make_it_write_a_status_twice() -> None:
    client, _ = await embedded()
    await client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ns"}})
    news = LateNews(client.transport)
    kubelet = asyncio.create_task(FakeKubelet(Client(news), namespace="ns", workers=1).run())
    await client.create(PODS, pod("first"), namespace="ns")

    await news.written.get()
    address = (await client.get(PODS, "first", namespace="ns"))["status"]["podIP"]
    news.told.set()
    await client.create(PODS, pod("second"), namespace="ns")
    while await news.written.get() != "second":
        pass
    assert news.statuses == ["first", "second"]
    assert (await client.get(PODS, "first", namespace="ns"))["status"]["podIP"] == address
    kubelet.cancel()
    await asyncio.wait((kubelet,))
