"""A kubelet that runs nothing writes no more than a real one, and no sooner."""

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
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

    from kuberay.kube.transport import Request, Response, Stream, Transport


class LateNews:
    """A server whose watch keeps news that contain a word until `told` is set."""

    def __init__(self, inner: Transport, word: str) -> None:
        self._inner = inner
        self.word = word.encode()
        self.kept, self.told = asyncio.Event(), asyncio.Event()
        self.written: list[str] = []
        """What was written about which Pod."""
        self.before: Callable[[str], Awaitable[object]] | None = None
        self.after: Callable[[str], None] = lambda _: None
        self.close = inner.close

    async def send(self, request: Request, *, timeout: float | None = None) -> Response:
        *_, pod, what = request.path.split("/")
        if what not in ("binding", "status"):
            return await self._inner.send(request, timeout=timeout)
        name = f"{what} of {pod}"
        if self.before is not None:
            await self.before(name)
        answer = await self._inner.send(request, timeout=timeout)
        self.written.append(name)
        self.after(name)
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
            if self._news.word in chunk:
                self._news.kept.set()
                await self._news.told.wait()
            yield chunk
            for _ in range(100):  # whoever heard it does at once what comes of it
                await asyncio.sleep(0)


async def world() -> Client:
    client, _ = await embedded()
    await client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ns"}})
    return client


async def create(client: Client, name: str) -> None:
    spec = {"containers": [{"name": "c", "image": "i"}]}
    pod: dict[str, Any] = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
    await client.create(PODS, pod, namespace="ns")


@asynccontextmanager
async def kubelet(news: LateNews) -> AsyncIterator[None]:
    running = asyncio.create_task(FakeKubelet(Client(news), namespace="ns", workers=1).run())
    yield
    running.cancel()
    await asyncio.wait((running,))


@pytest.mark.timeout(20)
async def test_a_pod_is_started_when_the_news_of_its_binding_has_come() -> None:
    client = await world()
    await create(client, "first")
    await create(client, "second")
    news = LateNews(client.transport, '"nodeName"')
    done = asyncio.Event()

    def after(name: str) -> None:
        if len(news.written) == 2:
            news.told.set()
        if len(news.written) == 4:
            done.set()

    news.after = after
    async with kubelet(news):
        await done.wait()
    assert news.written == ["binding of first", "binding of second", "status of first", "status of second"]


@pytest.mark.timeout(20)
async def test_late_news_of_a_pod_do_not_have_its_status_written_again() -> None:
    client = await world()
    news = LateNews(client.transport, '"changed"')
    done = asyncio.Event()

    async def before(name: str) -> None:
        if name == "status of first":
            await client.patch(PODS, "first", {"metadata": {"labels": {"changed": "yes"}}}, namespace="ns")
            await news.kept.wait()

    def after(name: str) -> None:
        if name == "status of first":
            news.told.set()
        if name == "status of second":
            done.set()

    news.before, news.after = before, after
    async with kubelet(news):
        await create(client, "first")
        await news.told.wait()
        address = (await client.get(PODS, "first", namespace="ns"))["status"]["podIP"]
        await create(client, "second")
        await done.wait()
    assert news.written.count("status of first") == 1
    assert (await client.get(PODS, "first", namespace="ns"))["status"]["podIP"] == address
