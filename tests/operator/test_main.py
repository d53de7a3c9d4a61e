"""The process around the controllers: health, readiness, log, and a clean end."""

from __future__ import annotations

import asyncio
import io
import json
from typing import TYPE_CHECKING

import aiohttp
import pytest
import structlog

from kuberay.api.gates import FeatureGates
from kuberay.engine.apiserver import ApiServer, InProcessTransport, MemoryStorage
from kuberay.kube.client import Client
from kuberay.operator import health
from kuberay.operator.logs import LogFormat, configure
from kuberay.operator.main import run
from kuberay.operator.settings import Settings, from_environment
from tests.controllers.embedded import embedded

if TYPE_CHECKING:
    from collections.abc import Iterator


async def get(address: str, path: str) -> tuple[int, str]:
    async with aiohttp.ClientSession() as session, session.get(f"http://{address}{path}") as answer:
        return answer.status, await answer.text()


class TestHealth:
    async def test_it_tells_what_is_waited_for(self) -> None:
        waiting = ["caches are being filled"]
        async with health.serving("127.0.0.1:0", lambda: waiting) as address:
            assert await get(address, "/healthz") == (200, "ok")
            assert await get(address, "/readyz") == (503, "caches are being filled")
            waiting.clear()
            assert await get(address, "/readyz") == (200, "ok")

    @pytest.mark.parametrize("address", ["nowhere", "127.0.0.1:", "127.0.0.1:http"])
    async def test_an_address_that_cannot_be_read_says_so(self, address: str) -> None:
        with pytest.raises(ValueError, match="host:port is wanted"):
            async with health.serving(address, list):
                pass


class TestStopping:
    @pytest.mark.timeout(20)
    async def test_it_ends_when_it_is_told_to(self) -> None:
        client, _ = await embedded()
        stop = asyncio.Event()
        running = asyncio.create_task(run(client, Settings(health_address=None), stop=stop))
        await asyncio.sleep(0)
        stop.set()
        await running

    @pytest.mark.timeout(20)
    async def test_it_ends_although_the_server_knows_no_ray_clusters(self) -> None:
        client = Client(InProcessTransport(ApiServer(MemoryStorage())))
        stop = asyncio.Event()
        running = asyncio.create_task(run(client, Settings(health_address=None), stop=stop))
        await asyncio.sleep(0.05)
        assert not running.done()
        stop.set()
        await running

    async def test_a_health_address_that_is_taken_is_an_error(self) -> None:
        client, _ = await embedded()
        async with health.serving("127.0.0.1:0", list) as address:
            with pytest.raises(OSError, match="address already in use"):
                await run(client, Settings(health_address=address), stop=asyncio.Event())


@pytest.mark.parametrize("gate", ["RayClusterStatusConditions", "RayMultiHostIndexing"])
async def test_a_gate_that_cannot_be_closed_yet_is_refused(gate: str) -> None:
    client, _ = await embedded()
    settings = from_environment({}, gates=FeatureGates.parse(f"{gate}=false"), health_address=None)
    with pytest.raises(ValueError, match=f"{gate} cannot be switched off yet"):
        await run(client, settings, stop=asyncio.Event())


class TestLog:
    @pytest.fixture(autouse=True)
    def restored(self) -> Iterator[None]:
        yield
        structlog.reset_defaults()

    def test_a_line_is_an_object_with_kuberays_field_names(self) -> None:
        stream = io.StringIO()
        configure(LogFormat.JSON, stream=stream)
        structlog.get_logger("kuberay").info("created", what="head Pod", why="the cluster has no head Pod")
        line = json.loads(stream.getvalue())
        assert line.pop("ts").endswith("Z")
        assert line == {
            "level": "info",
            "msg": "created",
            "what": "head Pod",
            "why": "the cluster has no head Pod",
        }

    def test_a_failure_brings_its_trace(self) -> None:
        stream = io.StringIO()
        configure(LogFormat.JSON, stream=stream)
        try:
            raise ValueError("no")
        except ValueError:
            structlog.get_logger("kuberay").exception("failed")
        assert "ValueError: no" in json.loads(stream.getvalue())["exception"]

    def test_a_line_for_people(self) -> None:
        stream = io.StringIO()
        configure(LogFormat.CONSOLE, stream=stream)
        structlog.get_logger("kuberay").info("created", what="head Pod")
        assert "created" in stream.getvalue()
        assert "head Pod" in stream.getvalue()
