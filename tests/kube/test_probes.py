from __future__ import annotations

import asyncio
import contextlib
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest

from kuberay.kube.metrics import Metrics
from kuberay.kube.probes import ProbeServer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


class Asking:
    """A client of a probe server."""

    def __init__(self, port: int, session: aiohttp.ClientSession) -> None:
        self.port = port
        self._base = f"http://127.0.0.1:{port}"
        self._session = session

    async def __call__(self, path: str) -> tuple[int, str]:
        async with self._session.get(self._base + path) as answer:
            return answer.status, await answer.text()


@asynccontextmanager
async def asking(**options: Any) -> AsyncIterator[Asking]:
    async with ProbeServer(**options).serving("127.0.0.1", 0) as port, aiohttp.ClientSession() as session:
        yield Asking(port, session)


async def test_all_is_well() -> None:
    async with asking(live={}, ready={"caches": lambda: None}) as ask:
        assert await ask("/healthz") == (200, "ok")
        assert await ask("/readyz") == (200, "ok")
        assert await ask("/readyz/caches") == (200, "ok")
        assert await ask("/readyz?verbose") == (200, "[+]caches ok\nreadyz check passed\n")


async def test_what_is_wrong_is_told_by_name() -> None:
    checks = {"caches": lambda: "pods: not allowed", "lease": lambda: None}
    async with asking(ready=checks) as ask:
        told = "[-]caches failed: pods: not allowed\n[+]lease ok\nreadyz check failed\n"
        assert await ask("/readyz") == (503, told)
        assert await ask("/readyz/caches") == (503, "pods: not allowed\n")
        assert await ask("/readyz/lease") == (200, "ok")
        assert await ask("/readyz?exclude=caches") == (200, "ok")


async def test_what_is_not_there() -> None:
    async with asking(ready={"caches": lambda: None}) as ask:
        assert await ask("/readyz/other") == (404, "there is no such check; there are caches")
        for path in ("/healthz", "/metrics"):
            assert (await ask(path))[0] == 404


async def test_metrics() -> None:
    metrics = Metrics()
    metrics.requests.labels("200", "GET", "api").inc()
    async with asking(metrics=metrics) as ask:
        status, text = await ask("/metrics")
    assert status == 200
    assert 'rest_client_requests_total{code="200",host="api",method="GET"} 1.0' in text


async def test_an_address_that_is_taken_is_an_error() -> None:
    async with ProbeServer(live={}).serving("127.0.0.1", 0) as port:
        with pytest.raises(OSError, match="address already in use"):
            async with ProbeServer(live={}).serving("127.0.0.1", port):
                pass


async def test_nothing_can_be_changed() -> None:
    async with (
        ProbeServer(live={}).serving("127.0.0.1", 0) as port,
        aiohttp.ClientSession(f"http://127.0.0.1:{port}") as session,
    ):
        async with session.post("/healthz", data=b"x") as answer:
            assert answer.status == 405
        async with session.head("/healthz") as answer:
            assert (answer.status, answer.headers["content-length"], await answer.read()) == (200, "2", b"")


@pytest.mark.parametrize("said", [b"\r\n\r\n", b"GET\r\n\r\n", b"\xff\xfe / HTTP\r\n\r\n", b"GET /" + b"x" * 2**15])
async def test_who_makes_no_sense_is_hung_up_on_and_others_are_served(said: bytes) -> None:
    async with asking(live={}) as ask:
        reader, writer = await asyncio.open_connection("127.0.0.1", ask.port)
        writer.write(said)
        with contextlib.suppress(ConnectionError):
            await reader.read()
        writer.transport.abort()
        assert await ask("/healthz") == (200, "ok")


async def test_who_says_nothing_does_not_hold_up_the_end() -> None:
    async with asking(live={}) as ask:
        reader, writer = await asyncio.open_connection("127.0.0.1", ask.port)
        assert await ask("/healthz") == (200, "ok")
    with contextlib.suppress(ConnectionError):
        assert await reader.read() == b""
    writer.transport.abort()
