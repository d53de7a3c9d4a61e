"""An election in a thread of its own, so that a busy event loop neither loses the lease nor keeps it while stuck.

The thread has its own event loop and its own connection: renewals go out while the main loop computes. It also asks
the main loop every second whether it is still there. A loop that does not answer for as long as a lease may go without
renewal is taken for dead: the lease is given up, and when the process has not stopped by the time that others may take
it, it is ended the hard way.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
import time
from typing import TYPE_CHECKING

import structlog

from kuberay.kube.election import LeaseLost

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from contextlib import AbstractAsyncContextManager
    from types import TracebackType

    from kuberay.kube.election import Elector

log = structlog.get_logger(__name__)

_BEAT = 1.0


def _exit(reason: str) -> None:
    log.error("this process does not lead any more and did not stop in time", reason=reason)
    os._exit(1)


class Leadership:
    """Takes part in an election while the context lasts; the lease is released when it ends.

    :param elector: makes the elector and closes its client afterwards; called in the thread.
    :param abort: ends the process at once; called in the thread when the main loop did not react to a loss.
    """

    def __init__(
        self,
        elector: Callable[[], AbstractAsyncContextManager[Elector]],
        *,
        abort: Callable[[str], None] = _exit,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._make = elector
        self._abort = abort
        self._clock = clock
        self._sleep = sleep
        self._elector: Elector | None = None
        self._thread = threading.Thread(target=self._run, name="election", daemon=True)
        self._main: asyncio.AbstractEventLoop | None = None
        self._stop_in_thread: Callable[[], object] | None = None
        self._stopping = threading.Event()
        self._won = asyncio.Event()
        self._lost = asyncio.Event()
        self._reason = ""
        self._beat_at = 0.0
        self._has_reacted = threading.Event()

    async def won(self) -> str:
        """Wait until this process leads; the version that its caches must have passed before it acts."""
        await self._won.wait()
        assert self._elector is not None
        return self._elector.resource_version

    async def lost(self) -> str:
        """Wait until this process does not lead any more; why. Whoever waits for this must stop and exit."""
        await self._lost.wait()
        return self._reason

    @property
    def holds(self) -> bool:
        """Whether this process may act as the leader at this very moment."""
        return self._elector is not None and not self._reason and self._elector.holds

    async def __aenter__(self) -> Leadership:
        self._main = asyncio.get_running_loop()
        self._beat_at = self._clock()
        self._thread.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._has_reacted.set()
        self._stopping.set()
        if self._stop_in_thread is not None:
            with contextlib.suppress(RuntimeError):  # the thread has ended by itself
                self._stop_in_thread()
        # The thread tells the main loop things, so the loop must go on while it ends.
        await asyncio.to_thread(self._thread.join)

    def _run(self) -> None:
        try:
            asyncio.run(self._take_part())
        except Exception as error:
            self._lose(f"the election failed: {type(error).__name__}: {error}")

    async def _take_part(self) -> None:
        loop = asyncio.get_running_loop()
        stopping = asyncio.Event()
        self._stop_in_thread = lambda: loop.call_soon_threadsafe(stopping.set)
        if self._stopping.is_set():
            return
        async with self._make() as elector:
            self._elector = elector
            async with asyncio.TaskGroup() as group:
                electing = group.create_task(self._elect(elector))
                ending = group.create_task(stopping.wait())
                await asyncio.wait((electing, ending), return_when=asyncio.FIRST_COMPLETED)
                electing.cancel()
                ending.cancel()
            if not self._reason:
                await elector.release()

    async def _elect(self, elector: Elector) -> None:
        await elector.acquire()
        self._tell(self._won)
        reason = ""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(elector.keep())
                group.create_task(self._watch_main_loop(elector.timing.renew_deadline))
        except* LeaseLost as lost:
            reason = str(lost.exceptions[0])
        # Not in there: what cancels the wait would come out as a group, which nobody takes for that.
        self._lose(reason)
        margin = elector.timing.duration - elector.timing.renew_deadline
        if not await asyncio.to_thread(self._has_reacted.wait, margin):
            self._abort(reason)

    async def _watch_main_loop(self, patience: float) -> None:
        assert self._main is not None

        def beat() -> None:
            self._beat_at = self._clock()

        beat()
        while True:
            with contextlib.suppress(RuntimeError):  # closed; it will not answer
                self._main.call_soon_threadsafe(beat)
            await self._sleep(_BEAT)
            silent = self._clock() - self._beat_at
            if silent >= patience:
                raise LeaseLost(f"the event loop of this process has not answered for {silent:.0f} s")

    def _lose(self, reason: str) -> None:
        self._reason = reason
        log.error("leadership is lost", reason=reason)
        self._tell(self._lost)

    def _tell(self, event: asyncio.Event) -> None:
        assert self._main is not None
        with contextlib.suppress(RuntimeError):  # the main loop is closed: nobody is left to be told
            self._main.call_soon_threadsafe(event.set)
