from __future__ import annotations

import asyncio
from collections import defaultdict

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kuberay.kube.lanes import Lanes
from tests.kube.virtual_time import clock, virtual_time


class Scene:
    """Work that takes a tenth of a second a piece, and the order in which it was begun."""

    def __init__(self, width: int = 1) -> None:
        self.lanes: Lanes[str] = Lanes(width, clock=clock)
        self.begun: list[str] = []
        self.at: dict[str, float] = {}
        self.tasks: list[asyncio.Task[None]] = []
        self.under_way = 0
        self.most = 0

    def want(self, name: str, key: str = "", lane: int = 0) -> asyncio.Task[None]:
        self.tasks.append(asyncio.create_task(self._work(name, key or name, lane), name=name))
        return self.tasks[-1]

    async def _work(self, name: str, key: str, lane: int) -> None:
        async with self.lanes.turn(key, lane):
            self.begun.append(name)
            self.at[name] = clock()
            self.under_way += 1
            self.most = max(self.most, self.under_way)
            await asyncio.sleep(0.1)
            self.under_way -= 1

    async def finish_some(self, *names: str) -> None:
        await asyncio.gather(*(task for task in self.tasks if task.get_name() in names))

    async def finish(self) -> list[str]:
        await asyncio.gather(*self.tasks, return_exceptions=True)
        assert self.lanes.waiting == 0
        return self.begun


@virtual_time
async def test_no_more_than_the_width_at_a_time() -> None:
    scene = Scene(width=3)
    for number in range(10):
        scene.want(str(number))
    await scene.finish()
    assert scene.most == 3
    assert clock() == pytest.approx(0.4)


@virtual_time
async def test_a_lower_lane_goes_first() -> None:
    scene = Scene()
    scene.want("running")
    await asyncio.sleep(0)
    for lane in (4, 2, 0, 3, 1):
        scene.want(f"lane {lane}", lane=lane)
    assert await scene.finish() == ["running", "lane 0", "lane 1", "lane 2", "lane 3", "lane 4"]


@virtual_time
async def test_one_who_wants_much_does_not_stand_before_one_who_wants_little() -> None:
    scene = Scene()
    for number in range(50):
        scene.want(f"big {number}", "big")
    await asyncio.sleep(0.05)
    scene.want("small 1", "small")
    scene.want("small 2", "small")
    begun = await scene.finish()
    assert begun.index("small 1") <= 2
    assert begun.index("small 2") <= 4
    assert [each for each in begun if each.startswith("big")] == [f"big {number}" for number in range(50)]


@virtual_time
async def test_the_lowest_lane_gets_its_turn_under_endless_load() -> None:
    scene = Scene()
    scene.want("load")
    await asyncio.sleep(0)
    scene.want("event", lane=4)
    for number in range(100):
        scene.want(f"load {number}")
        await asyncio.sleep(0.1)
    await scene.finish()
    assert 3 < scene.at["event"] < 5


class TestALongTurn:
    """Such as that of a write which a webhook holds up."""

    async def hang(self, lanes: Lanes[str], key: str, seconds: float) -> None:
        async with lanes.turn(key, 0):
            await asyncio.sleep(seconds)

    @virtual_time
    async def test_keeps_others_waiting_for_a_second_at_most(self) -> None:
        scene = Scene(width=2)
        hanging = [asyncio.create_task(self.hang(scene.lanes, "slow", 30)) for _ in range(50)]
        await asyncio.sleep(0.5)
        scene.want("other")
        await scene.finish_some("other")
        assert scene.at["other"] == pytest.approx(1.0)
        await stop(hanging)

    @virtual_time
    async def test_that_lasts_already_keeps_nobody_waiting(self) -> None:
        scene = Scene(width=2)
        hanging = [asyncio.create_task(self.hang(scene.lanes, "slow", 30)) for _ in range(2)]
        await asyncio.sleep(5)
        scene.want("other")
        await scene.finish_some("other")
        assert scene.at["other"] == pytest.approx(5.0)
        await stop(hanging)

    @virtual_time
    async def test_counts_for_him_who_has_it(self) -> None:
        scene = Scene(width=2)
        hanging = [asyncio.create_task(self.hang(scene.lanes, "slow", 30)) for _ in range(2)]
        await asyncio.sleep(5)
        scene.want("another of his", "slow")
        await scene.finish()
        assert scene.at["another of his"] == pytest.approx(30.0)
        await stop(hanging)

    @virtual_time
    async def test_is_one_of_as_many_as_there_are_others_at_most(self) -> None:
        lanes: Lanes[str] = Lanes(2, clock=clock)
        begun: list[str] = []

        async def work(name: str) -> None:
            async with lanes.turn(name, 0):
                begun.append(name)
                await asyncio.sleep(30)

        tasks = [asyncio.create_task(work(name)) for name in "abcdef"]
        await asyncio.sleep(20)
        assert begun == ["a", "b", "c", "d"]
        await asyncio.sleep(11)
        assert begun == ["a", "b", "c", "d", "e", "f"]
        await stop(tasks)

    @virtual_time
    async def test_leaves_as_much_room_as_before_when_it_has_ended(self) -> None:
        scene = Scene(width=2)
        await asyncio.gather(*(self.hang(scene.lanes, key, 3) for key in "abcd"))
        for number in range(10):
            scene.want(str(number))
        await scene.finish()
        assert scene.most == 2


async def stop(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


@virtual_time
async def test_who_gives_up_waiting_costs_nobody_a_turn() -> None:
    scene = Scene()
    scene.want("running")
    await asyncio.sleep(0)
    gone, next_ = scene.want("gone", "k"), scene.want("next", "k")
    await asyncio.sleep(0)
    gone.cancel()
    await asyncio.sleep(0)
    assert await scene.finish() == ["running", "next"]
    assert next_.exception() is None


@virtual_time
async def test_a_turn_that_comes_too_late_goes_to_the_next() -> None:
    lanes: Lanes[str] = Lanes(1, clock=clock)
    begun: list[str] = []

    async def work(name: str) -> None:
        async with lanes.turn(name, 0):
            begun.append(name)

    async with lanes.turn("running", 0):
        late, next_ = asyncio.create_task(work("late")), asyncio.create_task(work("next"))
        await asyncio.sleep(0)
    late.cancel()  # in the same moment in which it was given its turn
    await asyncio.wait([late, next_])
    assert begun == ["next"]


@virtual_time
async def test_a_failure_ends_the_turn() -> None:
    lanes: Lanes[str] = Lanes(1, clock=clock)
    with pytest.raises(RuntimeError):
        async with lanes.turn("a", 0):
            raise RuntimeError
    async with lanes.turn("b", 0):
        assert lanes.waiting == 0


def test_a_width_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="width"):
        Lanes(0)


@given(
    width=st.integers(1, 4),
    wants=st.lists(
        st.tuples(st.sampled_from("abcd"), st.integers(0, 4), st.sampled_from([0.0, 0.05, 1.0]), st.booleans()),
        max_size=60,
    ),
)
@example(
    width=2,
    wants=[("a", 0, pause, False) for pause in (1.0, 1.0, 0.0, 0.05)]
    + [("a", 2, pause, False) for pause in (0.05, 0.0)],
)
@settings(deadline=None)
def test_everybody_gets_one_turn_in_the_order_of_asking_and_nobody_waits_for_ever(
    width: int, wants: list[tuple[str, int, float, bool]]
) -> None:
    @virtual_time
    async def scenario() -> None:
        scene = Scene(width)
        expected: dict[tuple[str, int], list[str]] = defaultdict(list)
        for number, (key, lane, pause, gives_up) in enumerate(wants):
            task = scene.want(str(number), key, lane)
            await asyncio.sleep(pause)
            if gives_up and str(number) not in scene.begun:
                task.cancel()
            else:
                expected[key, lane].append(str(number))
        begun = await scene.finish()
        assert scene.most <= width
        assert sorted(begun) == sorted(name for names in expected.values() for name in names)
        for names in expected.values():
            moments = [scene.at[name] for name in names]
            assert moments == sorted(moments)  # who comes when another is just waking up may begin with him
        assert clock() <= sum(pause for *_, pause, _ in wants) + 0.1 * len(wants) + 0.2

    scenario()
