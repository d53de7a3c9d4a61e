"""An informer against a model of a server that does everything a server and its network may do to it.

Whatever happens, and in whatever order: when it is over, the store holds what the server holds, and whoever listened to
the changes has been told of each state in order, with what was there before.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import orjson
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from kuberay.kube.client import Client, Retry
from kuberay.kube.errors import TransportError
from kuberay.kube.informer import Informer
from kuberay.kube.resources import PODS
from kuberay.kube.store import Store
from kuberay.kube.transport import Request, Response
from tests.kube.scene import Pod, end_of_list, event, pod
from tests.kube.scripted import query, refused
from tests.kube.virtual_time import VirtualLoop

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

FAULTS = ["break", "refuse", "too many", "cut", "rubbish", "stuck", "repeat", "hang"]


class ModelServer:
    """Keeps objects and their history, and answers lists and watches from them, with faults when told to."""

    def __init__(self, *, streams: bool) -> None:
        self.streams = streams
        self.version = 1
        self.forgotten = 0
        self.lag = 0
        self.objects: dict[str, dict[str, Any]] = {}
        self.states: dict[int, list[dict[str, Any]]] = {1: []}
        self.history: list[tuple[int, bytes]] = []
        self.faults: list[str] = []
        self.generation = 0

    # What happens on the server.

    def put(self, name: str, uid: int) -> None:
        self.version += 1
        known = self.objects.get(name)
        obj = pod(name, self.version)
        obj["metadata"]["uid"] = known["metadata"]["uid"] if known else f"{name}-{uid}"
        self.objects[name] = obj
        self.history.append((self.version, event("MODIFIED" if known else "ADDED", obj)))
        self._keep()

    def remove(self, name: str) -> None:
        self.version += 1
        obj = self.objects.pop(name)
        gone = {"metadata": {**obj["metadata"], "resourceVersion": str(self.version)}}
        self.history.append((self.version, event("DELETED", gone)))
        self._keep()

    def _keep(self) -> None:
        self.states[self.version] = [self.objects[name] for name in sorted(self.objects)]

    def forget(self) -> None:
        self.forgotten = self.version
        self.history.clear()

    def restart(self) -> None:
        """All connections are gone."""
        self.generation += 1

    # What a client sees of it.

    def at_hand(self, parameters: dict[str, str]) -> int:
        """The version that a list shows: the newest, or the one that a lagging replica has and that is good enough."""
        least = parameters.get("resourceVersion")
        return self.version if least is None else max(int(least), self.version - self.lag, 1)

    async def send(self, request: Request, *, timeout: float | None = None) -> Response:
        await asyncio.sleep(0.01)
        fault = self._fault()
        if fault in ("break", "cut"):
            raise TransportError("connection reset")
        if fault == "hang":
            await asyncio.sleep(30)
            raise TransportError("no answer in time")
        if fault in ("refuse", "too many"):
            code, reason = (500, "InternalError") if fault == "refuse" else (429, "TooManyRequests")
            answer = refused(code, reason)
            assert isinstance(answer.body, bytes)
            return Response(code, {}, answer.body)
        if fault == "rubbish":
            return Response(200, {}, b'{"items": [')
        parameters = query(request)
        version, _, skipped = parameters.get("continue", f"{self.at_hand(parameters)}:0").partition(":")
        meta = {"resourceVersion": version}
        if "continue" in parameters and int(version) < self.forgotten:
            answer = refused(410, "Expired")
            assert isinstance(answer.body, bytes)
            return Response(410, {}, answer.body)
        items = self.states[int(version)]
        start = int(skipped)
        limit = int(parameters.get("limit", 0)) or len(items)
        if len(items) > start + limit:
            meta["continue"] = f"{version}:{start + limit}"
        items = items[start : start + limit]
        return Response(200, {}, orjson.dumps({"metadata": meta, "items": items}))

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[_Stream]:
        await asyncio.sleep(0.01)
        fault = self._fault()
        parameters = query(request)
        if fault == "break":
            raise TransportError("connection refused")
        if "sendInitialEvents" in parameters and not self.streams:
            yield _Stream(self, 422, refused(422, "Invalid").body, "", None)
        elif fault in ("refuse", "too many"):
            code, reason = (500, "InternalError") if fault == "refuse" else (429, "TooManyRequests")
            yield _Stream(self, code, refused(code, reason).body, "", None)
        elif "sendInitialEvents" in parameters:
            version = self.at_hand(parameters)
            start = min(version, max(self.forgotten, version - 2, 1))  # what changes meanwhile is sent after it
            first = b"".join(event("ADDED", each) for each in self.states[start])
            first += b"".join(line for at, line in self.history if start < at <= version)
            yield _Stream(self, 200, first + end_of_list(version), fault, version)
        else:
            yield _Stream(self, 200, b"", fault, int(parameters["resourceVersion"]))

    async def close(self) -> None:
        pass

    def _fault(self) -> str:
        return self.faults.pop(0) if self.faults else ""


class _Stream:
    def __init__(self, server: ModelServer, status: int, first: Any, fault: str, after: int | None) -> None:
        self.status = status
        self.headers: Mapping[str, str] = {}
        self._server = server
        self._first: bytes = first
        self._fault = fault
        self._after = after
        self._generation = server.generation

    async def read(self) -> bytes:
        return self._first

    async def chunks(self) -> AsyncIterator[bytes]:
        assert self._after is not None
        if self._first:
            if self._fault == "cut":
                yield self._first[: len(self._first) // 2]
                raise TransportError("connection reset")
            later = [(version, line) for version, line in self._server.history if version > self._after]
            if self._after < self._server.forgotten:
                later = []  # the next turn says that it is forgotten
            yield self._first + b"".join(line for _, line in later)
            self._after = later[-1][0] if later else self._after
        while True:
            if self._server.generation != self._generation:
                raise TransportError("connection reset")
            if self._after < self._server.forgotten:
                status = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}
                yield event("ERROR", status)
                return
            lines = [(version, line) for version, line in self._server.history if version > self._after]
            if lines:
                text = b"".join(line for _, line in lines)
                match self._fault:
                    case "cut":
                        yield text[:-5]
                        raise TransportError("connection reset")
                    case "rubbish":
                        yield b"{oops}\n"
                        return
                    case "stuck":
                        yield event("ERROR", {"kind": "Status", "code": 500, "message": "cannot convert an object"})
                        return
                    case "repeat":
                        yield text + text
                    case "hang":
                        await asyncio.sleep(10_000)
                    case _:
                        yield text
                self._fault = ""
                self._after = lines[-1][0]
            await asyncio.sleep(1.0)


class AgainstAModel(RuleBasedStateMachine):
    names = st.sampled_from("abcde")

    def __init__(self) -> None:
        super().__init__()
        self.loop = VirtualLoop()
        asyncio.set_event_loop(self.loop)
        self.uids = 0
        self.told: dict[str, str] = {}
        self.newest: dict[str, int] = {}
        self.wrong: list[str] = []
        self.task: asyncio.Task[None] | None = None

    @precondition(lambda self: self.task is None)
    @rule(streams=st.booleans(), page_size=st.sampled_from([1, 2, 500]))
    def start(self, streams: bool, page_size: int) -> None:
        async def begin() -> None:
            self.server = ModelServer(streams=streams)
            self.store: Store[Pod] = Store()
            self.store.on_change(self._on_change)
            client = Client(self.server, retry=Retry(attempts=0))
            self.informer = Informer(
                client, PODS, self.store, type=Pod, page_size=page_size, clock=self.loop.time, rng=lambda: 0.5
            )
            self.task = asyncio.create_task(self.informer.run())

        self.loop.run_until_complete(begin())

    def teardown(self) -> None:
        if self.task is not None:
            self._settle()
            self.task.cancel()
            self.loop.run_until_complete(asyncio.wait([self.task]))
        asyncio.set_event_loop(None)
        self.loop.close()

    def _on_change(self, old: Pod | None, new: Pod | None) -> None:
        """Not by assertions: what a handler raises is logged and no more."""
        subject = new or old
        assert subject is not None
        name = subject.metadata.name
        before = None if old is None else old.metadata.resource_version
        if self.told.get(name) != before:
            self.wrong.append(f"{name} was told to be at {self.told.get(name)} and is told to have been at {before}")
        if new is None:
            self.told.pop(name, None)
            return
        version = int(new.metadata.resource_version)
        if version <= self.newest.get(name, 0):
            self.wrong.append(f"{name} goes back from {self.newest[name]} to {version}")
        self.newest[name] = version
        self.told[name] = new.metadata.resource_version

    def _settle(self) -> None:
        """The faults are over; after a while all is well."""
        self.server.faults.clear()
        self.server.lag = 0
        self.loop.run_until_complete(asyncio.sleep(120))
        truth = {name: obj["metadata"]["resourceVersion"] for name, obj in self.server.objects.items()}
        assert {each.metadata.name: each.metadata.resource_version for each in self.store} == truth
        assert self.told == truth
        assert self.informer.problem is None
        assert self.task is not None
        assert not self.task.done()

    @precondition(lambda self: self.task is not None)
    @rule(name=names)
    def put(self, name: str) -> None:
        self.uids += 1
        self.server.put(name, self.uids)

    @precondition(lambda self: self.task is not None and self.server.objects)
    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        self.server.remove(data.draw(st.sampled_from(sorted(self.server.objects))))

    @precondition(lambda self: self.task is not None)
    @rule(seconds=st.sampled_from([0.02, 0.2, 2.0, 80.0]))
    def time_passes(self, seconds: float) -> None:
        self.loop.run_until_complete(asyncio.sleep(seconds))

    @precondition(lambda self: self.task is not None)
    @rule(faults=st.lists(st.sampled_from(FAULTS), min_size=1, max_size=3))
    def trouble_ahead(self, faults: list[str]) -> None:
        self.server.faults += faults

    @precondition(lambda self: self.task is not None)
    @rule()
    def the_server_forgets(self) -> None:
        self.server.forget()

    @precondition(lambda self: self.task is not None)
    @rule()
    def the_server_restarts(self) -> None:
        self.server.restart()

    @precondition(lambda self: self.task is not None)
    @rule(
        changes=st.lists(st.tuples(names, st.booleans()), min_size=1, max_size=5),
        forgotten=st.sampled_from([1, 2, 3, 9]),
        lag=st.integers(0, 9),
        fault=st.sampled_from(["", "repeat"]),
    )
    def much_happens_while_it_is_away(
        self, changes: list[tuple[str, bool]], forgotten: int, lag: int, fault: str
    ) -> None:
        self.time_passes(2.0)
        self.server.lag = lag
        self.server.faults = [fault]
        for number, (name, is_there) in enumerate(changes):
            if number == forgotten:
                self.server.forget()
            if is_there or name not in self.server.objects:
                self.put(name)
            else:
                self.server.remove(name)
        self.server.restart()
        self.time_passes(2.0)

    @precondition(lambda self: self.task is not None)
    @rule()
    def all_becomes_well(self) -> None:
        self._settle()

    @invariant()
    def what_was_told_is_what_is_shown(self) -> None:
        assert not self.wrong
        if self.task is not None:
            shown = {each.metadata.name: each.metadata.resource_version for each in self.store}
            assert shown == self.told


TestAgainstAModel = AgainstAModel.TestCase
TestAgainstAModel.settings = settings(max_examples=100, stateful_step_count=25, deadline=None)
