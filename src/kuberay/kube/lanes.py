"""Who may write next: a bounded number of writes at a time, shared out among what matters more and who asks.

Lanes are numbered, and lower ones go first, but only by so much: a lane is worth a second of waiting, so nothing waits
for ever. Within a lane the keys take turns: one that wants to write five thousand times stands beside one that wants to
write once, not before it.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict, deque
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Hashable

K = TypeVar("K", bound="Hashable")

_SECONDS_PER_LANE = 1.0


@dataclass(slots=True, eq=False)
class _Waiter:
    since: float
    turn: asyncio.Future[None]


class Lanes(Generic[K]):
    """Hands out turns.

    :param width: how many turns may be under way at once.
    """

    def __init__(self, width: int, *, clock: Callable[[], float] = time.monotonic) -> None:
        if width < 1:
            raise ValueError("lanes need a width of at least 1")
        self._free = width
        self._clock = clock
        self._lanes: dict[int, OrderedDict[K, deque[_Waiter]]] = {}

    @property
    def waiting(self) -> int:
        """How many wait for their turn."""
        return sum(len(waiters) for keys in self._lanes.values() for waiters in keys.values())

    @asynccontextmanager
    async def turn(self, key: K, lane: int) -> AsyncIterator[None]:
        """Wait for a turn on behalf of a key; the turn lasts as long as the context."""
        await self._wait(key, lane)
        try:
            yield
        finally:
            self._free += 1
            self._grant()

    async def _wait(self, key: K, lane: int) -> None:
        if self._free and not self._lanes:
            self._free -= 1
            return
        waiter = _Waiter(self._clock(), asyncio.get_running_loop().create_future())
        self._lanes.setdefault(lane, OrderedDict()).setdefault(key, deque()).append(waiter)
        self._grant()
        try:
            await waiter.turn
        except asyncio.CancelledError:
            if waiter.turn.done() and not waiter.turn.cancelled():
                self._free += 1  # the turn came too late; it is for whoever can still use it
            else:
                self._leave(key, lane, waiter)
            self._grant()
            raise

    def _grant(self) -> None:
        while self._free and self._lanes:
            lane = min(self._lanes, key=self._rank)
            keys = self._lanes[lane]
            key, waiters = next(iter(keys.items()))
            waiter = waiters.popleft()
            if waiters:
                keys.move_to_end(key)
            else:
                self._forget(lane, key)
            if not waiter.turn.done():  # else it has just been given up, and its task does not know yet
                self._free -= 1
                waiter.turn.set_result(None)

    def _rank(self, lane: int) -> float:
        waiters = next(iter(self._lanes[lane].values()))
        return waiters[0].since + lane * _SECONDS_PER_LANE

    def _leave(self, key: K, lane: int, waiter: _Waiter) -> None:
        keys = self._lanes.get(lane)
        waiters = keys.get(key) if keys is not None else None
        if waiters is not None and waiter in waiters:
            waiters.remove(waiter)
            if not waiters:
                self._forget(lane, key)

    def _forget(self, lane: int, key: K) -> None:
        keys = self._lanes[lane]
        del keys[key]
        if not keys:
            del self._lanes[lane]
