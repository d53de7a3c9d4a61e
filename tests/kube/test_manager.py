from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from kuberay.kube.client import Client, Retry
from kuberay.kube.controller import Controller, itself
from kuberay.kube.election import LeaseLost
from kuberay.kube.informer import Informer
from kuberay.kube.manager import Manager
from kuberay.kube.queue import Queue
from kuberay.kube.resources import PODS
from kuberay.kube.store import Store
from tests.kube.scene import Pod, forever, listed, pod
from tests.kube.scripted import Answer, ScriptedTransport, query
from tests.kube.virtual_time import clock, virtual_time

if TYPE_CHECKING:
    from kuberay.kube.identity import Key
    from kuberay.kube.transport import Request


class Election:
    """Leadership as the test gives and takes it."""

    def __init__(self) -> None:
        self._won: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._lost: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    def give(self, version: str) -> None:
        self._won.set_result(version)

    def take(self, reason: str) -> None:
        self._lost.set_result(reason)

    async def won(self) -> str:
        return await asyncio.shield(self._won)

    async def lost(self) -> str:
        return await asyncio.shield(self._lost)


class Scene:
    """A manager over a server whose Pods are at a version, with a controller that takes a second for each."""

    def __init__(self, *, elected: bool = True) -> None:
        self.version = 10
        self.reconciled: list[str] = []
        self.finished: list[str] = []
        self.election = Election() if elected else None
        self.lists = 0

        def answer(request: Request) -> Answer:
            if "watch" in query(request):
                return Answer(body=[forever()])
            self.lists += 1
            return listed(self.version, pod("a", 1), pod("b", 2))

        client = Client(ScriptedTransport(answer), retry=Retry(attempts=0), streamed_lists=False)
        store: Store[Pod] = Store()
        self.informer = Informer(client, PODS, store, type=Pod, clock=clock, rng=lambda: 0.5)
        self.controller: Controller[Key] = Controller("c", Queue(clock=clock), self._reconcile)
        self.controller.watches(store, itself)
        self.manager = Manager([self.informer], [self.controller], leadership=self.election)
        self.stop = asyncio.Event()
        self.task = asyncio.create_task(self.manager.run(self.stop))

    async def _reconcile(self, key: Key) -> None:
        self.reconciled.append(key.name)
        await asyncio.sleep(1)
        self.finished.append(key.name)


@virtual_time
async def test_without_an_election_it_works_as_soon_as_caches_are_filled() -> None:
    scene = Scene(elected=False)
    await asyncio.sleep(5)
    assert scene.finished == ["a", "b"]
    assert (scene.manager.waits_for, scene.manager.problems) == ("", [])
    scene.stop.set()
    await scene.task


@virtual_time
async def test_a_standby_has_its_caches_filled_and_does_nothing() -> None:
    scene = Scene()
    await asyncio.sleep(100)
    assert scene.informer.store.is_synced
    assert scene.reconciled == []
    assert scene.manager.waits_for == "leadership"
    scene.stop.set()
    await scene.task


@virtual_time
async def test_a_new_leader_acts_only_when_its_caches_have_passed_its_lease() -> None:
    scene = Scene()
    assert scene.election is not None
    await asyncio.sleep(5)
    scene.election.give("20")
    await asyncio.sleep(0.5)
    assert scene.reconciled == []
    assert scene.manager.waits_for == "caches to show what the last leader did"
    scene.version = 25
    await asyncio.sleep(10)
    assert scene.lists == 2
    assert scene.finished == ["a", "b"]
    scene.stop.set()
    await scene.task


@virtual_time
async def test_what_is_under_way_may_finish() -> None:
    scene = Scene(elected=False)
    await asyncio.sleep(0.5)
    scene.stop.set()
    await scene.task
    assert (scene.reconciled, scene.finished) == (["a"], ["a"])
    assert clock() == pytest.approx(1, abs=0.1)


@virtual_time
async def test_who_loses_the_lease_begins_nothing_more_and_says_why() -> None:
    scene = Scene()
    assert scene.election is not None
    scene.election.give("5")
    await asyncio.sleep(0.5)
    scene.election.take("taken by 'b'")
    with pytest.raises(LeaseLost, match="taken by 'b'"):
        await scene.task
    assert scene.finished == ["a"]


@virtual_time
async def test_an_election_that_fails_before_it_is_won_is_a_loss() -> None:
    scene = Scene()
    assert scene.election is not None
    await asyncio.sleep(5)
    scene.election.take("the election failed")
    with pytest.raises(LeaseLost, match="the election failed"):
        await scene.task
    assert scene.reconciled == []


@virtual_time
async def test_stopping_is_possible_at_any_time() -> None:
    for moment in (0.0, 0.001, 3.0):
        scene = Scene()
        await asyncio.sleep(moment)
        scene.stop.set()
        async with asyncio.timeout(5):
            await scene.task
        assert scene.reconciled == []


@virtual_time
async def test_a_part_that_fails_ends_all_of_it() -> None:
    scene = Scene(elected=False)

    async def fail(*_: Any) -> None:
        raise RuntimeError("a mistake in the program")

    scene.informer.synced = fail  # type: ignore[method-assign]
    with pytest.raises(ExceptionGroup) as failed:
        await scene.task
    assert "a mistake in the program" in repr(failed.value)
