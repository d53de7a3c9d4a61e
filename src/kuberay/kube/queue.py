"""Names to look at: each at most once in the queue, and never handed to two workers at a time.

A key that is added while somebody works on it is handed out again afterwards; adding it ten times meanwhile is adding
it once. A key may be added for later, and one that failed comes back after a wait that doubles each time.

Priority is worth time: a key of priority p overtakes what has waited less than p tenths of a second longer. So the
important goes first, and the unimportant (-100: a first list of thousands) still gets its turn after ten seconds.
Among equals, who has waited longest is next: a key that changes all the time stands behind the others each time.
"""

from __future__ import annotations

import asyncio
import heapq
import time
from collections import Counter, deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from kuberay.kube.metrics import QueueMetrics

K = TypeVar("K", bound="Hashable")

NORMAL = 0
LOW = -100
"""For what arrives with a first list: nothing has happened to it."""

_SECONDS_PER_PRIORITY = 0.1


class QueueClosed(Exception):
    """There will be no more keys."""


@dataclass(frozen=True, slots=True)
class Backoff:
    """How long a key waits after it failed for the n-th time in a row."""

    first: float = 0.005
    longest: float = 1000.0

    def delay(self, failures: int) -> float:
        return min(self.longest, self.first * 2.0 ** min(failures, 64))


@dataclass(slots=True)
class _Entry:
    """A key that waits. A heap may hold outdated places of it: only the one with this number counts."""

    at: float
    priority: int
    number: int


class Queue(Generic[K]):
    """Keys waiting for a worker.

    :param clock: seconds that only grow; delays are measured by it.
    :param metrics: where to count what happens.
    """

    def __init__(
        self,
        *,
        clock: Callable[[], float] = time.monotonic,
        backoff: Backoff | None = None,
        metrics: QueueMetrics | None = None,
    ) -> None:
        self._clock = clock
        self._metrics = metrics
        self._backoff = backoff or Backoff()
        self._entries: dict[K, _Entry] = {}
        self._processing: dict[K, int] = {}
        self._ready: list[tuple[float, int, K]] = []
        self._later: list[tuple[float, int, K]] = []
        self._failures: dict[K, int] = {}
        self._numbers = 0
        self._waiters: deque[asyncio.Future[None]] = deque()
        self._closed = False
        if metrics is not None:
            metrics.follow(self)

    def __len__(self) -> int:
        """How many keys wait, those for later included, those under work not."""
        return len(self._entries)

    @property
    def processing(self) -> int:
        """How many keys are under work."""
        return len(self._processing)

    def priority(self, key: K) -> int:
        """With which priority a key under work was handed out."""
        return self._processing.get(key, NORMAL)

    def depths(self) -> dict[int, int]:
        """How many keys wait that are due, by priority."""
        now = self._clock()
        return dict(Counter(entry.priority for entry in self._entries.values() if entry.at <= now))

    def add(self, key: K, *, after: float = 0.0, priority: int = NORMAL) -> None:
        """Ask for a look at a key. Of several askings the soonest and the most important count."""
        if self._closed:
            return
        at = self._clock() + max(0.0, after)
        entry = self._entries.get(key)
        if entry is not None:
            if at >= entry.at and priority <= entry.priority:
                return
            at, priority = min(at, entry.at), max(priority, entry.priority)
        elif self._metrics is not None:
            self._metrics.added()
        self._numbers += 1
        self._entries[key] = entry = _Entry(at, priority, self._numbers)
        if key not in self._processing:
            self._place(key, entry)

    def retry(self, key: K) -> float:
        """Ask for another look at a key that failed, after its back-off; returns the seconds until then."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        if self._metrics is not None:
            self._metrics.retried()
        delay = self._backoff.delay(failures)
        self.add(key, after=delay, priority=self.priority(key))
        return delay

    def forget(self, key: K) -> None:
        """The key succeeded, or is of no interest any more: its next failure is its first."""
        self._failures.pop(key, None)

    def failures(self, key: K) -> int:
        """How often in a row a key has failed."""
        return self._failures.get(key, 0)

    async def get(self) -> K:
        """The next key. Whoever takes it says `done` when finished.

        :raises QueueClosed: the queue was closed; keys that still waited are given up.
        """
        while not self._closed:
            now = self._clock()
            self._promote(now)
            while self._ready:
                _, number, key = heapq.heappop(self._ready)
                entry = self._entries.get(key)
                if entry is None or entry.number != number:
                    continue  # outdated
                del self._entries[key]
                self._processing[key] = entry.priority
                if self._metrics is not None:
                    self._metrics.taken(key, max(0.0, now - entry.at))
                return key
            await self._wait(None if not self._later else max(0.0, self._later[0][0] - now))
        raise QueueClosed

    def done(self, key: K) -> None:
        """The work on a key has ended, well or not."""
        self._processing.pop(key, None)
        if self._metrics is not None:
            self._metrics.done(key)
        entry = self._entries.get(key)
        if entry is not None:
            entry.at = max(entry.at, self._clock())  # it has had its turn: who came meanwhile goes first
            self._place(key, entry)

    def close(self) -> None:
        """Hand out nothing any more, and wake whoever waits."""
        self._closed = True
        while self._waiters:
            self._wake_one()

    def _place(self, key: K, entry: _Entry) -> None:
        heapq.heappush(self._later, (entry.at, entry.number, key))
        self._wake_one()

    def _promote(self, now: float) -> None:
        while self._later and self._later[0][0] <= now:
            at, number, key = heapq.heappop(self._later)
            entry = self._entries.get(key)
            if entry is not None and entry.number == number:
                heapq.heappush(self._ready, (at - entry.priority * _SECONDS_PER_PRIORITY, number, key))

    async def _wait(self, seconds: float | None) -> None:
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        try:
            async with asyncio.timeout(seconds):
                await waiter
        except TimeoutError:
            pass  # a key for later is due
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled():
                self._wake_one()  # the wake-up was meant for whoever can still use it
            raise
        finally:
            if waiter in self._waiters:
                self._waiters.remove(waiter)

    def _wake_one(self) -> None:
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return
