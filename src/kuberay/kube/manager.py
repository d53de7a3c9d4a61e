"""The parts of an operator, started and stopped in the order in which they need each other.

Caches first, on standbys too, so that taking over takes no longer than the lease. Then leadership. A new leader acts
only when its caches have passed the version of its own lease: by then they show all that the last leader did. Then
controllers, until told to stop or until leadership is lost; what is under way may finish, and caches go last.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Protocol

import structlog

from kuberay.kube.election import LeaseLost

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kuberay.kube.controller import Controller
    from kuberay.kube.informer import Informer

log = structlog.get_logger(__name__)


class Leading(Protocol):
    """What is asked of an election: `kube.leadership.Leadership` is one."""

    async def won(self) -> str:
        """Wait until this process leads; the version that its caches must have passed."""
        ...

    async def lost(self) -> str:
        """Wait until it does not lead any more; why."""
        ...


class Manager:
    """Runs informers and controllers; with `leadership`, controllers only while this process leads."""

    def __init__(
        self,
        informers: Sequence[Informer[Any]],
        controllers: Sequence[Controller[Any]],
        *,
        leadership: Leading | None = None,
    ) -> None:
        self._informers = informers
        self._controllers = controllers
        self._leadership = leadership
        self.waits_for = "caches to be filled"
        """What keeps it from working, for readiness checks; empty while it works."""

    @property
    def problems(self) -> list[str]:
        """What keeps caches from following the server at the moment."""
        return [each.problem for each in self._informers if each.problem is not None]

    async def run(self, stop: asyncio.Event) -> None:
        """Work until told to stop; then let what is under way finish.

        :raises LeaseLost: this process does not lead any more; it must exit.
        """
        async with asyncio.TaskGroup() as group:
            following = [group.create_task(each.run()) for each in self._informers]
            stopping, losing = group.create_task(stop.wait()), group.create_task(self._lost())
            preparing = group.create_task(self._prepare())
            try:
                await _first(preparing, stopping, losing)
                if preparing.done() and not stopping.done():
                    await self._work(group, stopping, losing)
            finally:
                self.waits_for = "nothing: it has stopped"
                for task in (*following, stopping, preparing):
                    task.cancel()
                lost = losing.result() if losing.done() else None
                losing.cancel()
        if lost is not None:
            raise LeaseLost(lost)

    async def _prepare(self) -> None:
        for informer in self._informers:
            await informer.synced()
        if self._leadership is None:
            return
        self.waits_for = "leadership"
        version = await self._leadership.won()
        self.waits_for = "caches to show what the last leader did"
        for informer in self._informers:
            await informer.reach(version)

    async def _work(self, group: asyncio.TaskGroup, *ends: asyncio.Task[Any]) -> None:
        """Run controllers until something ends it."""
        self.waits_for = ""
        log.info("controllers start", controllers=[each.name for each in self._controllers])
        working = [group.create_task(each.run()) for each in self._controllers]
        await _first(*ends)
        for controller in self._controllers:
            controller.stop()
        if working:
            await asyncio.wait(working)

    async def _lost(self) -> str:
        if self._leadership is None:
            await asyncio.Event().wait()  # what one does not have one cannot lose
            raise AssertionError
        return await self._leadership.lost()


async def _first(*tasks: asyncio.Task[Any]) -> None:
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
