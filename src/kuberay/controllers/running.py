"""What the controllers of all kinds have in common: their caches fill, their turn comes, they work, they are told to
stop and finish."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

import structlog

from kuberay.controllers.kinds import RAY_CLUSTERS
from kuberay.kube.controller import Controller
from kuberay.kube.metrics import ControllerMetrics, QueueMetrics
from kuberay.kube.queue import Queue
from kuberay.kube.recorder import Regarding

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence

    from kuberay.api.v1 import RayCluster
    from kuberay.controllers.plan import EmitEvent
    from kuberay.kube.controller import Result
    from kuberay.kube.identity import Key
    from kuberay.kube.informer import Informer
    from kuberay.kube.metrics import Metrics
    from kuberay.kube.recorder import Recorder

    # Waits until this process may write, and tells what version it must know of before it does: what others did.
    Turn = Callable[[], Awaitable[str]]


log = structlog.get_logger(__name__)


class RayController(ABC):
    """A controller of RayClusters, of one namespace or of all.

    :param name: in metrics and in the log.
    :param informers: what has to be known before the first pass, and is followed from then on.
    :param metrics: where to count what happens.
    """

    def __init__(
        self,
        name: str,
        recorder: Recorder,
        informers: Sequence[Informer[Any]],
        *,
        namespace: str | None,
        workers: int,
        metrics: Metrics | None,
    ) -> None:
        self._recorder = recorder
        self._informers = informers
        self._controller: Controller[Key] = Controller(
            name,
            Queue(metrics=QueueMetrics(metrics, f"{name}-{namespace}" if namespace else name) if metrics else None),
            self.reconcile,
            workers=workers,
            metrics=ControllerMetrics(metrics, name, workers) if metrics else None,
        )

    @abstractmethod
    async def reconcile(self, key: Key) -> Result | None:
        """One pass: look, decide, act."""

    @property
    def is_synced(self) -> bool:
        """Whether everything there was at the start is known."""
        return all(informer.store.is_synced for informer in self._informers)

    @property
    def problems(self) -> list[str]:
        """What keeps the caches from following the server, if anything."""
        return [informer.problem for informer in self._informers if informer.problem is not None]

    async def run(self, stop: asyncio.Event, *, turn: Turn | None = None) -> None:
        """Work until told to stop; then finish what is under way.

        :param turn: waits until this process may write, and tells what version it must know of before it does: what
            others did until then. Without it the turn has come; caches are filled meanwhile, so that a standby is warm.
        """
        async with asyncio.TaskGroup() as group:
            following = [group.create_task(informer.run()) for informer in self._informers]
            stopping = group.create_task(stop.wait())
            caught_up = group.create_task(_catch_up(self._informers, turn))
            await asyncio.wait((stopping, caught_up), return_when=asyncio.FIRST_COMPLETED)
            if caught_up.done():
                known = {informer.resource.name: len(informer.store) for informer in self._informers}
                log.info("caches are filled", controller=self._controller.name, **known)
                working = group.create_task(self._controller.run())
                await stopping
                self._controller.stop()
                await working
            caught_up.cancel()
            for task in following:
                task.cancel()

    def _emit(self, cluster: RayCluster, events: Iterable[EmitEvent]) -> None:
        for event in events:
            regarding = Regarding.of(cluster, RAY_CLUSTERS)
            if event.is_about_namespace:
                regarding = Regarding("v1", "Namespace", "", cluster.namespace, "")
            self._recorder.event(regarding, event.type, event.reason, event.action, event.note)


async def _catch_up(informers: Sequence[Informer[Any]], turn: Turn | None) -> None:
    for informer in informers:
        await informer.synced()
    if turn is not None:
        version = await turn()
        await asyncio.gather(*(informer.reach(version) for informer in informers))
