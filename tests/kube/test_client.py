from __future__ import annotations

import asyncio
from typing import Any, Self

import msgspec
import orjson
import pytest

from kuberay.kube import errors
from kuberay.kube.client import Client, PatchType, Retry
from kuberay.kube.decoding import Bookmark, Event, EventType, Unreadable
from kuberay.kube.resources import PODS
from kuberay.kube.transport import Request
from tests.kube.scripted import BROKEN, Answer, ScriptedTransport, refused


class Meta(msgspec.Struct, rename="camel", frozen=True):
    name: str = ""
    resource_version: str = ""


class Slim(msgspec.Struct, frozen=True, gc=False):
    metadata: Meta
    status: dict[str, str] = {}


class Whole:
    """Stands for a type that keeps what it does not know."""

    def __init__(self, data: dict[str, Any]) -> None:
        self.data = data

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        if "bad" in data:
            raise ValueError("a bad field")
        return cls(data)


class Waits:
    """Stands in for sleeping and remembers for how long."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.seconds.append(seconds)


def client(*answers: Answer | Exception, waits: Waits | None = None) -> tuple[Client, ScriptedTransport]:
    transport = ScriptedTransport(answers)
    waits = waits or Waits()
    return Client(
        transport, user_agent="test/1", retry=Retry(attempts=3, sleep=waits.sleep, rng=lambda: 0.0)
    ), transport


def nested(text: bytes) -> bytes:
    """The text with objects within objects in place of a 7."""
    return text.replace(b"7", b'{"a":' * 9_990 + b"1" + b"}" * 9_990)


def pod(name: str, version: str = "1", **fields: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "n", "resourceVersion": version}, **fields}


class TestAnswers:
    async def test_without_a_type_a_dict_comes_back(self) -> None:
        kube, transport = client(Answer.json(pod("a")))
        assert await kube.get(PODS, "a", namespace="n") == pod("a")
        assert transport.requests[0].headers["user-agent"] == "test/1"
        assert transport.timeouts == [30.0]

    async def test_a_struct_is_decoded_from_the_bytes(self) -> None:
        kube, _ = client(Answer.json(pod("a", spec={"skipped": True})))
        assert await kube.get(PODS, "a", namespace="n", type=Slim) == Slim(Meta("a", "1"))

    async def test_a_type_may_read_whole_dicts(self) -> None:
        kube, _ = client(Answer.json(pod("a", spec={"kept": True})))
        assert (await kube.get(PODS, "a", namespace="n", type=Whole)).data["spec"] == {"kept": True}

    async def test_a_whole_object_comes_without_who_wrote_which_field(self) -> None:
        found = pod("a", spec={"kept": True})
        found["metadata"]["managedFields"] = [{"manager": "kubectl"}]
        kube, _ = client(Answer.json(found))
        read = (await kube.get(PODS, "a", namespace="n", type=Whole)).data
        assert read == pod("a", spec={"kept": True})

    @pytest.mark.parametrize("body", [b"<html>login</html>", b'{"metadata": {"name": 7}}', b'{"metadata"'])
    async def test_an_unreadable_answer_is_shown(self, body: bytes) -> None:
        kube, _ = client(Answer(body=body))
        with pytest.raises(errors.DecodeError) as failed:
            await kube.get(PODS, "a", namespace="n", type=Slim)
        assert body.decode() in str(failed.value)

    async def test_a_page_tells_its_version_and_how_to_go_on(self) -> None:
        metadata = {"resourceVersion": "9", "continue": "more"}
        kube, _ = client(Answer.json({"metadata": metadata, "items": [pod("a"), pod("b")]}))
        page = await kube.list(PODS, type=Slim)
        assert [item.metadata.name for item in page.items] == ["a", "b"]
        assert (page.resource_version, page.continue_) == ("9", "more")

    @pytest.mark.parametrize("type_", [None, Slim, Whole])
    async def test_a_list_may_be_empty_or_null(self, type_: Any) -> None:
        kube, _ = client(Answer.json({"metadata": {}, "items": None}))
        assert (await kube.list(PODS, type=type_)).items == []

    @pytest.mark.parametrize("type_", [None, Slim, Whole])
    async def test_one_that_is_nested_as_deep_as_a_server_allows_is_set_aside(self, type_: Any) -> None:
        listed = {"metadata": {"resourceVersion": "9"}, "items": [pod("a"), pod("b", spec=7)]}
        kube, _ = client(Answer(body=nested(orjson.dumps(listed))))
        page = await kube.list(PODS, type=type_, skip_unreadable=True)
        assert (len(page.items), [each.name for each in page.unreadable]) == (1, ["b"])

    @pytest.mark.parametrize(("type_", "bad"), [(Slim, {"status": 7}), (Whole, {"bad": 1})])
    async def test_one_unreadable_object_is_an_error_or_set_aside(self, type_: Any, bad: dict[str, Any]) -> None:
        answer = Answer.json({"metadata": {"resourceVersion": "9"}, "items": [pod("a"), pod("b", **bad), pod("c")]})
        kube, _ = client(answer, answer)
        with pytest.raises(errors.DecodeError, match="cannot read Pod n/b"):
            await kube.list(PODS, type=type_)
        page = await kube.list(PODS, type=type_, skip_unreadable=True)
        assert len(page.items) == 2
        assert [each.name for each in page.unreadable] == ["b"]

    async def test_a_delete_answers_with_the_object_while_it_stays(self) -> None:
        kube, _ = client(Answer.json(pod("a")), Answer.json({"kind": "Status", "status": "Success"}))
        assert await kube.delete(PODS, "a", namespace="n", type=Slim) == Slim(Meta("a", "1"))
        assert await kube.delete(PODS, "a", namespace="n", type=Slim) is None

    async def test_writes_send_what_they_are_given(self) -> None:
        kube, transport = client(*[Answer.json(pod("a"))] * 3)
        await kube.create(PODS, pod("a"))
        await kube.replace(PODS, "a", pod("a"))
        await kube.patch(PODS, "a", [{"op": "test"}], namespace="n", kind=PatchType.JSON, subresource="status")
        assert [(r.method, r.path) for r in transport.requests] == [
            ("POST", "/api/v1/namespaces/n/pods"),
            ("PUT", "/api/v1/namespaces/n/pods/a"),
            ("PATCH", "/api/v1/namespaces/n/pods/a/status"),
        ]

    async def test_any_other_request_can_be_sent(self) -> None:
        kube, _ = client(Answer(body=b"ok"), Answer(404, b"no"))
        assert await kube.send(Request("GET", "/healthz")) == b"ok"
        with pytest.raises(errors.NotFound):
            await kube.send(Request("GET", "/nothing"))

    async def test_closing_it_closes_the_transport(self) -> None:
        kube, transport = client()
        await kube.close()
        assert transport.closed


class TestRefusals:
    @pytest.mark.parametrize(
        ("code", "reason", "error"),
        [
            (404, "NotFound", errors.NotFound),
            (409, "AlreadyExists", errors.AlreadyExists),
            (409, "Conflict", errors.Conflict),
            (410, "Expired", errors.Expired),
            (422, "Invalid", errors.Invalid),
            (403, "", errors.Forbidden),
        ],
    )
    async def test_are_typed_by_their_reason(self, code: int, reason: str, error: type[errors.ApiError]) -> None:
        kube, _ = client(refused(code, reason, "because"))
        with pytest.raises(error, match="because") as failed:
            await kube.get(PODS, "a", namespace="n")
        assert failed.value.status.code == code

    async def test_a_proxy_that_answers_in_html_is_still_readable(self) -> None:
        kube, _ = client(Answer(502, b"<html>bad gateway</html>" + b"x" * 1000))
        with pytest.raises(errors.ApiError) as failed:
            await kube.get(PODS, "a", namespace="n")
        assert str(failed.value).startswith(
            "GET /api/v1/namespaces/n/pods/a was answered with HTTP 502: <html>bad gateway</html>xxx"
        )
        assert len(str(failed.value)) < 300
        assert failed.value.status.code == 502

    async def test_a_redirect_is_a_refusal(self) -> None:
        kube, _ = client(Answer(302, b""))
        with pytest.raises(errors.ApiError, match="HTTP 302"):
            await kube.get(PODS, "a", namespace="n")

    async def test_no_answer_is_not_tried_again(self) -> None:
        kube, transport = client(BROKEN)
        with pytest.raises(errors.TransportError):
            await kube.get(PODS, "a", namespace="n")
        assert len(transport.requests) == 1


class TestAskingAgain:
    async def test_too_many_requests_is_tried_again_for_any_verb(self) -> None:
        waits = Waits()
        kube, _ = client(
            refused(429, "TooManyRequests", retry_after="2"),
            refused(429, "TooManyRequests"),
            Answer.json(pod("a")),
            waits=waits,
        )
        assert await kube.create(PODS, pod("a")) == pod("a")
        assert waits.seconds == [2.0, 0.2]

    async def test_the_last_refusal_is_raised_when_it_does_not_end(self) -> None:
        kube, transport = client(*[refused(429, "TooManyRequests")] * 4)
        with pytest.raises(errors.TooManyRequests):
            await kube.get(PODS, "a", namespace="n")
        assert len(transport.requests) == 4

    async def test_a_server_that_asks_for_an_hour_is_not_waited_for(self) -> None:
        kube, _ = client(refused(429, "TooManyRequests", retry_after="3600"))
        with pytest.raises(errors.TooManyRequests) as failed:
            await kube.get(PODS, "a", namespace="n")
        assert failed.value.status.details is not None
        assert failed.value.status.details.retry_after_seconds == 3600

    async def test_a_server_error_that_says_later_is_tried_again_when_that_is_safe(self) -> None:
        kube, _ = client(refused(503, "ServiceUnavailable", retry_after="1"), Answer.json(pod("a")))
        assert await kube.patch(PODS, "a", {}, namespace="n") == pod("a")

    async def test_and_not_when_it_may_have_taken_effect(self) -> None:
        kube, _ = client(*[refused(500, "InternalError", retry_after="1")] * 2)
        with pytest.raises(errors.InternalError):
            await kube.create(PODS, pod("a"))
        with pytest.raises(errors.InternalError):
            await kube.patch(PODS, "a", [], namespace="n", kind=PatchType.JSON)

    async def test_a_server_error_that_says_nothing_is_not_tried_again(self) -> None:
        kube, _ = client(refused(500, "InternalError"))
        with pytest.raises(errors.InternalError):
            await kube.get(PODS, "a", namespace="n")


def line(type_: str, obj: dict[str, Any]) -> bytes:
    return msgspec.json.encode({"type": type_, "object": obj}) + b"\n"


GONE = {"kind": "Status", "status": "Failure", "reason": "Expired", "code": 410, "message": "too old"}
MARK = {"kind": "Pod", "metadata": {"resourceVersion": "8", "annotations": {"k8s.io/initial-events-end": "true"}}}


class TestWatching:
    async def collect(self, *parts: Any, type_: Any = Slim) -> tuple[list[Any], Exception | None]:
        kube, transport = client(Answer(body=parts))
        events: list[Any] = []
        error = None
        try:
            async with kube.watch(PODS, type=type_, idle_timeout=0.05) as watch:
                async for event in watch:
                    events.append(event)  # noqa: PERF401 (what came before a failure counts)
        except errors.KubeError as failure:
            error = failure
        assert transport.open_streams == 0
        return events, error

    @pytest.mark.parametrize("size", [1, 7, 64, 10_000])
    async def test_events_come_whole_however_the_bytes_are_cut(self, size: int) -> None:
        text = line("ADDED", pod("a")) + line("MODIFIED", pod("a", "2")) + b"\n" + line("DELETED", pod("a", "3"))
        events, error = await self.collect(*[text[i : i + size] for i in range(0, len(text), size)])
        assert [(e.type, e.object.metadata.resource_version) for e in events] == [
            (EventType.ADDED, "1"),
            (EventType.MODIFIED, "2"),
            (EventType.DELETED, "3"),
        ]
        assert error is None

    @pytest.mark.parametrize("type_", [None, Slim, Whole])
    async def test_a_bookmark_is_no_object(self, type_: Any) -> None:
        events, _ = await self.collect(line("BOOKMARK", MARK), type_=type_)
        assert events == [Bookmark("8", initial_events_end=True)]

    @pytest.mark.parametrize("type_", [None, Slim, Meta])
    async def test_an_error_event_is_raised_after_what_came_before_it(self, type_: Any) -> None:
        events, error = await self.collect(line("ADDED", pod("a")) + line("ERROR", GONE), type_=type_)
        assert len(events) == 1
        assert isinstance(error, errors.Expired)

    @pytest.mark.parametrize(("type_", "bad"), [(Slim, {"status": 7}), (Whole, {"bad": 1})])
    async def test_an_unreadable_object_does_not_end_the_watch(self, type_: Any, bad: dict[str, Any]) -> None:
        events, error = await self.collect(line("ADDED", pod("a", "4", **bad)), line("ADDED", pod("b")), type_=type_)
        assert isinstance(events[0], Unreadable)
        assert (events[0].name, events[0].resource_version, events[0].type) == ("a", "4", EventType.ADDED)
        assert isinstance(events[1], Event)
        assert error is None

    @pytest.mark.parametrize("type_", [None, Slim, Whole])
    async def test_nor_does_one_that_is_nested_as_deep_as_a_server_allows(self, type_: Any) -> None:
        deep = nested(line("ADDED", pod("a", "4", spec=7)))
        events, error = await self.collect(deep, line("ADDED", pod("b")), type_=type_)
        assert isinstance(events[0], Unreadable)
        assert (events[0].name, events[0].resource_version) == ("a", "4")
        assert isinstance(events[1], Event)
        assert error is None

    async def test_a_stream_cut_within_a_line_is_a_broken_connection(self) -> None:
        events, error = await self.collect(line("ADDED", pod("a")), line("ADDED", pod("b"))[:-9])
        assert len(events) == 1
        assert isinstance(error, errors.TransportError)

    @pytest.mark.parametrize("bad", [b"{oops}\n", b'{"type":"WEIRD","object":{}}\n', b"[]\n"])
    async def test_rubbish_is_an_error_after_what_came_before_it(self, bad: bytes) -> None:
        events, error = await self.collect(line("ADDED", pod("a")) + bad)
        assert len(events) == 1
        assert isinstance(error, errors.DecodeError)

    async def test_silence_counts_as_a_broken_connection(self) -> None:
        _, error = await self.collect(asyncio.Event())
        assert isinstance(error, errors.TransportError)
        assert "silent for 0.05 s" in str(error)

    async def test_a_refused_watch_is_typed_like_any_refusal(self) -> None:
        kube, _ = client(refused(410, "Expired"))
        with pytest.raises(errors.Expired):
            async with kube.watch(PODS, resource_version="1"):
                pass
