from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, ClassVar, Self

import msgspec
import pytest
from structlog.testing import capture_logs

from tests.kube.scene import (
    AHEAD,
    EXPIRED,
    Meta,
    Pod,
    Scene,
    bookmark,
    end_of_list,
    event,
    forever,
    later,
    listed,
    pod,
)
from tests.kube.scripted import BROKEN, Answer, query, refused
from tests.kube.virtual_time import clock, virtual_time

if TYPE_CHECKING:
    from kuberay.kube.transport import Request


class TestFollowing:
    @virtual_time
    async def test_lists_once_and_then_watches_from_the_version_of_the_list(self) -> None:
        scene = Scene(listed(10, pod("a", 1)), Answer(body=[event("ADDED", pod("b", 11)), forever()]))
        async with scene.running():
            await scene.informer.synced()
            assert scene.names == ["a"]
            await asyncio.sleep(1)
        assert scene.names == ["a", "b"]
        assert scene.asked == ["list", "watch 10"]

    @virtual_time
    async def test_changes_and_departures_reach_handlers_with_old_and_new(self) -> None:
        events = event("MODIFIED", pod("a", 11)) + event("DELETED", pod("a", 12))
        scene = Scene(listed(10, pod("a", 1)), Answer(body=[events, forever()]))
        await scene.run(1)
        assert scene.changes == [(None, "1"), ("1", "11"), ("11", None)]

    @virtual_time
    async def test_a_long_list_comes_in_pages(self) -> None:
        scene = Scene(listed(10, pod("a", 1), continue_="t1"), listed(10, pod("b", 2)), page_size=1)
        await scene.run(1)
        assert scene.names == ["a", "b"]
        assert [query(each).get("continue") for each in scene.transport.requests[:2]] == [None, "t1"]

    @virtual_time
    async def test_asks_only_for_what_it_was_told_to(self) -> None:
        half = "shardRange(object.metadata.uid, '0x0000000000000000', '0x8000000000000000')"
        scene = Scene(listed(10), namespace="n", labels="a=b", fields="c=d", shard=half)
        await scene.run(1)
        assert scene.asked == ["list", "watch 10"]
        for request in scene.transport.requests:
            assert request.path == "/api/v1/namespaces/n/pods"
            assert query(request)["shardSelector"] == half
            assert (query(request)["labelSelector"], query(request)["fieldSelector"]) == ("a=b", "c=d")

    @virtual_time
    @pytest.mark.parametrize("streamed", [False, True])
    async def test_keeps_only_what_concerns_it_for_as_long_as_it_does(self, streamed: bool) -> None:
        first = [pod("a", 1, phase="ours"), pod("b", 2, phase="theirs"), pod("c", 3, phase="ours")]
        later = event("MODIFIED", pod("b", 11, phase="ours")) + event("MODIFIED", pod("c", 12, phase="theirs"))
        later += event("ADDED", pod("d", 13, phase="theirs")) + event("DELETED", pod("d", 14, phase="theirs"))
        if streamed:
            answers = [
                Answer(body=[b"".join(event("ADDED", each) for each in first) + end_of_list(10), later, forever()])
            ]
        else:
            answers = [listed(10, *first), Answer(body=[later, forever()])]
        scene = Scene(*answers, streamed=streamed, concerns=lambda each: each.phase == "ours")
        async with scene.running():
            await scene.informer.synced()
            await asyncio.sleep(1)
        assert scene.names == ["a", "b"]
        assert scene.changes == [(None, "1"), (None, "3"), (None, "11"), ("3", None)]
        assert scene.store.resource_version == "14"

    @virtual_time
    async def test_a_watch_that_the_server_ends_is_taken_up_at_the_last_version(self) -> None:
        scene = Scene(
            listed(10),
            Answer(body=[event("ADDED", pod("a", 11)), bookmark(20)]),
            Answer(body=[event("ADDED", pod("b", 21))]),
        )
        await scene.run(1)
        assert scene.asked == ["list", "watch 10", "watch 20", "watch 21"]
        assert scene.times[-1] == 0

    @virtual_time
    async def test_the_server_is_asked_to_end_watches_at_different_times(self) -> None:
        scene = Scene(listed(10))
        await scene.run(1)
        assert query(scene.transport.requests[1])["timeoutSeconds"] == "600"
        assert query(scene.transport.requests[1])["allowWatchBookmarks"] == "true"


class Slow(Pod, frozen=True, gc=False):
    """A kind that takes long to read, and counts how often that is done."""

    reads: ClassVar[list[str]] = []

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        read = msgspec.convert(data, cls)
        cls.reads.append(read.metadata.resource_version)
        return read


class TestOwnWrites:
    @virtual_time
    async def test_news_of_them_are_not_read_again(self) -> None:
        Slow.reads.clear()
        go_on = asyncio.Event()
        # What we wrote, something else at the same version but of another object, and what became of ours.
        news = event("ADDED", pod("ours", 11)) + event("ADDED", pod("other", 12)) + event("MODIFIED", pod("ours", 13))
        scene = Scene(listed(10), Answer(body=[go_on, news, forever()]), type=Slow)
        async with scene.running():
            await scene.informer.synced()
            ours = msgspec.convert(pod("ours", 11), Slow)
            scene.store.wrote(ours)
            go_on.set()
            await asyncio.sleep(1)
        assert Slow.reads == ["12", "13"]
        assert scene.names == ["other", "ours"]
        assert scene.changes == [(None, "11"), (None, "12"), ("11", "13")]
        assert scene.store.unconfirmed == 0


class TestFaults:
    @virtual_time
    async def test_a_broken_watch_is_taken_up_at_the_last_version(self) -> None:
        scene = Scene(
            listed(10),
            Answer(body=[event("ADDED", pod("a", 11)), BROKEN]),
            Answer(body=[event("ADDED", pod("b", 12)), forever()]),
        )
        await scene.run(2)
        assert scene.asked == ["list", "watch 10", "watch 11"]
        assert scene.names == ["a", "b"]

    @virtual_time
    async def test_a_watch_cut_within_an_event_loses_nothing(self) -> None:
        whole = event("ADDED", pod("b", 12))
        scene = Scene(
            listed(10),
            Answer(body=[event("ADDED", pod("a", 11)) + whole[:20]]),
            Answer(body=[whole, forever()]),
        )
        await scene.run(2)
        assert scene.asked == ["list", "watch 10", "watch 11"]
        assert scene.changes == [(None, "11"), (None, "12")]

    @virtual_time
    async def test_repeated_and_late_events_change_nothing(self) -> None:
        late = event("MODIFIED", pod("a", 11)) + event("DELETED", pod("a", 13)) + event("MODIFIED", pod("a", 12))
        events = event("MODIFIED", pod("a", 11)) * 2 + late
        scene = Scene(listed(10, pod("a", 1)), Answer(body=[events, forever()]))
        await scene.run(1)
        assert scene.changes == [(None, "1"), ("1", "11"), ("11", None)]

    @virtual_time
    async def test_a_forgotten_version_is_listed_again_at_once_and_missed_departures_are_told(self) -> None:
        scene = Scene(listed(10, pod("a", 1), pod("b", 2)), Answer(body=[EXPIRED]), listed(30, pod("a", 25)))
        await scene.run(1)
        assert scene.asked == ["list", "watch 10", "list 10", "watch 30"]
        assert scene.changes == [(None, "1"), (None, "2"), ("2", None), ("1", "25")]
        assert scene.times[2] == 0

    @virtual_time
    async def test_a_watch_refused_as_expired_is_the_same(self) -> None:
        scene = Scene(listed(10), refused(410, "Expired"), listed(30))
        await scene.run(1)
        assert scene.asked == ["list", "watch 10", "list 10", "watch 30"]

    @pytest.mark.parametrize("no", [refused(410, "Expired"), AHEAD])
    def test_a_list_at_what_is_known_that_cannot_be_had_is_one_of_what_is_newest(self, no: Answer) -> None:
        @virtual_time
        async def scenario() -> None:
            scene = Scene(listed(10, pod("a", 1)), Answer(body=[EXPIRED]), no, listed(30, pod("b", 25)))
            await scene.run(1)
            assert scene.asked == ["list", "watch 10", "list 10", "list", "watch 30"]
            assert scene.times[3] == 0
            assert scene.names == ["b"]

        scenario()

    @virtual_time
    async def test_a_version_known_by_bookmark_alone_is_not_gone_behind(self) -> None:
        scene = Scene(listed(10), Answer(body=[bookmark(20), EXPIRED]), listed(30))
        await scene.run(1)
        assert scene.asked == ["list", "watch 10", "list 20", "watch 30"]

    @virtual_time
    async def test_a_server_that_always_says_expired_is_not_hammered(self) -> None:
        scene = Scene(*[listed(10), Answer(body=[EXPIRED])] * 1000)
        await scene.run(300)
        assert len(scene.asked) < 40

    @virtual_time
    async def test_a_list_that_expires_between_pages_is_asked_for_at_once(self) -> None:
        scene = Scene(
            listed(10, pod("old", 1), continue_="t1"), refused(410, "Expired"), listed(12, pod("a", 1)), page_size=1
        )
        await scene.run(1)
        assert scene.names == ["a"]
        assert [query(each).get("limit") for each in scene.transport.requests[:3]] == ["1", "1", None]

    @virtual_time
    async def test_a_server_put_back_in_time_is_listed_again(self) -> None:
        scene = Scene(listed(1000, pod("a", 999)), AHEAD, listed(500, pod("b", 400)))
        await scene.run(2)
        assert scene.asked == ["list", "watch 1000", "list", "watch 500"]
        assert scene.names == ["b"]

    @virtual_time
    async def test_silence_makes_it_connect_again_without_waiting(self) -> None:
        scene = Scene(listed(10), Answer(body=[bookmark(15), forever()]))
        await scene.run(71)
        assert scene.asked == ["list", "watch 10", "watch 15"]
        assert scene.times[-1] == pytest.approx(70)

    @virtual_time
    async def test_a_server_that_ends_every_watch_at_once_is_not_hammered(self) -> None:
        scene = Scene(listed(10), *[Answer(body=[])] * 1000)
        await scene.run(300)
        assert len(scene.asked) < 20

    @pytest.mark.parametrize(
        "stuck",
        [
            Answer(body=[b"{oops}\n"]),
            Answer(body=[event("ERROR", {"kind": "Status", "code": 500, "message": "cannot convert an object"})]),
            refused(500, "InternalError"),
        ],
    )
    def test_what_cannot_be_watched_is_asked_for_again_and_then_listed_around(self, stuck: Answer) -> None:
        @virtual_time
        async def scenario() -> None:
            scene = Scene(listed(10), stuck, stuck, listed(20))
            await scene.run(10)
            assert scene.asked == ["list", "watch 10", "watch 10", "list 10", "watch 20"]

        scenario()

    @virtual_time
    async def test_a_watch_that_gets_on_between_its_failures_is_not_listed_around(self) -> None:
        scene = Scene(
            listed(10), refused(500, "InternalError"), Answer(body=[bookmark(11)]), refused(500, "InternalError")
        )
        await scene.run(10)
        assert scene.asked == ["list", "watch 10", "watch 10", "watch 11", "watch 11"]

    @pytest.mark.parametrize("no", [(401, "Unauthorized"), (403, "Forbidden"), (429, "TooManyRequests")])
    def test_a_watch_is_not_listed_around_where_a_list_is_no_better(self, no: tuple[int, str]) -> None:
        @virtual_time
        async def scenario() -> None:
            scene = Scene(listed(10), *[refused(*no)] * 3)
            await scene.run(10)
            assert scene.asked == ["list", *["watch 10"] * 4]

        scenario()

    @pytest.mark.parametrize(
        "failure", [refused(500, "InternalError"), BROKEN, Answer(502, b"<html>"), Answer(body=b"[")]
    )
    def test_a_list_that_fails_is_tried_until_it_works(self, failure: Any) -> None:
        @virtual_time
        async def scenario() -> None:
            scene = Scene(failure, failure, listed(10, pod("a", 1)))
            await scene.run(10)
            assert scene.names == ["a"]
            assert scene.times[:3] == [0, pytest.approx(0.8), pytest.approx(2.4)]

        scenario()

    @virtual_time
    async def test_waits_double_to_half_a_minute_and_start_over_after_two_minutes_of_health(self) -> None:
        scene = Scene(listed(10), *[BROKEN] * 8, *[Answer(body=[bookmark(11), forever()])] * 2, BROKEN)
        await scene.run(400)
        waits = [round(b - a, 1) for a, b in zip(scene.times[1:], scene.times[2:], strict=False)]
        assert waits[:8] == [0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30, 30]
        assert waits[8:11] == [70, 70, 0.8]

    @virtual_time
    async def test_one_unreadable_object_is_left_as_it_was_and_the_rest_goes_on(self) -> None:
        scene = Scene(
            listed(10, pod("a", 1), pod("bad", 2, phase=7)),
            Answer(body=[event("MODIFIED", pod("a", 11, phase=7)) + event("ADDED", pod("b", 12)), EXPIRED]),
            listed(20, pod("a", 11, phase=7), pod("b", 12)),
            Answer(body=[event("DELETED", pod("a", 21, phase=7)), forever()]),
        )
        with capture_logs() as logs:
            await scene.run(1)
        assert scene.changes == [(None, "1"), (None, "12"), ("1", None)]
        assert {each["object"] for each in logs if each["log_level"] == "error"} == {"n/a", "n/bad"}
        assert scene.store.resource_version == "21"


class TestDoingWithout:
    @virtual_time
    async def test_a_list_that_cannot_be_had_has_been_tried(self) -> None:
        scene = Scene(refused(500, "InternalError"), listed(10))
        async with scene.running():
            await scene.informer.tried()
            assert not scene.store.is_synced
            await scene.informer.synced()
            assert clock() == pytest.approx(0.8)

    @virtual_time
    async def test_one_that_is_there_has_been_too(self) -> None:
        scene = Scene(listed(10, pod("a", 1)))
        async with scene.running():
            await scene.informer.tried()
            assert scene.names == ["a"]


class TestSayingWhatIsWrong:
    @pytest.mark.parametrize(
        ("failure", "text"),
        [
            (
                refused(403, "Forbidden", 'User "x" cannot list'),
                "not allowed to list pods in namespace n: the account needs the verb 'list' on it",
            ),
            (refused(401, "Unauthorized"), "the server does not take our credentials; are they expired?"),
            (refused(404, "NotFound"), "is its CustomResourceDefinition installed?"),
            (BROKEN, "cannot list pods in namespace n: connection reset"),
            (refused(500, "InternalError", "etcd is ill"), "the server says 500 InternalError: etcd is ill"),
        ],
    )
    def test_the_problem_names_the_verb_and_the_resource(self, failure: Any, text: str) -> None:
        @virtual_time
        async def scenario() -> None:
            scene = Scene(failure, listed(10), namespace="n")
            async with scene.running():
                await asyncio.sleep(0.1)
                assert text in (scene.informer.problem or "")
                await scene.informer.synced()
                await asyncio.sleep(0.1)
                assert scene.informer.problem is None

        with capture_logs() as logs:
            scenario()
        assert text in logs[0]["event"]

    @virtual_time
    async def test_a_missing_right_to_watch_is_told_apart_from_one_to_list(self) -> None:
        scene = Scene(listed(10), refused(403, "Forbidden"))
        async with scene.running():
            await asyncio.sleep(0.1)
            assert "the account needs the verb 'watch'" in (scene.informer.problem or "")


class TestReaching:
    @virtual_time
    async def test_what_is_passed_is_reached(self) -> None:
        scene = Scene(listed(10))
        async with scene.running():
            await scene.informer.reach("10")
        assert scene.asked == ["list", "watch 10"]

    @virtual_time
    async def test_the_watch_may_get_there(self) -> None:
        go_on = asyncio.Event()
        scene = Scene(listed(10), Answer(body=[go_on, bookmark(12), forever()]))
        async with scene.running():
            reaching = asyncio.create_task(scene.informer.reach("12"))
            await asyncio.sleep(0.5)
            assert not reaching.done()
            go_on.set()
            await reaching
            assert clock() == 0.5

    @virtual_time
    async def test_else_a_list_does_while_the_watch_goes_on(self) -> None:
        go_on = asyncio.Event()
        late = event("MODIFIED", pod("a", 11)) + event("DELETED", pod("b", 12)) + event("MODIFIED", pod("a", 21))
        scene = Scene(
            listed(10, pod("a", 1), pod("b", 2)), Answer(body=[go_on, late, forever()]), listed(20, pod("a", 15))
        )
        async with scene.running():
            await scene.informer.reach("18")
            assert clock() == pytest.approx(1)
            go_on.set()
            await asyncio.sleep(1)
        assert scene.asked == ["list", "watch 10", "list"]
        assert scene.changes == [(None, "1"), (None, "2"), ("2", None), ("1", "15"), ("15", "21")]

    @virtual_time
    async def test_a_list_that_the_watch_has_overtaken_is_put_aside(self) -> None:
        script = {"list": [listed(10), listed(12)]}
        scene = Scene()

        def answer(request: Request) -> Answer:
            if "watch" in query(request):
                return Answer(body=[forever()])
            if len(script["list"]) == 1:
                scene.store.passed("30")  # as the watch does while the list is on its way
            return script["list"].pop(0)

        scene.transport._answer = answer
        async with scene.running():
            await scene.informer.reach("11")
        assert scene.store.resource_version == "30"

    @virtual_time
    async def test_a_list_that_was_under_way_does_not_undo_it(self) -> None:
        go_on = asyncio.Event()
        scene = Scene(
            listed(10, pod("a", 1)),
            Answer(body=[EXPIRED]),
            later(go_on, listed(20, pod("a", 1))),
            listed(35, pod("a", 1), pod("b", 33)),
        )
        async with scene.running():
            await scene.informer.reach("30")
            scene.store.wrote(Pod(Meta("c", "n", "uid-c", "40")))
            go_on.set()
            await asyncio.sleep(1)
        assert scene.asked == ["list", "watch 10", "list 10", "list", "watch 35"]
        assert scene.changes == [(None, "1"), (None, "33"), (None, "40")]

    @virtual_time
    async def test_nor_does_one_that_was_being_streamed(self) -> None:
        go_on = asyncio.Event()
        rest = event("ADDED", pod("b", 33)) + event("MODIFIED", pod("a", 36))
        scene = Scene(
            Answer(body=[event("ADDED", pod("a", 1)) + end_of_list(10), EXPIRED]),
            Answer(body=[event("ADDED", pod("a", 1)), go_on, end_of_list(20) + rest, forever()]),
            listed(35, pod("a", 1), pod("b", 33)),
            streamed=True,
        )
        async with scene.running():
            await scene.informer.reach("30")
            scene.store.wrote(Pod(Meta("c", "n", "uid-c", "40")))
            go_on.set()
            await asyncio.sleep(1)
        assert scene.asked == ["stream", "stream 10", "list"]
        assert scene.changes == [(None, "1"), (None, "33"), (None, "40"), ("1", "36")]

    @virtual_time
    async def test_a_list_older_than_what_was_known_before_it_is_of_a_history_put_back(self) -> None:
        scene = Scene(listed(1000, pod("a", 999)), Answer(body=[forever()]), listed(500, pod("b", 400)))
        async with scene.running():
            await scene.informer.reach("1001")
        assert scene.names == ["b"]

    @virtual_time
    async def test_failures_are_waited_out(self) -> None:
        scene = Scene(listed(10), Answer(body=[forever()]), BROKEN, BROKEN, listed(20))
        async with scene.running():
            await scene.informer.reach("18")
        assert clock() == pytest.approx(3)

    @virtual_time
    async def test_one_list_is_enough_for_a_version_that_does_not_compare(self) -> None:
        scene = Scene(listed(10), Answer(body=[forever()]), listed(12, pod("a", 11)))
        async with scene.running():
            await scene.informer.reach("987654321")
            assert clock() == pytest.approx(1)
        assert scene.asked == ["list", "watch 10", "list"]
        assert scene.names == ["a"]

    @virtual_time
    async def test_who_waits_long_is_told_of_once(self) -> None:
        scene = Scene(listed(10), Answer(body=[forever()]), *[BROKEN] * 20, listed(20))
        with capture_logs() as logs:
            async with scene.running():
                await scene.informer.reach("18")
        assert clock() == pytest.approx(21)
        assert [each["event"] for each in logs].count("work waits for news of this kind") == 1

    @virtual_time
    async def test_who_waits_a_little_is_not(self) -> None:
        scene = Scene(listed(10), Answer(body=[forever()]), listed(20))
        with capture_logs() as logs:
            async with scene.running():
                await scene.informer.reach("18")
                await asyncio.sleep(60)
        assert logs == []
