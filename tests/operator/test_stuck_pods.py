"""Pods that cannot do their work, on an API server: what their user is told, and how quiet it is about it.

Every test runs on the embedded API server and on a real kube-apiserver.
"""

from __future__ import annotations

import asyncio
import time
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pytest

from kuberay.kube.resources import PODS
from kuberay.sim.kubelet import Fate
from tests.operator.world import World, living, operating

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from kuberay.kube.client import Client

pytestmark = pytest.mark.timeout(120)


@pytest.fixture
async def world(api: Client) -> AsyncIterator[World]:
    async with living(api) as world, operating(api, world.namespace):
        yield world


async def says(world: World, name: str, **status: Any) -> None:
    """Let a kubelet say something about a Pod."""
    await world.client.patch(PODS, name, {"status": status}, namespace=world.namespace, subresource="status")


def crashing(attempt: int) -> list[dict[str, Any]]:
    waiting = {"reason": "CrashLoopBackOff", "message": f"back-off {10 * attempt}s restarting failed container"}
    ended = {"exitCode": 1, "reason": "Error", "finishedAt": f"2026-01-01T00:00:{attempt:02}Z"}
    return [
        {
            "name": "ray-head",
            "image": "x",
            "imageID": "",
            "ready": False,
            "restartCount": attempt,
            "state": {"waiting": waiting},
            "lastState": {"terminated": ended},
        }
    ]


async def is_older_than_a_second(world: World, name: str) -> bool:
    (made,) = [pod.metadata.creation_timestamp for pod in await world.pods() if pod.name == name]
    return time.time() - datetime.fromisoformat(made or "").timestamp() > 1.0


async def test_an_image_that_cannot_be_had_is_told_until_it_can(world: World) -> None:
    world.kubelet.fate = lambda pod: Fate.RUNNING if pod.name == "rc-head" else Fate.WAITING
    await world.apply()
    found = await world.condition("PodsBlocked")
    (worker,) = await world.pods("worker")
    assert found.reason == "ImagePullBackOff"
    assert found.message.startswith(f"Pod {worker.name}: the image of container ray-worker cannot be had")
    world.kubelet.fate = lambda _: Fate.RUNNING
    world.kubelet.look_again()
    await world.ready(1)
    assert "PodsBlocked" not in [each.type for each in (await world.cluster()).status.conditions]


async def test_a_head_that_crashes_for_ever_is_told_once(world: World) -> None:
    await world.apply()
    await world.ready(1)
    world.kubelet.fate = lambda pod: Fate.PENDING if pod.name == "rc-head" else Fate.RUNNING
    unready = [{"type": "Ready", "status": "False", "reason": "ContainersNotReady", "message": "m"}]
    await says(world, "rc-head", conditions=unready, containerStatuses=crashing(1))
    assert (await world.condition("PodsBlocked")).reason == "CrashLoopBackOff"
    await world.becomes(lambda: is_older_than_a_second(world, "rc-head"))  # times are told in seconds
    await says(world, "rc-head", conditions=unready, containerStatuses=crashing(2))

    async def is_settled() -> bool:
        """Whether nothing is written any more, for longer than a status is held back."""
        before = (await world.cluster()).metadata.resource_version
        await asyncio.sleep(0.3)
        return (await world.cluster()).metadata.resource_version == before

    await world.becomes(is_settled)
    version = (await world.cluster()).metadata.resource_version
    for attempt in range(3, 6):
        await says(world, "rc-head", conditions=unready, containerStatuses=crashing(attempt))
    await world.becomes(is_settled)
    assert (await world.cluster()).metadata.resource_version == version
