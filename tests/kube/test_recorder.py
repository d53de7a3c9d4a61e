from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Literal

import orjson
import pytest
from structlog.testing import capture_logs

from kuberay.kube.client import Client, Retry
from kuberay.kube.recorder import Recorder, Regarding
from kuberay.kube.resources import NODES, PODS
from tests.kube.scripted import BROKEN, Answer, ScriptedTransport, refused
from tests.kube.virtual_time import clock, virtual_time

if TYPE_CHECKING:
    from kuberay.kube.transport import Request

START = datetime(2026, 1, 2, 3, 4, 5, 678900, UTC)
POD = Regarding("v1", "Pod", "n", "a", "uid-a")


class Scene:
    """A recorder against a server that takes everything, or answers as told."""

    def __init__(self, *answers: Answer | Exception, **options: Any) -> None:
        script = iter(answers)
        self.transport = ScriptedTransport(lambda _: next(script, Answer.json({})))
        self.recorder = Recorder(
            Client(self.transport, retry=Retry(attempts=0)),
            "ray.io/test",
            instance="me",
            now=lambda: START + timedelta(seconds=clock()),
            clock=clock,
            **options,
        )

    def note(self, note: str = "hello", regarding: Regarding = POD) -> None:
        self.recorder.event(regarding, "Warning", "Failed", "Create", note)

    async def deliver(self) -> None:
        """Send all that waits, and go on recording afterwards."""
        task = asyncio.create_task(self.recorder.run())
        await asyncio.sleep(100)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    @property
    def sent(self) -> list[tuple[str, Any]]:
        return [(each.method, body(each)) for each in self.transport.requests]


def body(request: Request) -> Any:
    return orjson.loads(request.body or b"null")


class TestAnEvent:
    @virtual_time
    async def test_says_what_happened_to_what_and_who_says_so(self) -> None:
        scene = Scene()
        scene.note()
        await scene.deliver()
        [request] = scene.transport.requests
        assert (request.method, request.path) == ("POST", "/apis/events.k8s.io/v1/namespaces/n/events")
        event = body(request)
        assert event.pop("metadata")["name"].startswith("a.")
        assert event == {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "eventTime": "2026-01-02T03:04:05.678900Z",
            "reportingController": "ray.io/test",
            "reportingInstance": "me",
            "type": "Warning",
            "reason": "Failed",
            "note": "hello",
            "action": "Create",
            "regarding": {"apiVersion": "v1", "kind": "Pod", "namespace": "n", "name": "a", "uid": "uid-a"},
        }

    @virtual_time
    async def test_about_an_object_without_namespace_is_kept_in_the_default_one(self) -> None:
        scene = Scene()
        scene.note(regarding=Regarding.of({"metadata": {"name": "node", "uid": "u"}}, NODES))
        await scene.deliver()
        assert scene.transport.requests[0].path == "/apis/events.k8s.io/v1/namespaces/default/events"

    @virtual_time
    async def test_is_cut_to_what_the_server_takes(self) -> None:
        scene = Scene()
        scene.note("ü" * 2000)
        await scene.deliver()
        note = body(scene.transport.requests[0])["note"]
        assert note.endswith("ü...")
        assert len(note.encode()) <= 1024

    def test_refers_to_typed_objects_and_dicts_alike(self) -> None:
        pod = {"metadata": {"name": "a", "namespace": "n", "uid": "uid-a"}}
        metadata = SimpleNamespace(name="a", namespace="n", uid="uid-a", resource_version=None, deletion_timestamp=None)
        typed = SimpleNamespace(api_version="v1", kind="Pod", metadata=metadata)
        assert Regarding.of(pod, PODS) == POD
        assert Regarding.of({**pod, "apiVersion": "v1", "kind": "Pod"}) == POD
        assert Regarding.of(typed) == POD

    @virtual_time
    async def test_may_be_recorded_with_the_object_itself(self) -> None:
        scene = Scene()
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "namespace": "n", "uid": "uid-a"}}
        scene.recorder.event(pod, "Normal", "Made", "Create", "made it")
        await scene.deliver()
        assert body(scene.transport.requests[0])["regarding"]["kind"] == "Pod"


class TestRepetition:
    @virtual_time
    async def test_is_counted_while_the_first_waits(self) -> None:
        scene = Scene()
        for _ in range(5):
            scene.note()
            await asyncio.sleep(1)
        await scene.deliver()
        [(_, event)] = scene.sent
        assert event["series"] == {"count": 5, "lastObservedTime": "2026-01-02T03:04:09.678900Z"}

    @virtual_time
    async def test_continues_the_series_of_what_was_sent(self) -> None:
        scene = Scene()
        scene.note()
        await scene.deliver()
        scene.note()
        scene.note()
        await scene.deliver()
        scene.note()
        await scene.deliver()
        (created, first), (patched, second), (_, third) = scene.sent
        assert (created, patched) == ("POST", "PATCH")
        assert scene.transport.requests[1].path.endswith("/events/" + first["metadata"]["name"])
        assert (second["series"]["count"], third["series"]["count"]) == (3, 4)

    @virtual_time
    async def test_begins_anew_after_the_window(self) -> None:
        scene = Scene(window=60)
        scene.note()
        await scene.deliver()
        scene.note()
        await scene.deliver()
        assert [method for method, _ in scene.sent] == ["POST", "POST"]
        assert len({event["metadata"]["name"] for _, event in scene.sent}) == 2

    @virtual_time
    async def test_begins_anew_when_the_server_has_forgotten(self) -> None:
        scene = Scene(Answer.json({}), refused(404, "NotFound"), Answer.json({}))
        scene.note()
        await scene.deliver()
        scene.note()
        await scene.deliver()
        assert [method for method, _ in scene.sent] == ["POST", "PATCH", "POST"]

    @virtual_time
    async def test_is_not_seen_in_what_differs(self) -> None:
        scene = Scene()
        scene.note("one")
        scene.note("two")
        scene.note("one", regarding=POD._replace(uid="other"))
        await scene.deliver()
        assert [method for method, _ in scene.sent] == ["POST"] * 3


class TestTrouble:
    @virtual_time
    async def test_a_full_queue_drops_and_counts(self) -> None:
        scene = Scene(capacity=2)
        with capture_logs() as logs:
            for note in ("one", "two", "three", "one", "four"):
                scene.note(note)
            await scene.deliver()
        assert [event["note"] for _, event in scene.sent] == ["one", "two"]
        assert scene.recorder.dropped == 2
        assert [line["event"] for line in logs] == ["events are given up: too many wait for the server"]

    @virtual_time
    async def test_a_broken_connection_is_tried_again_with_the_same_name(self) -> None:
        scene = Scene(BROKEN, refused(409, "AlreadyExists"))
        scene.note()
        await scene.deliver()
        assert [method for method, _ in scene.sent] == ["POST", "POST"]
        assert len({event["metadata"]["name"] for _, event in scene.sent}) == 1
        assert scene.recorder.dropped == 0

    @virtual_time
    async def test_but_not_for_ever(self) -> None:
        scene = Scene(*[BROKEN] * 3)
        scene.note("lost")
        scene.note("lost")
        scene.note("next")
        await scene.deliver()
        assert [event["note"] for _, event in scene.sent] == ["lost", "lost", "lost", "next"]
        assert scene.recorder.dropped == 2

    @pytest.mark.parametrize(
        "said",
        [refused(429, "TooManyRequests"), refused(401, "Unauthorized"), Answer(404, body=b"404 page not found")],
        ids=["busy", "has not heard of new credentials", "not behind its proxy"],
    )
    def test_a_server_that_cannot_take_it_at_the_moment_is_asked_again(self, said: Answer) -> None:
        @virtual_time
        async def scenario() -> None:
            scene = Scene(said)
            scene.note()
            await scene.deliver()
            assert (len(scene.sent), scene.recorder.dropped) == (2, 0)

        scenario()

    @virtual_time
    async def test_a_refusal_is_not_tried_again(self) -> None:
        scene = Scene(refused(403, "Forbidden", "the namespace is being terminated"))
        scene.note()
        await scene.deliver()
        assert (len(scene.sent), scene.recorder.dropped) == (1, 1)

    @pytest.mark.parametrize("type", ["Warning", "Normal"])
    def test_a_warning_that_is_refused_is_in_the_log(self, type: Literal["Normal", "Warning"]) -> None:
        @virtual_time
        async def scenario() -> None:
            scene = Scene(refused(403, "Forbidden", "no"))
            with capture_logs() as logs:
                scene.recorder.event(POD, type, "Skipped", "Cleanup", "something is left in Redis")
                await scene.deliver()
            told = [(line["event"], line["note"], line["error"]) for line in logs if line["log_level"] == "warning"]
            line = ("an event was not taken", "something is left in Redis", "no")
            assert told == ([line] if type == "Warning" else [])

        scenario()

    @virtual_time
    async def test_stopping_sends_what_waits(self) -> None:
        scene = Scene()
        scene.note("one")
        scene.note("two")
        scene.recorder.stop()
        await scene.recorder.run()
        assert len(scene.sent) == 2


class TestAFlood:
    @virtual_time
    async def test_events_that_differ_only_in_their_note_are_combined_after_the_tenth(self) -> None:
        scene = Scene()
        for number in range(200):
            scene.note(f"made Pod {number}")
        await scene.deliver()
        notes = [content["note"] for _, content in scene.sent]
        assert notes == [f"made Pod {number}" for number in range(10)] + ["(combined from similar events): made Pod 10"]
        assert scene.sent[-1][1]["series"]["count"] == 190
        scene.note("made Pod 200")
        await scene.deliver()
        assert scene.sent[-1] == (
            "PATCH",
            {"series": {"count": 191, "lastObservedTime": "2026-01-02T03:05:45.678900Z"}},
        )
        assert scene.recorder.dropped == 0

    @virtual_time
    async def test_what_is_still_alone_is_told_as_it_is(self) -> None:
        scene = Scene()
        for number in range(20):
            scene.note(f"made Pod {number}")
        scene.note("made Pod 3")
        scene.recorder.event(POD, "Normal", "Failed", "Create", "another type")
        await scene.deliver()
        notes = {content["note"]: content for _, content in scene.sent}
        assert notes["made Pod 3"]["series"]["count"] == 2
        assert "another type" in notes

    @virtual_time
    async def test_after_ten_minutes_they_are_told_one_by_one_again(self) -> None:
        scene = Scene()
        for number in range(20):
            scene.note(f"made Pod {number}")
        await asyncio.sleep(601)
        scene.note("made Pod 99")
        await scene.deliver()
        assert scene.sent[-1][1]["note"] == "made Pod 99"

    @virtual_time
    async def test_one_object_does_not_get_more_than_a_burst_and_then_one_in_five_minutes(self) -> None:
        scene = Scene()
        other = Regarding("v1", "Pod", "n", "b", "uid-b")
        for number in range(40):
            scene.recorder.event(POD, "Normal", f"Reason{number}", "Create", "x")
        scene.note("of another", other)
        await scene.deliver()
        assert len(scene.sent) == 26
        assert scene.recorder.dropped == 15
        await asyncio.sleep(300)
        for number in range(2):
            scene.recorder.event(POD, "Normal", f"Later{number}", "Create", "x")
        await scene.deliver()
        assert len(scene.sent) == 27
