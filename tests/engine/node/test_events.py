"""Events about Pods: told once, counted when they repeat."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

from kuberay.engine.apiserver import ApiServer, InProcessTransport, MemoryStorage
from kuberay.engine.node.events import CORE_EVENTS, WARNING, Recorder
from kuberay.kube.client import Client

POD = {"metadata": {"name": "p", "namespace": "default", "uid": "u-1"}}


class Told:
    """A recorder with a clock of its own, and what it has written."""

    def __init__(self) -> None:
        self.client = Client(InProcessTransport(ApiServer(MemoryStorage())))
        self.now = datetime(2026, 1, 1, tzinfo=UTC)
        self.recorder = Recorder(self.client, node="local", now=lambda: self.now)

    async def written(self) -> list[dict[str, Any]]:
        writing = asyncio.create_task(self.recorder.run())
        await self.recorder.flush()
        writing.cancel()
        return (await self.client.list(CORE_EVENTS, namespace="default")).items


async def test_an_event_names_the_pod_and_the_container() -> None:
    told = Told()
    told.recorder.record(POD, WARNING, "Unhealthy", "no answer", container="ray-head")
    (event,) = await told.written()
    assert event["involvedObject"]["uid"] == "u-1"
    assert event["involvedObject"]["fieldPath"] == "spec.containers{ray-head}"
    assert (event["type"], event["reason"], event["message"]) == ("Warning", "Unhealthy", "no answer")
    assert event["source"] == {"component": "kuberay-node", "host": "local"}


async def test_a_repeated_event_is_counted_and_seldom_written() -> None:
    told = Told()
    for _ in range(10):
        told.recorder.record(POD, WARNING, "Unhealthy", "no answer")
    (event,) = await told.written()
    assert event["count"] == 1
    told.now += timedelta(seconds=60)
    told.recorder.record(POD, WARNING, "Unhealthy", "no answer")
    (event,) = await told.written()
    assert event["count"] == 11
    assert event["lastTimestamp"] > event["firstTimestamp"]


async def test_events_that_say_different_things_are_different() -> None:
    told = Told()
    told.recorder.record(POD, WARNING, "Unhealthy", "one")
    told.recorder.record(POD, WARNING, "Unhealthy", "two")
    assert len(await told.written()) == 2


async def test_a_flood_is_dropped_and_not_kept() -> None:
    told = Told()
    for number in range(2000):
        told.recorder.record(POD, WARNING, "Unhealthy", str(number))
    assert len(await told.written()) == 1000
