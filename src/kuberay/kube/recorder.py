"""Kubernetes Events: what a controller did and what it ran into, for who reads `kubectl describe`.

Events are worth less than anything else that is written: they are queued, sent one at a time, repeated ones are
counted rather than sent anew, and when the queue is full they are dropped and counted. Recording never blocks or fails.

An object that thousands of things happen to does not get thousands of events: those that differ only in their note are
combined after the tenth, and after a burst of 25 an object gets one in five minutes. The numbers are client-go's.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import OrderedDict
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import msgspec
import structlog

from kuberay.kube.errors import AlreadyExists, KubeError, NotFound, is_passing
from kuberay.kube.identity import identity
from kuberay.kube.limits import TokenBucket
from kuberay.kube.resources import EVENTS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from kuberay.kube.client import Client
    from kuberay.kube.resources import Resource

log = structlog.get_logger(__name__)

_LONGEST_NOTE = 1024
_LONGEST_WORD = 128
_LONGEST_NAME = 200
_ATTEMPTS = 3
_ALIKE = 10
_ALIKE_WINDOW = 600.0
_BURST = 25
_RATE = 1 / 300
_REMEMBERED = 1000


class Regarding(NamedTuple):
    """The object that an event is about."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str
    field_path: str = ""
    """Which part of it, such as `spec.containers{ray-head}`; empty for all of it."""

    @classmethod
    def of(cls, obj: Any, resource: Resource | None = None) -> Regarding:
        """A reference to a dict or a typed object.

        :param resource: its kind, for objects that do not say it themselves (slim ones, and built-in ones of a list).
        """
        key, uid, *_ = identity(obj)
        if resource is not None:
            api_version, kind = resource.api_version, resource.kind
        elif isinstance(obj, dict):
            api_version, kind = obj.get("apiVersion", ""), obj.get("kind", "")
        else:
            api_version, kind = obj.api_version, obj.kind
        return cls(api_version, kind, key.namespace, key.name, uid)


class _Kind(NamedTuple):
    """Events that are alike in all of this are one series."""

    regarding: Regarding
    type: str
    reason: str
    note: str
    action: str


@dataclass(slots=True)
class _Waiting:
    count: int
    first: datetime
    last: datetime


@dataclass(slots=True)
class _Crowd:
    """Events that differ only in their note."""

    since: float
    notes: set[str]
    combined: str = ""
    """The note of all that came after too many of them."""


@dataclass(slots=True)
class _Sent:
    name: str
    count: int
    at: float


class _Taken(msgspec.Struct):
    """An event as the server has stored it: nothing of it is news."""


class Recorder:
    """Records events in the name of one controller.

    :param controller: who reports, such as `raycluster-controller`.
    :param instance: which of several, such as the Pod's name; without it there is but one.
    :param window: seconds within which a repetition continues a series rather than begin a new event.
    :param capacity: how many different events may wait to be sent: a thousand clusters that are made at once on a busy
        server have three each, and none shall be lost.
    """

    def __init__(
        self,
        client: Client,
        controller: str,
        *,
        instance: str | None = None,
        window: float = 360.0,
        capacity: int = 20_000,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.dropped = 0
        """How many events were given up: the queue was full, or the server did not take them."""
        self._client = client
        self._controller = controller
        self._instance = (instance or controller)[:_LONGEST_WORD]
        self._window = window
        self._capacity = capacity
        self._now = now
        self._clock = clock
        self._sleep = sleep
        self._waiting: OrderedDict[_Kind, _Waiting] = OrderedDict()
        self._sent: OrderedDict[_Kind, _Sent] = OrderedDict()
        self._crowds: OrderedDict[_Kind, _Crowd] = OrderedDict()
        self._buckets: OrderedDict[Regarding, TokenBucket] = OrderedDict()
        self._numbers = 0
        self._has_told = False
        self._wake = asyncio.Event()
        self._stopping = False

    def event(
        self, regarding: Regarding | Any, type: Literal["Normal", "Warning"], reason: str, action: str, note: str
    ) -> None:
        """Record that something happened. Returns at once.

        :param regarding: to what: a reference, or an object that says its own kind.
        :param reason: why, in one word for machines: `FailedCreate`.
        :param action: what was being done, in one word: `CreatePod`.
        :param note: what happened, for people.
        """
        about = regarding if isinstance(regarding, Regarding) else Regarding.of(regarding)
        kind = self._combined(_Kind(about, type, reason[:_LONGEST_WORD], note, action[:_LONGEST_WORD]))
        now = self._now()
        waiting = self._waiting.get(kind)
        if waiting is not None:
            waiting.count += 1
            waiting.last = now
        elif len(self._waiting) >= self._capacity:
            if not self._has_told:
                self._has_told = True
                log.warning("events are given up: too many wait for the server", waiting=len(self._waiting))
            self.dropped += 1
        elif not self._may_have_another(about):
            self.dropped += 1
        else:
            self._waiting[kind] = _Waiting(1, now, now)
            self._wake.set()

    async def run(self) -> None:
        """Send what is recorded until `stop`; then send what still waits, and return."""
        while True:
            while self._waiting:
                kind, waiting = self._waiting.popitem(last=False)
                await self._deliver(kind, waiting)
            self._has_told = False
            if self._stopping:
                return
            self._wake.clear()
            await self._wake.wait()

    def stop(self) -> None:
        """Let `run` return when all that waits is sent."""
        self._stopping = True
        self._wake.set()

    async def _deliver(self, kind: _Kind, waiting: _Waiting) -> None:
        self._numbers += 1
        name = f"{kind.regarding.name[:_LONGEST_NAME]}.{int(waiting.first.timestamp() * 1e6):x}{self._numbers:x}"
        why = ""
        for attempt in range(_ATTEMPTS):
            if attempt:
                await self._sleep(2.0 ** (attempt - 1))
            try:
                await self._send(name, kind, waiting)
            except KubeError as error:
                why = str(error)
                if not is_passing(error):
                    break  # it is forbidden, say, or its namespace is going
            else:
                return
        self.dropped += waiting.count
        # What is not in order has to be told somewhere; that all goes well can go without saying.
        tell = log.warning if kind.type == "Warning" else log.debug
        tell("an event was not taken", reason=kind.reason, object=kind.regarding.name, note=kind.note, error=why)

    async def _send(self, name: str, kind: _Kind, waiting: _Waiting) -> None:
        namespace = kind.regarding.namespace or "default"
        sent = self._known(kind)
        if sent is not None:
            series = {"count": sent.count + waiting.count, "lastObservedTime": _micro(waiting.last)}
            try:
                await self._client.patch(EVENTS, sent.name, {"series": series}, namespace=namespace, type=_Taken)
            except NotFound:
                pass  # the server forgets events after an hour; begin anew
            else:
                self._remember(kind, sent.name, sent.count + waiting.count)
                return
        # There already: an earlier attempt was taken, but its answer was lost.
        with contextlib.suppress(AlreadyExists):
            body = self._body(name, namespace, kind, waiting)
            await self._client.create(EVENTS, body, namespace=namespace, type=_Taken)
        self._remember(kind, name, waiting.count)

    def _body(self, name: str, namespace: str, kind: _Kind, waiting: _Waiting) -> dict[str, Any]:
        about = kind.regarding
        body: dict[str, Any] = {
            "apiVersion": EVENTS.api_version,
            "kind": EVENTS.kind,
            "metadata": {"name": name, "namespace": namespace},
            "eventTime": _micro(waiting.first),
            "reportingController": self._controller,
            "reportingInstance": self._instance,
            "action": kind.action,
            "reason": kind.reason,
            "type": kind.type,
            "note": kind.note,
            "regarding": {
                "apiVersion": about.api_version,
                "kind": about.kind,
                "namespace": about.namespace,
                "name": about.name,
                "uid": about.uid,
            },
        }
        if about.field_path:
            body["regarding"]["fieldPath"] = about.field_path
        if waiting.count > 1:
            body["series"] = {"count": waiting.count, "lastObservedTime": _micro(waiting.last)}
        return body

    def _combined(self, kind: _Kind) -> _Kind:
        """The event as it is to be told: as it is, or as one of too many that are alike."""
        alike = kind._replace(note="")
        crowd = self._crowds.get(alike)
        if crowd is None or self._clock() - crowd.since > _ALIKE_WINDOW:
            crowd = self._crowds[alike] = _Crowd(self._clock(), set())
            self._crowds.move_to_end(alike)
            if len(self._crowds) > _REMEMBERED:
                self._crowds.popitem(last=False)
        note = _short(kind.note)
        if note not in crowd.notes:
            if len(crowd.notes) < _ALIKE:
                crowd.notes.add(note)
            else:
                # One note for all: the note of an event cannot be changed later.
                crowd.combined = crowd.combined or _short(f"(combined from similar events): {kind.note}")
                note = crowd.combined
        return kind._replace(note=note)

    def _may_have_another(self, about: Regarding) -> bool:
        bucket = self._buckets.get(about)
        if bucket is None:
            bucket = self._buckets[about] = TokenBucket(_RATE, _BURST, clock=self._clock)
            if len(self._buckets) > _REMEMBERED:
                self._buckets.popitem(last=False)
        if bucket.take() > 0:
            bucket.give_back()
            return False
        return True

    def _known(self, kind: _Kind) -> _Sent | None:
        oldest = self._clock() - self._window
        while self._sent and next(iter(self._sent.values())).at < oldest:
            self._sent.popitem(last=False)
        return self._sent.get(kind)

    def _remember(self, kind: _Kind, name: str, count: int) -> None:
        self._sent[kind] = _Sent(name, count, self._clock())
        self._sent.move_to_end(kind)
        if len(self._sent) > _REMEMBERED:
            self._sent.popitem(last=False)


def _micro(moment: datetime) -> str:
    return moment.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


def _short(note: str) -> str:
    encoded = note.encode("utf-8", "replace")
    if len(encoded) <= _LONGEST_NOTE:
        return note
    return encoded[: _LONGEST_NOTE - 3].decode("utf-8", "ignore") + "..."
