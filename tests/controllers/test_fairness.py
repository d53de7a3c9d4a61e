"""Who is written for next, when there is more to write than may be under way."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from kuberay.api.core import Pod
from kuberay.controllers.act import Actor, Cache, lane
from kuberay.controllers.plan import HEAD_POD, WORKER_POD
from kuberay.kube.client import Client
from kuberay.kube.lanes import Lanes
from kuberay.kube.resources import PODS
from kuberay.kube.store import Store
from tests.controllers.acting import create, delete, patch
from tests.controllers.embedded import embedded

if TYPE_CHECKING:
    from kuberay.kube.transport import Request, Response, Transport
    from tests.controllers.embedded import Meddler


class Slow:
    """A transport whose answers take a while, so that others are heard meanwhile."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self.stream = transport.stream
        self.close = transport.close

    async def send(self, request: Request, *, timeout: float | None = None) -> Response:
        for _ in range(10):
            await asyncio.sleep(0)
        return await self._transport.send(request, timeout=timeout)


@pytest.fixture
async def scene() -> tuple[Actor, Meddler]:
    client, meddler = await embedded()
    store: Store[Pod] = Store()
    store.replaced([], "1")
    return Actor(Client(Slow(client.transport)), {PODS: Cache(store, Pod)}, Lanes(2)), meddler


async def test_one_that_wants_many_pods_does_not_hold_up_one_that_wants_one(scene: tuple[Actor, Meddler]) -> None:
    actor, meddler = scene
    meddler.writes.clear()
    many = [replace(create(f"many-{number}"), subject=WORKER_POD) for number in range(100)]
    big = asyncio.create_task(actor.run([many], "big"))
    await asyncio.sleep(0)  # it stands in line with all it wants
    await asyncio.sleep(0)
    await actor.run([[replace(create("one"), subject=WORKER_POD)]], "small")
    before = len(meddler.writes)
    await big
    assert before <= 10
    assert len(meddler.writes) == 101


def test_removals_go_first_and_workers_last() -> None:
    head, worker = create("h"), replace(create("w"), subject=WORKER_POD)
    assert head.subject is HEAD_POD
    assert lane(delete("d", "u")) < lane(patch("p", "u")) == lane(head) < lane(worker)
