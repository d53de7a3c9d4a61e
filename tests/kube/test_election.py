from __future__ import annotations

import asyncio
import itertools
import random
import threading
import time
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from kuberay.kube.client import Client, Retry
from kuberay.kube.election import Elector, LeaderOnly, LeaseLost, LeaseTiming
from kuberay.kube.errors import TransportError
from kuberay.kube.leadership import Leadership
from kuberay.kube.transport import Request
from tests.kube.scripted import BROKEN, Answer, ScriptedTransport, refused
from tests.kube.virtual_time import clock, virtual_time

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from kuberay.kube.transport import Response


class Leases:
    """A server that has one Lease, keeps its word about resourceVersions, and allows what operators usually may do."""

    def __init__(self) -> None:
        self.lease: dict[str, Any] | None = None
        self.fault: Answer | Exception | None = None
        self.lose_answers = False
        self.writes: list[float] = []
        self._versions = itertools.count(100)

    def __call__(self, request: Request) -> Answer | Exception:
        if self.fault is not None:
            return self.fault
        if request.method == "GET":
            return Answer.json(self.lease) if self.lease is not None else refused(404, "NotFound")
        body = orjson.loads(request.body or b"{}")
        if request.method == "POST":
            if self.lease is not None:
                return refused(409, "AlreadyExists")
            self.store({**body, "metadata": {**body["metadata"], "uid": "u"}})
        elif request.method == "PUT":
            if self.lease is None:
                return refused(404, "NotFound")
            if body["metadata"]["resourceVersion"] != self.lease["metadata"]["resourceVersion"]:
                return refused(409, "Conflict")
            self.store(body)
        else:
            return refused(403, "Forbidden")
        self.writes.append(clock())
        return BROKEN if self.lose_answers else Answer.json(self.lease)

    def store(self, lease: dict[str, Any]) -> None:
        """Have this Lease from now on, in a new version."""
        self.lease = {**lease, "metadata": {**lease["metadata"], "resourceVersion": str(next(self._versions))}}

    @property
    def holder(self) -> str:
        return str((self.lease or {}).get("spec", {}).get("holderIdentity", ""))

    @property
    def spec(self) -> dict[str, Any]:
        assert self.lease is not None
        spec: dict[str, Any] = self.lease["spec"]
        return spec


def wall_clock() -> datetime:
    return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=clock())


def elector(server: Any, identity: str = "a", **options: Any) -> Elector:
    client = Client(ScriptedTransport(server), retry=Retry(attempts=0))
    settings: dict[str, Any] = {"clock": clock, "now": wall_clock, "rng": lambda: 0.0, **options}
    return Elector(client, namespace="n", name="l", identity=identity, **settings)


def slow_down(elector: Elector) -> None:
    """Keep answers on their way for a while; what they are to is done."""
    send = elector._client.transport.send

    async def slow(request: Request, *, timeout: float | None = None) -> Response:
        answer = await send(request, timeout=timeout)
        await asyncio.sleep(0.5)
        return answer

    elector._client.transport.send = slow  # type: ignore[method-assign]


class TestTaking:
    @virtual_time
    async def test_a_lease_that_nobody_has_made(self) -> None:
        leases = Leases()
        a = elector(leases)
        await a.acquire()
        assert a.holds
        assert leases.spec == {
            "holderIdentity": "a",
            "leaseDurationSeconds": 15,
            "acquireTime": "2026-01-01T00:00:00.000000Z",
            "renewTime": "2026-01-01T00:00:00.000000Z",
            "leaseTransitions": 0,
        }
        assert a.resource_version == "100"

    @virtual_time
    async def test_one_that_its_holder_does_not_renew(self) -> None:
        leases = Leases()
        await elector(leases).acquire()
        b = elector(leases, "b")
        await b.acquire()
        assert 15 <= clock() <= 17
        assert (leases.holder, leases.spec["leaseTransitions"]) == ("b", 1)

    @virtual_time
    async def test_not_one_that_is_renewed(self) -> None:
        leases = Leases()
        a, b = elector(leases), elector(leases, "b")
        await a.acquire()
        keeping, waiting = asyncio.create_task(a.keep()), asyncio.create_task(b.acquire())
        await asyncio.sleep(1000)
        assert (a.holds, b.holds, b.holder) == (True, False, "a")
        keeping.cancel()
        waiting.cancel()

    @virtual_time
    async def test_whatever_its_clock_says(self) -> None:
        leases = Leases()
        await elector(leases, now=lambda: datetime(1999, 1, 1, tzinfo=UTC)).acquire()
        await elector(leases, "b", now=lambda: datetime(2099, 1, 1, tzinfo=UTC)).acquire()
        assert clock() >= 15

    @virtual_time
    async def test_for_as_long_as_its_holder_was_promised(self) -> None:
        leases = Leases()
        await elector(leases, timing=LeaseTiming(60, 40, 5)).acquire()
        await elector(leases, "b").acquire()
        assert clock() >= 60

    @virtual_time
    async def test_at_once_when_it_was_released(self) -> None:
        leases = Leases()
        a = elector(leases)
        await a.acquire()
        await a.release()
        assert not a.holds
        assert leases.holder == ""
        await elector(leases, "b").acquire()
        assert clock() == 0

    @virtual_time
    async def test_only_by_one_when_two_want_it(self) -> None:
        leases = Leases()
        both = [elector(leases, identity) for identity in "ab"]
        tasks = [asyncio.create_task(each.acquire()) for each in both]
        await asyncio.sleep(10)
        assert sorted(each.holds for each in both) == [False, False]
        assert sum(task.done() for task in tasks) == 1
        for task in tasks:
            task.cancel()

    @pytest.mark.parametrize("fault", [BROKEN, refused(500, "InternalError"), refused(403, "Forbidden")])
    def test_however_long_the_server_fails(self, fault: Any) -> None:
        @virtual_time
        async def scenario() -> None:
            leases = Leases()
            leases.fault = fault
            task = asyncio.create_task(elector(leases).acquire())
            await asyncio.sleep(100)
            leases.fault = None
            await task
            assert leases.holder == "a"

        scenario()

    @virtual_time
    async def test_a_right_that_is_missing_is_an_error_that_is_told_once_and_names_it(self) -> None:
        leases = Leases()
        leases.fault = refused(403, "Forbidden", "sa cannot update leases")
        with capture_logs() as lines:
            task = asyncio.create_task(elector(leases).acquire())
            await asyncio.sleep(100)
            task.cancel()
        (line,) = lines
        assert (line["event"], line["log_level"]) == ("waiting for the lease", "error")
        assert line["state"] == (
            "cannot be read or written: the account needs the verbs get, create and update on "
            "leases.coordination.k8s.io in namespace 'n'; the server says: sa cannot update leases"
        )

    @virtual_time
    async def test_at_different_moments(self) -> None:
        leases = Leases()
        await elector(leases).acquire()
        waits: list[float] = []

        async def sleep(seconds: float) -> None:
            waits.append(seconds)
            await asyncio.sleep(seconds)

        await elector(leases, "b", rng=random.Random(1).random, sleep=sleep).acquire()
        assert len(set(waits)) == len(waits)
        assert all(2 <= wait <= 4.4 for wait in waits)


class TestKeeping:
    @virtual_time
    async def test_it_is_renewed_every_two_seconds(self) -> None:
        leases = Leases()
        a = elector(leases)
        await a.acquire()
        keeping = asyncio.create_task(a.keep())
        await asyncio.sleep(9)
        assert leases.writes == [0, 2, 4, 6, 8]
        assert leases.spec["acquireTime"] != leases.spec["renewTime"]
        keeping.cancel()

    @virtual_time
    async def test_a_short_failure_is_survived(self) -> None:
        leases = Leases()
        a = elector(leases)
        await a.acquire()
        keeping = asyncio.create_task(a.keep())
        await asyncio.sleep(1)
        leases.fault = BROKEN
        await asyncio.sleep(6)
        leases.fault = None
        await asyncio.sleep(3)
        assert a.holds
        assert not keeping.done()
        keeping.cancel()

    @virtual_time
    async def test_a_renewal_whose_answer_was_lost_is_no_loss(self) -> None:
        leases = Leases()
        a = elector(leases)
        await a.acquire()
        keeping = asyncio.create_task(a.keep())
        leases.lose_answers = True
        await asyncio.sleep(5)
        leases.lose_answers = False
        await asyncio.sleep(100)
        assert a.holds
        keeping.cancel()

    @virtual_time
    async def test_what_others_keep_in_it_stays_and_is_no_loss(self) -> None:
        leases = Leases()
        a = elector(leases)
        await a.acquire()
        keeping = asyncio.create_task(a.keep())
        await asyncio.sleep(1)
        assert leases.lease is not None
        noted = {**leases.lease["metadata"], "annotations": {"by": "somebody"}}
        leases.store({**leases.lease, "metadata": noted, "spec": {**leases.spec, "strategy": "OldestEmulationVersion"}})
        await asyncio.sleep(100)
        assert (a.holds, leases.writes[-1]) == (True, 100)
        assert leases.lease["metadata"]["annotations"] == {"by": "somebody"}
        assert leases.spec["strategy"] == "OldestEmulationVersion"
        keeping.cancel()

    @virtual_time
    async def test_a_lease_that_somebody_deleted_is_made_again(self) -> None:
        leases = Leases()
        a = elector(leases)
        await a.acquire()
        keeping = asyncio.create_task(a.keep())
        leases.lease = None
        await asyncio.sleep(3)
        assert (leases.holder, a.holds) == ("a", True)
        keeping.cancel()

    @virtual_time
    async def test_after_ten_seconds_of_failure_it_is_lost(self) -> None:
        leases = Leases()
        a = elector(leases)
        await a.acquire()
        leases.fault = BROKEN
        with pytest.raises(LeaseLost, match="was not renewed for 10 s"):
            await a.keep()
        assert clock() == 10
        assert not a.holds

    @virtual_time
    async def test_a_server_that_hangs_is_a_failure(self) -> None:
        leases = Leases()
        a = elector(leases)
        await a.acquire()
        transport = a._client.transport

        async def hang(*_: Any, **__: Any) -> None:
            await asyncio.sleep(10_000)

        transport.send = hang  # type: ignore[method-assign,assignment]
        with pytest.raises(LeaseLost):
            await a.keep()
        assert clock() == 10, "others may have it at 15, and by then this process must have stopped"

    @virtual_time
    async def test_what_another_took_is_lost(self) -> None:
        leases = Leases()
        a = elector(leases)
        await a.acquire()
        await asyncio.sleep(5)
        leases.store({**(leases.lease or {}), "spec": {"holderIdentity": "b"}})
        with pytest.raises(LeaseLost, match="taken by 'b'"):
            await a.keep()

    @virtual_time
    async def test_who_wakes_up_after_a_long_sleep_knows_at_once(self) -> None:
        leases = Leases()
        a = elector(leases)
        await a.acquire()
        await asyncio.sleep(10)  # nothing of it ran meanwhile
        assert not a.holds
        await a.release()
        assert leases.holder == "a"  # not ours to give away any more

    @virtual_time
    async def test_it_is_released_although_its_renewal_was_cut_short(self) -> None:
        leases = Leases()
        a = elector(leases)
        await a.acquire()
        slow_down(a)
        keeping = asyncio.create_task(a.keep())
        await asyncio.sleep(2.1)
        keeping.cancel()
        await a.release()
        assert leases.holder == ""

    @virtual_time
    async def test_it_is_released_although_its_taking_was_cut_short(self) -> None:
        leases = Leases()
        a = elector(leases)
        slow_down(a)
        taking = asyncio.create_task(a.acquire())
        await asyncio.sleep(0.7)
        assert leases.holder == "a"
        taking.cancel()
        await a.release()
        assert leases.holder == ""

    @virtual_time
    async def test_who_never_asked_for_it_does_not_release_it(self) -> None:
        leases = Leases()
        await elector(leases).acquire()
        writes = len(leases.writes)
        await elector(leases, "b").release()
        assert (leases.holder, len(leases.writes)) == ("a", writes)

    @virtual_time
    async def test_what_another_took_meanwhile_is_not_released(self) -> None:
        leases = Leases()
        a = elector(leases)
        await a.acquire()
        leases.store({**(leases.lease or {}), "spec": {"holderIdentity": "b"}})
        await a.release()
        assert leases.holder == "b"

    @virtual_time
    async def test_a_release_that_fails_is_no_matter(self) -> None:
        leases = Leases()
        a = elector(leases)
        await a.acquire()
        leases.fault = BROKEN
        await a.release()
        assert not a.holds

    def test_timings_that_cannot_work_are_refused(self) -> None:
        with pytest.raises(ValueError, match="must outlast"):
            LeaseTiming(10, 10, 2)


class Partition:
    """A way to the server that can be cut, and a process that can be frozen; a frozen one neither sends nor wakes."""

    def __init__(self, leases: Leases) -> None:
        self._leases = leases
        self.is_cut = False
        self.awake = asyncio.Event()
        self.awake.set()

    def __call__(self, request: Request) -> Answer | Exception:
        return BROKEN if self.is_cut else self._leases(request)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
        await self.awake.wait()


@given(
    seed=st.integers(0, 2**32),
    troubles=st.lists(
        st.tuples(st.sampled_from("abc"), st.sampled_from(["cut", "freeze", "stop"]), st.floats(0.1, 40)), max_size=12
    ),
)
@settings(max_examples=40, deadline=None)
def test_there_are_never_two_leaders_whatever_happens(seed: int, troubles: list[tuple[str, str, float]]) -> None:
    @virtual_time
    async def scenario() -> None:
        leases = Leases()
        rng = random.Random(seed)
        ways = {identity: Partition(leases) for identity in "abc"}
        all_of_them = {
            identity: elector(way, identity, sleep=way.sleep, rng=rng.random) for identity, way in ways.items()
        }

        async def live(one: Elector) -> None:
            while True:
                await one.acquire()
                try:
                    await one.keep()
                except LeaseLost:
                    continue
                finally:
                    await one.release()

        async def trouble() -> None:
            for identity, kind, seconds in troubles:
                way = ways[identity]
                if kind == "cut":
                    way.is_cut = True
                elif kind == "freeze":
                    way.awake.clear()
                else:
                    tasks[identity].cancel()
                    tasks[identity] = asyncio.create_task(live(all_of_them[identity]))
                await asyncio.sleep(seconds)
                way.is_cut = False
                way.awake.set()

        tasks = {identity: asyncio.create_task(live(one)) for identity, one in all_of_them.items()}
        troubling = asyncio.create_task(trouble())
        while not troubling.done():
            assert sum(one.holds for one in all_of_them.values()) <= 1
            await asyncio.sleep(0.2)
        await asyncio.sleep(60)
        assert sum(one.holds for one in all_of_them.values()) == 1
        for task in tasks.values():
            task.cancel()
        await asyncio.gather(*tasks.values(), return_exceptions=True)

    scenario()


class TestWritingOnlyWhileLeading:
    async def test_reads_pass_and_writes_do_not(self) -> None:
        leads = True
        transport = ScriptedTransport(lambda _: Answer())
        guarded = LeaderOnly(transport, lambda: leads)
        await guarded.send(Request("POST", "/"))
        leads = False
        await guarded.send(Request("GET", "/"))
        async with guarded.stream(Request("GET", "/")) as stream:
            assert stream.status == 200
        for method in ("POST", "PUT", "PATCH", "DELETE"):
            with pytest.raises(TransportError, match=r"does not lead$"):
                await guarded.send(Request(method, "/"))
        assert [each.method for each in transport.requests] == ["POST", "GET", "GET"]
        await guarded.close()
        assert transport.closed


class TestInAThread:
    """In real time, with short ones: threads do not live on a virtual clock."""

    timing = LeaseTiming(duration=1.6, renew_deadline=0.8, retry=0.1)

    def leadership(self, leases: Leases, **options: Any) -> Leadership:
        @asynccontextmanager
        async def make() -> AsyncIterator[Elector]:
            yield elector(leases, timing=self.timing, clock=time.monotonic, now=lambda: datetime.now(UTC))

        return Leadership(make, **options)

    async def test_it_wins_keeps_and_releases(self) -> None:
        leases = Leases()
        async with asyncio.timeout(20), self.leadership(leases) as leadership:
            assert await leadership.won() == "100"
            assert leadership.holds
        assert leases.holder == ""

    async def test_a_busy_loop_does_not_lose_the_lease(self) -> None:
        leases = Leases()
        async with asyncio.timeout(20), self.leadership(leases) as leadership:
            await leadership.won()
            before = len(leases.writes)
            deadline = time.monotonic() + 0.6
            while time.monotonic() < deadline:
                pass
            assert leadership.holds
            assert len(leases.writes) > before

    @pytest.mark.slow
    async def test_a_loop_that_is_stuck_gives_it_up_and_is_ended(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("kuberay.kube.leadership._BEAT", 0.05)
        aborted = threading.Event()
        reasons: list[str] = []

        def abort(reason: str) -> None:
            reasons.append(reason)
            aborted.set()

        leases = Leases()
        async with asyncio.timeout(20), self.leadership(leases, abort=abort) as leadership:
            await leadership.won()
            deadline = time.monotonic() + 10
            while not aborted.is_set() and time.monotonic() < deadline:
                pass
            assert aborted.is_set()
            assert not leadership.holds
            assert "has not answered" in await leadership.lost()
        assert reasons == [await leadership.lost()]

    async def test_who_loses_and_leaves_is_not_ended(self) -> None:
        leases = Leases()
        aborted: list[str] = []
        async with asyncio.timeout(20), self.leadership(leases, abort=aborted.append) as leadership:
            await leadership.won()
            leases.fault = BROKEN
            assert "was not renewed" in await leadership.lost()
            assert not leadership.holds
        assert aborted == []

    async def test_leaving_before_winning(self) -> None:
        leases = Leases()
        leases.fault = BROKEN
        async with asyncio.timeout(20), self.leadership(leases):
            pass
        assert leases.lease is None
