"""How every loop runs: its informers first, its controller when they have listed, all of it until cancelled."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kuberay.kube.controller import Controller
    from kuberay.kube.informer import Informer


async def run_loop(controller: Controller[Any], *informers: Informer[Any]) -> None:
    """Reconcile until cancelled; never before the caches are complete."""
    async with asyncio.TaskGroup() as group:
        for informer in informers:
            group.create_task(informer.run())
        for informer in informers:
            await informer.synced()
        await controller.run()
