"""An informer over real sockets, against servers that fall silent, dribble, lie and restart."""

from __future__ import annotations

import asyncio
import socket
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
from aiohttp import web

from kuberay.kube.access import Access
from kuberay.kube.client import Client, Retry
from kuberay.kube.errors import TransportError
from kuberay.kube.http import HttpTransport
from kuberay.kube.informer import Informer, Timing
from kuberay.kube.resources import PODS
from kuberay.kube.store import Store
from tests.kube.scene import Pod, end_of_list, event, pod
from tests.kube.test_real_apiserver import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]

QUICK = Timing(first_wait=0.02, longest_wait=0.05, silence=0.3, list_silence=0.3)


@pytest.fixture
def port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        number: int = probe.getsockname()[1]
        return number


@asynccontextmanager
async def serving(port: int, handler: Handler) -> AsyncIterator[None]:
    runner = web.ServerRunner(web.Server(handler), shutdown_timeout=0.05)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port, reuse_address=True).start()
    try:
        yield
    finally:
        await runner.cleanup()


@asynccontextmanager
async def following(port: int) -> AsyncIterator[tuple[Informer[Pod], Store[Pod]]]:
    client = Client(HttpTransport(Access(f"http://127.0.0.1:{port}")), retry=Retry(attempts=0))
    store: Store[Pod] = Store()
    informer = Informer(client, PODS, store, type=Pod, timing=QUICK)
    task = asyncio.create_task(informer.run())
    try:
        yield informer, store
        assert not task.done()
    finally:
        task.cancel()
        await asyncio.wait([task])
        await client.close()


def names(store: Store[Pod]) -> list[str]:
    return sorted(each.metadata.name for each in store)


async def streamed(
    request: web.BaseRequest, *parts: bytes, pause: float = 0.0, then: float = 30.0
) -> web.StreamResponse:
    """An answer in parts, after which nothing comes for a while."""
    answer = web.StreamResponse()
    await answer.prepare(request)
    for part in parts:
        await answer.write(part)
        await asyncio.sleep(pause)
    await asyncio.sleep(then)
    return answer


async def test_a_connection_that_is_dead_without_anybody_knowing(port: int) -> None:
    watches: list[str] = []

    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        watches.append(request.query.get("resourceVersion", ""))
        if len(watches) == 1:
            return await streamed(request, event("ADDED", pod("a", 1)) + end_of_list(10))
        return await streamed(request, event("ADDED", pod("b", 11)))

    async with serving(port, handler), following(port) as (_, store):
        await until(lambda: names(store) == ["a", "b"])
        assert watches[:2] == ["", "10"]


async def test_a_server_that_restarts_with_another_state(port: int) -> None:
    async def before(request: web.BaseRequest) -> web.StreamResponse:
        return await streamed(request, event("ADDED", pod("a", 1)) + event("ADDED", pod("b", 2)) + end_of_list(10))

    async def after(request: web.BaseRequest) -> web.StreamResponse:
        if "sendInitialEvents" not in request.query:
            return web.json_response({"kind": "Status", "code": 410, "reason": "Expired"}, status=410)
        return await streamed(request, event("ADDED", pod("b", 2)) + event("ADDED", pod("c", 20)) + end_of_list(30))

    async with following(port) as (informer, store):
        await until(lambda: informer.problem is not None)
        assert f"GET http://127.0.0.1:{port}/api/v1/pods" in str(informer.problem)
        async with serving(port, before):
            await until(lambda: names(store) == ["a", "b"])
        async with serving(port, after):
            await until(lambda: names(store) == ["b", "c"])
            assert store.resource_version == "30"


async def test_a_server_that_dribbles(port: int) -> None:
    text = event("ADDED", pod("a", 1)) + event("ADDED", pod("b", 2)) + end_of_list(10)

    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        return await streamed(request, *(text[start : start + 7] for start in range(0, len(text), 7)), pause=0.001)

    async with serving(port, handler), following(port) as (informer, store):
        async with asyncio.timeout(20):
            await informer.synced()
        assert names(store) == ["a", "b"]


@pytest.mark.parametrize(
    ("rubbish", "words"),
    [
        (
            lambda: web.Response(text="<html>Welcome to nginx</html>", content_type="text/html"),
            "it starts with '<html>Welcome to nginx</html>'; is there an API server at this address?",
        ),
        (
            lambda: web.json_response({"items": "none"}),
            """it starts with '{"items": "none"}'; is there an API server""",
        ),
        (lambda: web.json_response({"kind": "Status", "code": 500, "message": "oops"}, status=500), "says 500 : oops"),
        (
            lambda: web.Response(body=b'{"metadata": {"resourceVersion": "5"}, "items": [{"metadata"'),
            "cannot read a list: Input data was truncated",
        ),
        (lambda: web.Response(status=302, headers={"location": "/login"}), "was answered with HTTP 302"),
        (
            lambda: web.Response(status=400, text="Client sent an HTTP request to an HTTPS server."),
            "Client sent an HTTP request to an HTTPS server",
        ),
        (lambda: web.Response(status=404, text="404 page not found"), "the server does not know this kind"),
    ],
)
async def test_something_that_is_no_api_server_is_told_and_asked_again(
    port: int, rubbish: Callable[[], web.Response], words: str
) -> None:
    is_well = False

    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        if not is_well:
            return rubbish()
        if "watch" in request.query:
            return await streamed(request, event("ADDED", pod("a", 1)) + end_of_list(10))
        body: dict[str, Any] = {"metadata": {"resourceVersion": "10"}, "items": [pod("a", 1)]}
        return web.json_response(body)

    async with serving(port, handler), following(port) as (informer, store):
        await until(lambda: words in str(informer.problem))
        assert "cannot list pods in all namespaces" in str(informer.problem)
        is_well = True
        await until(lambda: names(store) == ["a"])


async def test_a_server_that_hangs_up_in_the_middle_of_a_request(port: int) -> None:
    async def hang_up(request: web.BaseRequest) -> web.StreamResponse:
        assert request.transport is not None
        request.transport.abort()
        return web.Response()

    async with serving(port, hang_up):
        client = Client(HttpTransport(Access(f"http://127.0.0.1:{port}")))
        with pytest.raises(TransportError, match="DELETE http"):
            await client.delete(PODS, "a", namespace="n")
        await client.close()
