"""Who may write next: a bounded number of writes at a time, shared out among what matters more and who asks.

Lanes are numbered, and lower ones go first, but only by so much: a lane is worth a second of waiting, so nothing waits
for ever. Within a lane the keys take turns: one that wants to write five thousand times stands beside one that wants to
write once, not before it.

A write that takes long, because a webhook of its namespace hangs say, must not keep the others out: after a second its
turn does not count any more, and somebody else has one beside it. Whom it is for then has the fewer turns of his own.
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
_LONG = 1.0
"""Seconds after which a turn is a long one."""


@dataclass(slots=True, eq=False)
class _Turn(Generic[K]):
    key: K
    since: float


@dataclass(slots=True, eq=False)
class _Waiter(Generic[K]):
    since: float
    turn: asyncio.Future[_Turn[K]]


class Lanes(Generic[K]):
    """Hands out turns.

    :param width: how many turns may be under way at once, long ones apart. No key has more of them, long ones included,
        and no more than so many are set apart.
    """

    def __init__(self, width: int, *, clock: Callable[[], float] = time.monotonic) -> None:
        if width < 1:
            raise ValueError("lanes need a width of at least 1")
        self._width = width
        self._clock = clock
        self._under_way: dict[_Turn[K], None] = {}
        """Oldest first."""
        self._long: set[_Turn[K]] = set()
        self._turns: dict[K, int] = {}
        """How many turns are under way, by key."""
        self._is_looking = False
        self._lanes: dict[int, OrderedDict[K, deque[_Waiter[K]]]] = {}

    @property
    def waiting(self) -> int:
        """How many wait for their turn."""
        return sum(len(waiters) for keys in self._lanes.values() for waiters in keys.values())

    @asynccontextmanager
    async def turn(self, key: K, lane: int) -> AsyncIterator[None]:
        """Wait for a turn on behalf of a key; the turn lasts as long as the context."""
        turn = await self._wait(key, lane)
        try:
            yield
        finally:
            self._end(turn)

    async def _wait(self, key: K, lane: int) -> _Turn[K]:
        if self._has_room and not self._lanes and self._may_have_another(key):
            return self._begin(key)
        waiter: _Waiter[K] = _Waiter(self._clock(), asyncio.get_running_loop().create_future())
        self._lanes.setdefault(lane, OrderedDict()).setdefault(key, deque()).append(waiter)
        self._grant()
        try:
            return await waiter.turn
        except asyncio.CancelledError:
            if waiter.turn.done() and not waiter.turn.cancelled():
                self._end(waiter.turn.result())  # it came too late; it is for whoever can still use it
            else:
                self._leave(key, lane, waiter)
                self._grant()
            raise

    @property
    def _has_room(self) -> bool:
        return len(self._under_way) - len(self._long) < self._width

    def _may_have_another(self, key: K) -> bool:
        return self._turns.get(key, 0) < self._width

    def _begin(self, key: K) -> _Turn[K]:
        turn = _Turn(key, self._clock())
        self._under_way[turn] = None
        self._turns[key] = self._turns.get(key, 0) + 1
        return turn

    def _end(self, turn: _Turn[K]) -> None:
        del self._under_way[turn]
        self._long.discard(turn)
        self._turns[turn.key] -= 1
        if not self._turns[turn.key]:
            del self._turns[turn.key]
        self._grant()

    def _grant(self) -> None:
        if not self._lanes:
            return
        self._set_long_ones_aside()
        while self._has_room and (found := self._next()) is not None:
            lane, key = found
            waiters = self._lanes[lane][key]
            waiter = waiters.popleft()
            if waiters:
                self._lanes[lane].move_to_end(key)
            else:
                self._forget(lane, key)
            if not waiter.turn.done():  # else it has just been given up, and its task does not know yet
                waiter.turn.set_result(self._begin(key))
        if self._lanes and not self._is_looking:
            self._look_again()

    def _next(self) -> tuple[int, K] | None:
        for lane in self._lanes if len(self._lanes) == 1 else sorted(self._lanes, key=self._rank):
            for key in self._lanes[lane]:
                if self._may_have_another(key):
                    return lane, key
        return None

    def _set_long_ones_aside(self) -> None:
        latest = self._clock() - _LONG
        for turn in self._under_way:
            if turn.since > latest or len(self._long) >= self._width:
                return
            self._long.add(turn)

    def _look_again(self) -> None:
        """As soon as there is another long one."""
        oldest = next((turn for turn in self._under_way if turn not in self._long), None)
        if oldest is not None and len(self._long) < self._width:
            self._is_looking = True
            asyncio.get_running_loop().call_later(oldest.since + _LONG - self._clock(), self._look)

    def _look(self) -> None:
        self._is_looking = False
        self._grant()

    def _rank(self, lane: int) -> float:
        waiters = next(iter(self._lanes[lane].values()))
        return waiters[0].since + lane * _SECONDS_PER_LANE

    def _leave(self, key: K, lane: int, waiter: _Waiter[K]) -> None:
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
