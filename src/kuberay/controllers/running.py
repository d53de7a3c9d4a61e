"""The life of a controller: its caches fill, its turn comes, it works, it is told to stop and finishes."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from kuberay.kube.controller import Controller
    from kuberay.kube.informer import Informer

    # Waits until this process may write, and tells what version it must know of before it does: what others did.
    Turn = Callable[[], Awaitable[str]]


async def run_controller(
    controller: Controller[Any],
    informers: Sequence[Informer[Any]],
    stop: asyncio.Event,
    *,
    turn: Turn | None = None,
    filled: Callable[[], None] = lambda: None,
) -> None:
    """Work until told to stop; then finish what is under way.

    :param turn: without it the turn has come; caches are filled meanwhile, so that a standby is warm.
    :param filled: called once, before the first reconcile.
    """
    async with asyncio.TaskGroup() as group:
        following = [group.create_task(informer.run()) for informer in informers]
        stopping = group.create_task(stop.wait())
        caught_up = group.create_task(_catch_up(informers, turn))
        await asyncio.wait((stopping, caught_up), return_when=asyncio.FIRST_COMPLETED)
        if caught_up.done():
            filled()
            working = group.create_task(controller.run())
            await stopping
            controller.stop()
            await working
        caught_up.cancel()
        for task in following:
            task.cancel()


async def _catch_up(informers: Sequence[Informer[Any]], turn: Turn | None) -> None:
    for informer in informers:
        await informer.synced()
    if turn is not None:
        version = await turn()
        await asyncio.gather(*(informer.reach(version) for informer in informers))
