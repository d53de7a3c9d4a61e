"""What the operator's process does by itself, before and beside what any server answers."""

from __future__ import annotations

import asyncio
import json
import resource
import socket
from typing import TYPE_CHECKING

import pytest

from kuberay.kube.errors import TransportError
from kuberay.kube.metrics import Metrics
from kuberay.kube.request_metrics import RequestMetrics
from kuberay.kube.transport import Request
from kuberay.operator.flags import parse
from kuberay.operator.process import restrained
from kuberay.operator.startup import prepare
from tests.kube.scripted import Answer, ScriptedTransport
from tests.kube.virtual_time import virtual_time
from tests.operator.processes import process

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def nowhere(tmp_path: Path) -> Iterator[Path]:
    """A kubeconfig file for a server that is away: its port is taken, and nobody listens there."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        cluster = {"server": f"http://127.0.0.1:{taken.getsockname()[1]}"}
        config = {
            "clusters": [{"name": "c", "cluster": cluster}],
            "users": [{"name": "u", "user": {}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "x",
        }
        file = tmp_path / "kubeconfig"
        file.write_text(json.dumps(config))
        yield file


@pytest.fixture
def few_files() -> Iterator[tuple[int, int]]:
    """The limits on open files of whatever is started meanwhile."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    few = (before[1] // 2, before[1])
    resource.setrlimit(resource.RLIMIT_NOFILE, few)
    yield few
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


class TestStarting:
    @pytest.mark.timeout(60)
    async def test_while_the_server_is_away_it_is_alive_and_says_why_it_is_not_ready(self, nowhere: Path) -> None:
        async with process(nowhere) as operator:
            await operator.said("cannot learn what the API server serves")
            assert await operator.get("/healthz", serving="/healthz") == (200, "ok")
            status, text = await operator.get("/readyz/caches", serving="/readyz")
            assert (status, text) == (503, "the API server has not said what it serves\n")
            assert (await operator.get("/metrics", serving="/metrics"))[0] == 200

    @pytest.mark.timeout(60)
    async def test_it_may_have_as_many_connections_as_the_system_lets_it(
        self, nowhere: Path, few_files: tuple[int, int]
    ) -> None:
        soft, hard = few_files
        assert soft < hard
        async with process(nowhere) as operator:
            await operator.said("cannot learn what the API server serves")
            assert resource.prlimit(operator.process.pid, resource.RLIMIT_NOFILE) == (hard, hard)


class TestRestraint:
    @virtual_time
    async def test_a_write_that_waits_for_its_turn_is_not_sent_once_the_lease_is_lost(self) -> None:
        leads = True
        wire = ScriptedTransport(lambda _: Answer())
        startup = prepare(parse(["--qps=0.1", "--burst=1"]), {}, lambda _: "")
        transport = restrained(wire, startup, RequestMetrics(Metrics(), "server"), lambda: leads)
        await transport.send(Request("POST", "/first"))
        waiting = asyncio.create_task(transport.send(Request("POST", "/second")))
        await asyncio.sleep(1)
        assert not waiting.done()
        leads = False
        with pytest.raises(TransportError, match=r"does not lead$"):
            await waiting
        assert [each.path for each in wire.requests] == ["/first"]
