"""The operator as a coroutine: everything it does, over any client, until it is told to stop.

`kuberay operator` runs it against a cluster over HTTPS; local mode runs it inside its own process.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

import structlog

from kuberay import __version__
from kuberay.api.gates import Gate
from kuberay.controllers.raycluster.controller import NAME, RayClusterController
from kuberay.kube.recorder import Recorder
from kuberay.operator import health

if TYPE_CHECKING:
    from kuberay.kube.client import Client
    from kuberay.operator.settings import Settings

_ALWAYS_ON = (Gate.RAY_CLUSTER_STATUS_CONDITIONS, Gate.RAY_MULTI_HOST_INDEXING)
_LAST_EVENTS = 5.0
"""Seconds that the events of the last pass may take to be sent."""

log = structlog.get_logger(__name__)


async def run(client: Client, settings: Settings, *, stop: asyncio.Event) -> None:
    """Work on RayClusters until `stop` is set; then finish what is under way and return.

    The client stays open: it belongs to the caller.

    :raises OSError: the health address cannot be listened on.
    :raises ValueError: a setting asks for what this version cannot do.
    """
    for gate in _ALWAYS_ON:
        if gate not in settings.controllers.gates:
            raise ValueError(f"feature gate {gate} cannot be switched off yet")
    recorder = Recorder(client, NAME)
    controllers = [
        RayClusterController(
            client,
            recorder,
            settings.controllers,
            namespace=namespace,
            workers=settings.reconcile_concurrency,
        )
        for namespace in settings.watch_namespaces or (None,)
    ]

    def not_ready() -> list[str]:
        waiting = [] if all(each.is_synced for each in controllers) else ["caches are being filled"]
        return waiting + [problem for each in controllers for problem in each.problems]

    async with AsyncExitStack() as stack:
        if settings.health_address is not None:
            address = await stack.enter_async_context(health.serving(settings.health_address, not_ready))
            log.info("serving health", address=address)
        log.info("operator started", version=__version__, namespaces=list(settings.watch_namespaces) or "all")
        async with asyncio.TaskGroup() as group:
            recording = group.create_task(recorder.run())
            working = [group.create_task(controller.run(stop)) for controller in controllers]
            await asyncio.wait(working)
            recorder.stop()
            _, late = await asyncio.wait((recording,), timeout=_LAST_EVENTS)
            for task in late:
                task.cancel()
        log.info("operator stopped")
