from __future__ import annotations

import asyncio
import uuid
from typing import TYPE_CHECKING, Any

import pytest
from structlog.testing import capture_logs

from kuberay.kube import errors
from kuberay.kube.controller import Controller, Result, TerminalError, itself, owner
from kuberay.kube.identity import Key
from kuberay.kube.queue import LOW, Queue
from kuberay.kube.store import Store
from tests.kube.virtual_time import clock, virtual_time

if TYPE_CHECKING:
    from collections.abc import Callable


class Recorder:
    """A reconcile that notes when it was called and does what it is told."""

    def __init__(self, *outcomes: Result | Exception | None) -> None:
        self.calls: list[tuple[str, float]] = []
        self._outcomes = list(outcomes)

    async def __call__(self, key: str) -> Result | None:
        self.calls.append((key, round(clock(), 3)))
        outcome = self._outcomes.pop(0) if self._outcomes else None
        if isinstance(outcome, Exception):
            raise outcome
        return outcome


async def run(controller: Controller[Any], seconds: float) -> None:
    """Let a controller work for a while, then stop it."""
    async with asyncio.TaskGroup() as group:
        group.create_task(controller.run())
        await asyncio.sleep(seconds)
        controller.stop()


def controller(reconcile: Any, **options: Any) -> Controller[str]:
    return Controller("things", Queue(clock=clock), reconcile, **options)


class TestReconciling:
    @virtual_time
    async def test_each_key_is_reconciled_once(self) -> None:
        reconcile = Recorder()
        c = controller(reconcile)
        for key in "aab":
            c.queue.add(key)
        await run(c, 10)
        assert reconcile.calls == [("a", 0), ("b", 0)]

    @virtual_time
    async def test_a_result_may_ask_for_another_look(self) -> None:
        reconcile = Recorder(Result(requeue_after=5), Result())
        c = controller(reconcile)
        c.queue.add("a")
        await run(c, 100)
        assert reconcile.calls == [("a", 0), ("a", 5)]

    @pytest.mark.parametrize(("asked", "then"), [(None, LOW), (7, 7)])
    def test_another_look_keeps_its_priority_unless_told_otherwise(self, asked: int | None, then: int) -> None:
        @virtual_time
        async def scenario() -> None:
            priorities: list[int] = []

            async def reconcile(key: str) -> Result | None:
                priorities.append(c.queue.priority(key))
                return Result(requeue_after=1, priority=asked) if len(priorities) == 1 else None

            c = controller(reconcile)
            c.queue.add("a", priority=LOW)
            await run(c, 10)
            assert priorities == [LOW, then]

        scenario()

    @virtual_time
    async def test_a_failure_comes_back_after_a_growing_wait(self) -> None:
        reconcile = Recorder(*[RuntimeError("no")] * 3)
        c = controller(reconcile)
        c.queue.add("a")
        await run(c, 100)
        assert reconcile.calls == [("a", 0), ("a", 0.005), ("a", 0.015), ("a", 0.035)]
        assert c.queue.failures("a") == 0

    @virtual_time
    async def test_a_failure_does_not_touch_other_keys(self) -> None:
        reconcile = Recorder(RuntimeError("no"))
        c = controller(reconcile)
        c.queue.add("a")
        c.queue.add("b")
        await run(c, 100)
        assert reconcile.calls == [("a", 0), ("b", 0), ("a", 0.005)]

    @virtual_time
    async def test_a_terminal_failure_waits_for_a_change(self) -> None:
        reconcile = Recorder(TerminalError("cannot work"))
        c = controller(reconcile)
        c.queue.add("a")
        await run(c, 10_000)
        assert len(reconcile.calls) == 1

    @virtual_time
    async def test_a_reconcile_that_takes_too_long_counts_as_failed(self) -> None:
        calls = []

        async def hang(key: str) -> None:
            calls.append(clock())
            await asyncio.sleep(1000 if len(calls) == 1 else 0)

        c = controller(hang, timeout=30)
        c.queue.add("a")
        await run(c, 100)
        assert calls == [0, pytest.approx(30.005)]

    @virtual_time
    async def test_a_cancelled_dependency_does_not_end_the_worker(self) -> None:
        calls = []

        async def waits_for_the_cancelled(key: str) -> None:
            calls.append(key)
            if len(calls) == 1:
                raise asyncio.CancelledError

        c = controller(waits_for_the_cancelled)
        c.queue.add("a")
        await run(c, 100)
        assert calls == ["a", "a"]


class TestWorkers:
    @virtual_time
    async def test_no_more_reconciles_at_a_time_than_workers_and_never_two_of_a_key(self) -> None:
        running: list[str] = []
        most = 0

        async def work(key: str) -> None:
            nonlocal most
            assert key not in running
            running.append(key)
            most = max(most, len(running))
            await asyncio.sleep(1)
            running.remove(key)

        c = controller(work, workers=3)
        for key in "abcdefg":
            c.queue.add(key)

        async def poke() -> None:
            for _ in range(20):
                await asyncio.sleep(0.1)
                c.queue.add("a")

        async with asyncio.TaskGroup() as group:
            group.create_task(poke())
            await run(c, 20)
        assert most == 3

    def test_none_at_all_is_a_mistake(self) -> None:
        with pytest.raises(ValueError, match="at least one worker"):
            controller(Recorder(), workers=0)


class TestStopping:
    @virtual_time
    async def test_what_is_under_way_may_finish_and_nothing_new_begins(self) -> None:
        finished = []

        async def work(key: str) -> None:
            await asyncio.sleep(10)
            finished.append(key)

        c = controller(work)
        c.queue.add("a")
        c.queue.add("b")
        await run(c, 1)
        assert finished == ["a"]
        assert clock() == pytest.approx(10)

    @virtual_time
    async def test_what_does_not_finish_is_cancelled(self) -> None:
        async def work(key: str) -> None:
            await asyncio.sleep(1000)

        c = controller(work, drain=5)
        c.queue.add("a")
        with capture_logs() as logs:
            await run(c, 1)
        assert clock() == pytest.approx(6)
        assert logs[0]["event"] == "a reconcile did not end in time and is cancelled"

    @virtual_time
    async def test_cancelling_it_cancels_its_workers(self) -> None:
        cancelled = []

        async def work(key: str) -> None:
            try:
                await asyncio.sleep(1000)
            except asyncio.CancelledError:
                cancelled.append(key)
                raise

        c = controller(work)
        c.queue.add("a")
        task = asyncio.create_task(c.run())
        await asyncio.sleep(1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert cancelled == ["a"]


class TestLogging:
    @pytest.mark.parametrize(
        ("error", "text", "traced"),
        [
            (errors.Conflict("changed meanwhile"), "Conflict: changed meanwhile", False),
            (RuntimeError("bug"), "RuntimeError: bug", True),
        ],
    )
    def test_a_failure_is_logged_with_its_reason(self, error: Exception, text: str, traced: bool) -> None:
        @virtual_time
        async def scenario() -> None:
            c = controller(Recorder(error))
            c.queue.add("a")
            await run(c, 1)

        with capture_logs() as logs:
            scenario()
        assert [(each["event"], each["error"], each["exc_info"]) for each in logs] == [
            ("reconcile failed", text, traced)
        ]

    @virtual_time
    async def test_everything_a_reconcile_logs_carries_its_id(self) -> None:
        import structlog

        seen = []

        async def work(key: str) -> None:
            seen.append(structlog.contextvars.get_contextvars())

        c = controller(work)
        c.queue.add("a")
        c.queue.add("b")
        await run(c, 1)
        assert [(each["controller"], each["object"]) for each in seen] == [("things", "a"), ("things", "b")]
        ids = [each["reconcile_id"] for each in seen]
        assert [str(uuid.UUID(each)) for each in ids] == ids
        assert len(set(ids)) == 2

    @virtual_time
    async def test_no_other_controller_gives_the_same_id(self) -> None:
        import structlog

        ids = set()

        async def work(key: str) -> None:
            ids.add(structlog.contextvars.get_contextvars()["reconcile_id"])

        for _ in range(2):
            c = controller(work)
            c.queue.add("a")
            await run(c, 1)
        assert len(ids) == 2


def pod(name: str, version: str, owner_kind: str = "RayCluster", controller: bool = True) -> dict[str, Any]:
    reference = {"apiVersion": "ray.io/v1", "kind": owner_kind, "name": "c", "uid": "u", "controller": controller}
    meta = {"name": name, "namespace": "n", "uid": name, "resourceVersion": version, "ownerReferences": [reference]}
    return {"metadata": meta}


class TestWatching:
    def watching(self, keys: Callable[[Any], Any], **options: Any) -> tuple[Controller[Key], Store[dict[str, Any]]]:
        c: Controller[Key] = Controller("things", Queue(), reconcile=lambda _: asyncio.sleep(0))
        store: Store[dict[str, Any]] = Store()
        c.watches(store, keys, **options)
        return c, store

    async def test_a_change_of_the_object_itself(self) -> None:
        c, store = self.watching(itself)
        store.replaced([pod("a", "1")], "1")
        assert await c.queue.get() == Key("n", "a")

    async def test_a_change_of_what_it_owns(self) -> None:
        c, store = self.watching(owner("RayCluster", "ray.io"))
        store.replaced([pod("a", "1"), pod("b", "2"), pod("x", "3", "RayJob"), pod("y", "4", controller=False)], "4")
        assert len(c.queue) == 1
        assert await c.queue.get() == Key("n", "c")

    async def test_an_object_that_changes_its_owner_concerns_both(self) -> None:
        c, store = self.watching(lambda obj: [obj["to"]])
        store.replaced([{**pod("a", "1"), "to": "x"}], "1")
        store.applied({**pod("a", "2"), "to": "y"})
        assert len(c.queue) == 2

    async def test_a_predicate_sees_old_and_new(self) -> None:
        seen = []

        def never(old: Any, new: Any) -> bool:
            seen.append((old is None, new is None))
            return False

        c, store = self.watching(itself, when=never)
        store.replaced([pod("a", "1")], "1")
        store.applied(pod("a", "2"))
        store.removed(pod("a", "3"))
        assert seen == [(True, False), (False, False), (False, True)]
        assert len(c.queue) == 0

    @virtual_time
    async def test_changes_that_come_together_may_be_looked_at_together(self) -> None:
        reconcile = Recorder()
        c: Controller[Any] = Controller("things", Queue(clock=clock), reconcile)
        store: Store[dict[str, Any]] = Store()
        store.replaced([], "1")
        c.watches(store, owner("RayCluster", "ray.io"), after=0.1)
        async with asyncio.TaskGroup() as group:
            group.create_task(run(c, 10))
            for version in range(2, 12):
                store.applied(pod(f"p-{version}", str(version)))
                await asyncio.sleep(0.03)
        assert len(reconcile.calls) == 3

    async def test_what_a_first_list_brings_waits_for_what_happens(self) -> None:
        c, store = self.watching(itself)
        store.replaced([pod("old", "1")], "1")
        store.applied(pod("new", "2"))
        assert await c.queue.get() == Key("n", "new")

    async def test_what_is_there_already_is_looked_at(self) -> None:
        c: Controller[Key] = Controller("things", Queue(), reconcile=lambda _: asyncio.sleep(0))
        store: Store[dict[str, Any]] = Store()
        store.replaced([pod("a", "1")], "1")
        c.watches(store, itself)
        assert c.queue.depths() == {LOW: 1}
        assert await c.queue.get() == Key("n", "a")


class TestLookingAgain:
    def watching(self, reconcile: Recorder, **options: Any) -> Controller[Any]:
        c: Controller[Any] = Controller("things", Queue(clock=clock), reconcile, rng=lambda: 0.5, **options)
        store: Store[dict[str, Any]] = Store()
        store.replaced([pod("a", "1"), pod("b", "2")], "2")
        c.watches(store, itself, when=lambda old, new: False)
        c.watches(store, owner("RayCluster", "ray.io"))
        return c

    @virtual_time
    async def test_everything_is_looked_at_every_ten_hours(self) -> None:
        reconcile = Recorder()
        await run(self.watching(reconcile), 80_000)
        assert [(str(key), at) for key, at in reconcile.calls] == [
            (name, at) for at in (0, 36_000, 72_000) for name in ("n/a", "n/b", "n/c")
        ]

    @virtual_time
    async def test_as_what_has_time(self) -> None:
        c = self.watching(Recorder())
        for _ in range(3):
            c.queue.done(await c.queue.get())
        c.look_again()
        assert c.queue.depths() == {LOW: 3}

    @virtual_time
    async def test_or_never(self) -> None:
        reconcile = Recorder()
        await run(self.watching(reconcile, resync=None), 80_000)
        assert {at for _, at in reconcile.calls} == {0}
