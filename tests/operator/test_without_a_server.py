"""What the operator's process does by itself, before and beside what any server answers."""

from __future__ import annotations

import asyncio

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
        with pytest.raises(TransportError, match="does not lead any more"):
            await waiting
        assert [each.path for each in wire.requests] == ["/first"]
