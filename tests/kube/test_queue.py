from __future__ import annotations

import asyncio

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from kuberay.kube.queue import LOW, Backoff, Queue, QueueClosed
from tests.kube.virtual_time import VirtualLoop, clock, virtual_time


def queue() -> Queue[str]:
    return Queue(clock=clock)


async def take(q: Queue[str], count: int) -> list[str]:
    """The next keys, each finished before the next is taken."""
    taken = []
    for _ in range(count):
        key = await q.get()
        q.done(key)
        taken.append(key)
    return taken


class TestAKeyIsQueuedOnce:
    @virtual_time
    async def test_adding_it_again_while_it_waits_changes_nothing(self) -> None:
        q = queue()
        for key in "abab":
            q.add(key)
        assert len(q) == 2
        assert await take(q, 2) == ["a", "b"]

    @virtual_time
    async def test_adding_it_while_it_is_worked_on_brings_it_back_once_afterwards(self) -> None:
        q = queue()
        q.add("a")
        assert await q.get() == "a"
        q.add("a")
        q.add("a")
        waiting = asyncio.create_task(q.get())
        await asyncio.sleep(1)
        assert not waiting.done()
        q.done("a")
        assert await waiting == "a"
        q.done("a")
        assert len(q) == 0

    @virtual_time
    async def test_others_overtake_the_one_under_work(self) -> None:
        q = queue()
        q.add("a")
        await q.get()
        q.add("a")
        q.add("b")
        assert await q.get() == "b"


class TestDelays:
    @virtual_time
    async def test_a_key_for_later_comes_then_and_not_before(self) -> None:
        q = queue()
        q.add("a", after=60)
        assert await q.get() == "a"
        assert clock() == pytest.approx(60)

    @virtual_time
    async def test_the_sooner_of_two_askings_counts(self) -> None:
        q = queue()
        q.add("a", after=60)
        q.add("a", after=5)
        q.add("a", after=90)
        await take(q, 1)
        assert clock() == pytest.approx(5)
        assert len(q) == 0

    @virtual_time
    async def test_keys_come_in_the_order_of_their_times(self) -> None:
        q = queue()
        q.add("late", after=3)
        q.add("soon", after=1)
        q.add("now")
        assert await take(q, 3) == ["now", "soon", "late"]

    @virtual_time
    async def test_something_new_wakes_who_waits_for_something_later(self) -> None:
        q = queue()
        q.add("later", after=60)
        waiting = asyncio.create_task(q.get())
        await asyncio.sleep(1)
        q.add("new")
        assert await waiting == "new"
        assert clock() == pytest.approx(1)


class TestPriority:
    @virtual_time
    async def test_the_more_important_goes_first_and_equals_keep_their_order(self) -> None:
        q = queue()
        for key in ("low1", "low2"):
            q.add(key, priority=LOW)
        for key in ("a", "b"):
            q.add(key)
        assert await take(q, 4) == ["a", "b", "low1", "low2"]

    @virtual_time
    async def test_the_most_important_asking_counts(self) -> None:
        q = queue()
        q.add("x", priority=LOW)
        q.add("y", priority=LOW)
        q.add("y")
        assert await take(q, 2) == ["y", "x"]

    @virtual_time
    async def test_the_unimportant_gets_its_turn_under_endless_load(self) -> None:
        q = queue()
        q.add("low", priority=LOW)
        taken: list[str] = []
        for second in range(100):
            q.add(f"busy {second}")
            q.add(f"more {second}")
            taken += await take(q, 1)
            await asyncio.sleep(1)
        overtaking = taken[: taken.index("low")]
        assert max(int(key.split()[1]) for key in overtaking) == 9

    @virtual_time
    async def test_a_retry_keeps_the_priority(self) -> None:
        q = queue()
        q.add("low", priority=LOW)
        key = await q.get()
        q.retry(key)
        q.done(key)
        await asyncio.sleep(0.01)
        q.add("normal")
        assert await take(q, 2) == ["normal", "low"]

    @virtual_time
    async def test_a_key_that_changes_all_the_time_does_not_hold_up_the_others(self) -> None:
        q = queue()
        for key in ("busy", "a", "b", "c"):
            q.add(key)
        taken = []
        for _ in range(5):
            key = await q.get()
            q.add("busy")
            q.done(key)
            taken.append(key)
            await asyncio.sleep(0.001)
        assert taken == ["busy", "a", "b", "c", "busy"]

    @virtual_time
    async def test_who_came_while_a_key_was_worked_on_goes_before_it(self) -> None:
        q = queue()
        q.add("big")
        await q.get()
        q.add("big")
        await asyncio.sleep(1)
        q.add("small")
        await asyncio.sleep(9)
        q.done("big")
        assert await take(q, 2) == ["small", "big"]

    @virtual_time
    async def test_how_many_are_due_is_counted_by_priority(self) -> None:
        q = queue()
        q.add("a")
        q.add("b", priority=LOW)
        q.add("later", after=1)
        assert q.depths() == {0: 1, LOW: 1}


class TestFailures:
    @virtual_time
    async def test_each_failure_in_a_row_doubles_the_wait(self) -> None:
        q = queue()
        assert [q.retry("a") for _ in range(4)] == [0.005, 0.01, 0.02, 0.04]
        assert q.failures("a") == 4

    @virtual_time
    async def test_the_wait_has_an_upper_end(self) -> None:
        assert Backoff().delay(10_000) == 1000

    @virtual_time
    async def test_success_makes_the_next_failure_the_first(self) -> None:
        q = queue()
        q.retry("a")
        q.forget("a")
        assert q.retry("a") == 0.005

    @virtual_time
    async def test_keys_fail_apart(self) -> None:
        q = queue()
        q.retry("a")
        assert q.retry("b") == 0.005


class TestWorkers:
    @virtual_time
    async def test_a_worker_that_is_cancelled_does_not_lose_the_wake_up(self) -> None:
        q = queue()
        first = asyncio.create_task(q.get())
        second = asyncio.create_task(q.get())
        await asyncio.sleep(0)
        q.add("a")
        first.cancel()
        assert await second == "a"

    @virtual_time
    async def test_closing_wakes_all_who_wait(self) -> None:
        q = queue()
        waiting = [asyncio.create_task(q.get()) for _ in range(3)]
        await asyncio.sleep(0)
        q.close()
        assert all(isinstance(r, QueueClosed) for r in await asyncio.gather(*waiting, return_exceptions=True))

    @virtual_time
    async def test_a_closed_queue_takes_and_gives_nothing(self) -> None:
        q = queue()
        q.add("a")
        q.close()
        q.add("b")
        with pytest.raises(QueueClosed):
            await q.get()
        assert len(q) == 1


class AgainstAModel(RuleBasedStateMachine):
    """Whatever is done to it: no key is lost, none is handed out twice at a time or before its time, and of those that
    are due always the one comes that has waited longest, a point of priority being worth a tenth of a second.
    """

    keys = st.sampled_from("abcde")

    def __init__(self) -> None:
        super().__init__()
        self.loop = VirtualLoop()
        self.q: Queue[str] = Queue(clock=self.loop.time)
        self.waiting: dict[str, tuple[float, int, int]] = {}
        self.held: dict[str, int] = {}
        self.failures: dict[str, int] = {}
        self.askings = 0

    def teardown(self) -> None:
        self.loop.close()

    def asked(self, key: str, at: float, priority: int) -> None:
        before = self.waiting.get(key)
        if before is not None and at >= before[0] and priority <= before[1]:
            return
        self.askings += 1
        sooner, more = (at, priority) if before is None else (min(at, before[0]), max(priority, before[1]))
        self.waiting[key] = (sooner, more, self.askings)

    @rule(key=keys, after=st.sampled_from([0.0, 0.0, 1.0, 30.0]), priority=st.integers(-100, 100))
    def add(self, key: str, after: float, priority: int) -> None:
        self.q.add(key, after=after, priority=priority)
        self.asked(key, self.loop.time() + after, priority)

    @rule(key=keys)
    def fail(self, key: str) -> None:
        failed = self.failures.get(key, 0)
        delay = self.q.retry(key)
        assert delay == min(0.005 * 2**failed, 1000.0)
        self.failures[key] = failed + 1
        self.asked(key, self.loop.time() + delay, self.held.get(key, 0))

    @rule(key=keys)
    def succeed(self, key: str) -> None:
        self.q.forget(key)
        self.failures.pop(key, None)

    @rule(seconds=st.sampled_from([0.001, 1.0, 100.0]))
    def time_passes(self, seconds: float) -> None:
        self.loop.run_until_complete(asyncio.sleep(seconds))

    @precondition(lambda self: any(key not in self.held for key in self.waiting))
    @rule()
    def take(self) -> None:
        free = {key: entry for key, entry in self.waiting.items() if key not in self.held}
        soonest = max(self.loop.time(), min(at for at, *_ in free.values()))
        key = self.loop.run_until_complete(self.q.get())
        now = self.loop.time()
        assert soonest <= now <= soonest + 1e-6
        due = {each: (at - priority * 0.1, number) for each, (at, priority, number) in free.items() if at <= now}
        assert key == min(due, key=lambda each: due[each])
        self.held[key] = self.waiting.pop(key)[1]
        assert self.q.priority(key) == self.held[key]

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def finish(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(sorted(self.held)))
        del self.held[key]
        self.q.done(key)
        if key in self.waiting:  # it has had its turn, and waits anew
            at, priority, number = self.waiting[key]
            self.waiting[key] = (max(at, self.loop.time()), priority, number)

    @precondition(lambda self: all(key in self.held for key in self.waiting))
    @rule()
    def nothing_is_handed_out_when_all_is_held(self) -> None:
        async def attempt() -> None:
            async with asyncio.timeout(10_000):
                await self.q.get()

        with pytest.raises(TimeoutError):
            self.loop.run_until_complete(attempt())

    @invariant()
    def the_counts_are_right(self) -> None:
        assert len(self.q) == len(self.waiting)
        assert self.q.processing == len(self.held)


TestAgainstAModel = AgainstAModel.TestCase
TestAgainstAModel.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)
