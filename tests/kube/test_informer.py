from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from structlog.testing import capture_logs

from kuberay.kube.client import Client, Retry
from kuberay.kube.informer import Informer
from kuberay.kube.resources import PODS
from kuberay.kube.store import Store
from tests.kube.scripted import BROKEN, Answer, ScriptedTransport, query, refused
from tests.kube.virtual_time import clock, virtual_time

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from kuberay.kube.transport import Request


class Meta(msgspec.Struct, rename="camel", frozen=True, gc=False):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    deletion_timestamp: str | None = None


class Pod(msgspec.Struct, frozen=True, gc=False):
    metadata: Meta
    phase: str = ""


def pod(name: str, version: int, **fields: Any) -> dict[str, Any]:
    meta = {"name": name, "namespace": "n", "uid": f"uid-{name}", "resourceVersion": str(version)}
    return {"metadata": meta, **fields}


def listed(version: int, *pods: dict[str, Any], continue_: str = "") -> Answer:
    return Answer.json({"metadata": {"resourceVersion": str(version), "continue": continue_}, "items": list(pods)})


def event(kind: str, obj: dict[str, Any]) -> bytes:
    return msgspec.json.encode({"type": kind, "object": obj}) + b"\n"


def bookmark(version: int) -> bytes:
    return event("BOOKMARK", {"metadata": {"resourceVersion": str(version)}})


def end_of_list(version: int) -> bytes:
    meta = {"resourceVersion": str(version), "annotations": {"k8s.io/initial-events-end": "true"}}
    return event("BOOKMARK", {"metadata": meta})


EXPIRED = event("ERROR", {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"})


AHEAD = Answer.json(
    {
        "kind": "Status",
        "code": 504,
        "reason": "Timeout",
        "details": {"causes": [{"reason": "ResourceVersionTooLarge"}]},
    },
    504,
)


def forever() -> asyncio.Event:
    """A part of a stream after which nothing comes."""
    return asyncio.Event()


class Scene:
    """An informer against a script. When the script has ended, watches are silent."""

    def __init__(self, *answers: Answer | Exception, streamed: bool = False, **options: Any) -> None:
        script = iter(answers)

        def answer(request: Request) -> Answer | Exception:
            self.times.append(clock())
            return next(script, Answer(body=[forever()]))

        self.times: list[float] = []
        self.transport = ScriptedTransport(answer)
        self.store: Store[Pod] = Store()
        self.changes: list[tuple[str | None, str | None]] = []
        self.store.on_change(lambda old, new: self.changes.append((version_of(old), version_of(new))))
        self.informer = Informer(
            Client(self.transport, retry=Retry(attempts=0), streamed_lists=streamed),
            PODS,
            self.store,
            type=Pod,
            clock=clock,
            rng=lambda: 1.0,
            **options,
        )

    @property
    def asked(self) -> list[str]:
        """What was asked of the server: lists with the version that was good enough, watches with where they began."""
        return [_asked(query(each)) for each in self.transport.requests]

    @property
    def names(self) -> list[str]:
        return sorted(each.metadata.name for each in self.store)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        task = asyncio.create_task(self.informer.run())
        yield
        assert not task.done()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert self.transport.open_streams == 0

    async def run(self, seconds: float) -> None:
        async with self.running():
            await asyncio.sleep(seconds)


def _asked(parameters: dict[str, str]) -> str:
    version = f" {parameters['resourceVersion']}" if "resourceVersion" in parameters else ""
    if "watch" in parameters and "sendInitialEvents" not in parameters:
        return f"watch{version}"
    if version or "watch" in parameters:
        assert parameters["resourceVersionMatch"] == "NotOlderThan"
    return ("stream" if "watch" in parameters else "list") + version


def version_of(obj: Pod | None) -> str | None:
    return None if obj is None else obj.metadata.resource_version


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

    @virtual_time
    async def test_rubbish_is_asked_for_again_and_then_listed_around(self) -> None:
        scene = Scene(listed(10), *[Answer(body=[b"{oops}\n"])] * 2, listed(20))
        await scene.run(10)
        assert scene.asked == ["list", "watch 10", "watch 10", "list 10", "watch 20"]

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


class TestStreamedLists:
    @virtual_time
    async def test_one_watch_brings_the_list_and_what_comes_after(self) -> None:
        parts: list[bytes | Exception | asyncio.Event] = [
            event("ADDED", pod("a", 1)),
            end_of_list(10) + event("ADDED", pod("b", 11)),
            forever(),
        ]
        scene = Scene(Answer(body=parts), streamed=True)
        await scene.run(1)
        assert scene.asked == ["stream"]
        assert scene.names == ["a", "b"]
        assert scene.store.resource_version == "11"

    @virtual_time
    async def test_nothing_is_shown_before_the_list_is_whole(self) -> None:
        go_on = asyncio.Event()
        parts: list[bytes | Exception | asyncio.Event] = [
            event("ADDED", pod("a", 1)),
            event("ADDED", pod("b", 2)),
            go_on,
            end_of_list(10),
            forever(),
        ]
        scene = Scene(Answer(body=parts), streamed=True)
        async with scene.running():
            await asyncio.sleep(1)
            assert (scene.names, scene.store.is_synced) == ([], False)
            go_on.set()
            await scene.informer.synced()
            assert scene.names == ["a", "b"]

    @virtual_time
    async def test_changes_within_the_list_count(self) -> None:
        parts = event("ADDED", pod("a", 1)) + event("ADDED", pod("b", 2)) + bookmark(3)
        parts += event("MODIFIED", pod("a", 4)) + event("DELETED", pod("b", 5)) + end_of_list(10)
        scene = Scene(Answer(body=[parts, forever()]), streamed=True)
        await scene.run(1)
        assert scene.changes == [(None, "4")]

    @virtual_time
    async def test_after_a_forgotten_version_the_list_is_streamed_again_and_departures_are_told(self) -> None:
        scene = Scene(
            Answer(body=[event("ADDED", pod("a", 1)) + event("ADDED", pod("b", 2)) + end_of_list(10), EXPIRED]),
            Answer(body=[event("ADDED", pod("a", 25)) + end_of_list(30), forever()]),
            streamed=True,
        )
        await scene.run(1)
        assert scene.asked == ["stream", "stream 10"]
        assert scene.changes == [(None, "1"), (None, "2"), ("2", None), ("1", "25")]

    @pytest.mark.parametrize("no", [refused(410, "Expired"), AHEAD])
    def test_a_stream_at_what_is_known_that_cannot_be_had_is_a_list_of_what_is_newest(self, no: Answer) -> None:
        @virtual_time
        async def scenario() -> None:
            scene = Scene(Answer(body=[end_of_list(10), EXPIRED]), no, listed(30), streamed=True)
            await scene.run(5)
            assert scene.asked == ["stream", "stream 10", "list", "watch 30"]

        scenario()

    @virtual_time
    async def test_a_broken_watch_after_it_is_taken_up_without_a_list(self) -> None:
        scene = Scene(Answer(body=[end_of_list(10), bookmark(12), BROKEN]), streamed=True)
        await scene.run(2)
        assert scene.asked == ["stream", "watch 12"]

    @pytest.mark.parametrize(
        "no", [refused(422, "Invalid"), refused(400, "BadRequest"), refused(405, "MethodNotAllowed")]
    )
    def test_a_server_that_has_none_is_asked_for_pages_at_once_and_ever_after(self, no: Answer) -> None:
        @virtual_time
        async def scenario() -> None:
            scene = Scene(no, listed(10, pod("a", 1)), Answer(body=[EXPIRED]), listed(20), streamed=True)
            await scene.run(1)
            assert scene.asked == ["stream", "list", "watch 10", "list 10", "watch 20"]
            assert scene.times[1] == 0

        scenario()

    @virtual_time
    async def test_what_one_informer_learns_of_the_server_all_of_its_client_know(self) -> None:
        scene = Scene(refused(422, "Invalid"), listed(10), streamed=True)
        await scene.run(1)
        other = Informer(scene.informer._client, PODS, Store[Pod](), type=Pod, clock=clock, rng=lambda: 1.0)
        task = asyncio.create_task(other.run())
        await asyncio.sleep(1)
        task.cancel()
        assert scene.asked[3:] == ["list"]

    @virtual_time
    async def test_a_server_that_never_ends_the_list_is_not_waited_for(self) -> None:
        scene = Scene(Answer(body=[event("ADDED", pod("a", 1)), forever()]), listed(10, pod("a", 1)), streamed=True)
        await scene.run(30)
        assert scene.asked == ["stream", "list", "watch 10"]
        assert scene.times[1] == pytest.approx(10)

    @virtual_time
    async def test_silence_after_the_list_is_ordinary(self) -> None:
        scene = Scene(Answer(body=[end_of_list(10), forever()]), streamed=True)
        await scene.run(75)
        assert scene.asked == ["stream", "watch 10"]
        assert scene.times[1] == pytest.approx(70)

    @virtual_time
    async def test_a_stream_that_breaks_before_its_end_shows_nothing_and_pages_come_next(self) -> None:
        scene = Scene(
            Answer(body=[event("ADDED", pod("gone", 1)), BROKEN]),
            listed(10, pod("a", 1)),
            Answer(body=[EXPIRED]),
            Answer(body=[end_of_list(20), forever()]),
            streamed=True,
        )
        await scene.run(5)
        assert scene.asked == ["stream", "list", "watch 10", "stream 10"]
        assert scene.changes == [(None, "1"), ("1", None)]

    @virtual_time
    async def test_a_server_that_is_not_there_yet_is_asked_for_a_stream_again(self) -> None:
        scene = Scene(BROKEN, BROKEN, Answer(body=[end_of_list(10), forever()]), streamed=True)
        await scene.run(5)
        assert scene.asked == ["stream", "stream", "stream"]

    @virtual_time
    async def test_a_stream_that_ends_before_its_end_is_a_failure(self) -> None:
        scene = Scene(Answer(body=[event("ADDED", pod("a", 1))]), listed(10), streamed=True)
        async with scene.running():
            await asyncio.sleep(0.1)
            assert "before the end of the list" in (scene.informer.problem or "")
            await scene.informer.synced()

    @virtual_time
    async def test_a_missing_right_is_named_as_it_is(self) -> None:
        scene = Scene(refused(403, "Forbidden"), refused(403, "Forbidden"), streamed=True)
        async with scene.running():
            await asyncio.sleep(0.1)
            assert scene.asked == ["stream", "list"]
            assert "the account needs the verb 'list'" in (scene.informer.problem or "")

    @virtual_time
    async def test_an_unreadable_object_stays_as_it_was_last_seen(self) -> None:
        scene = Scene(
            Answer(body=[event("ADDED", pod("a", 1)) + end_of_list(10), EXPIRED]),
            Answer(body=[event("ADDED", pod("a", 15, phase=7)) + end_of_list(20), forever()]),
            streamed=True,
        )
        await scene.run(1)
        assert scene.changes == [(None, "1")]

    @virtual_time
    async def test_a_server_that_asks_for_time_gets_it(self) -> None:
        scene = Scene(refused(429, "TooManyRequests", retry_after="7"), listed(10), streamed=True)
        await scene.run(10)
        assert scene.times[1] == pytest.approx(7)


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
    async def test_failures_are_waited_out(self) -> None:
        scene = Scene(listed(10), Answer(body=[forever()]), BROKEN, BROKEN, listed(20))
        async with scene.running():
            await scene.informer.reach("18")
        assert clock() == pytest.approx(3)
