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

CATCHING_UP = 0.5
"""Seconds after which a cache that was behind is asked again."""


class RayController(ABC):
    """What is known of the RayClusters of one namespace, or of all, and what one pass makes of it.

    :param namespace: the only one that it works in; `None` for all.
    :param informers: what has to be known before the first pass, and is followed from then on.
    :param extras: what is followed as well, and can be done without until it is there. It may also be older than this
        process' turn: for kinds of which nothing is lost by a second attempt to make one.
    :param shared: what has to be known as well, and is followed by another controller of this process.
    """

    def __init__(
        self,
        recorder: Recorder,
        informers: Sequence[Informer[Any]],
        *,
        namespace: str | None,
        extras: Sequence[Informer[Any]] = (),
        shared: Sequence[Informer[Any]] = (),
    ) -> None:
        self.namespace = namespace
        self._recorder = recorder
        self._informers = informers
        self._extras = extras
        self._needed = (*shared, *informers)

    @abstractmethod
    async def reconcile(self, key: Key) -> Result | None:
        """One pass: look, decide, act."""

    @abstractmethod
    def watch(self, loop: Controller[Key]) -> None:
        """Have clusters looked at: all of them, and each whenever something happens to it or around it."""

    @property
    def is_synced(self) -> bool:
        """Whether everything there was at the start is known."""
        return all(informer.store.is_synced for informer in self._needed)

    @property
    def problems(self) -> list[str]:
        """What keeps the caches from following the server, if anything."""
        return [informer.problem for informer in self._informers if informer.problem is not None]

    async def follow(self, loop: Controller[Key], turn: Turn | None) -> None:
        """Keep the caches in step with the server until cancelled; once they are filled and its turn has come, have
        the loop look at clusters."""
        async with asyncio.TaskGroup() as group:
            for informer in (*self._informers, *self._extras):
                group.create_task(informer.run())
            await self._catch_up(turn)
            known = {informer.resource.name: len(informer.store) for informer in (*self._needed, *self._extras)}
            log.info("caches are filled", controller=loop.name, namespaces=self.namespace or "all", **known)
            late = [informer for informer in self._extras if not informer.store.is_synced]
            self.watch(loop)
            for informer in late:
                group.create_task(_look_again_with(informer, loop))

    async def _catch_up(self, turn: Turn | None) -> None:
        for informer in self._needed:
            await informer.synced()
        for informer in self._extras:
            await informer.tried()
        if turn is not None:
            version = await turn()
            await asyncio.gather(*(informer.reach(version) for informer in self._needed))

    def _emit(self, cluster: RayCluster, events: Iterable[EmitEvent]) -> None:
        for event in events:
            regarding = Regarding.of(cluster, RAY_CLUSTERS)
            if event.is_about_namespace:
                regarding = Regarding("v1", "Namespace", "", cluster.namespace, "")
            self._recorder.event(regarding, event.type, event.reason, event.action, event.note)


async def _look_again_with(late: Informer[Any], loop: Controller[Key]) -> None:
    """Have everything looked at once more when something is known that was done without."""
    await late.synced()
    loop.look_again()


class Crew:
    """The controllers of one name, each in a namespace of its own, and the workers that they share.

    One queue serves them all: no more clusters are worked on at a time than somebody has allowed, however many
    namespaces there are. A namespace whose caches cannot be filled holds up no other, for nothing of it comes up.

    :param name: in metrics and in the log.
    :param metrics: where to count what happens.
    """

    def __init__(
        self, name: str, controllers: Sequence[RayController], *, workers: int, metrics: Metrics | None = None
    ) -> None:
        self._controllers = {each.namespace: each for each in controllers}
        self._loop: Controller[Key] = Controller(
            name,
            Queue(metrics=QueueMetrics(metrics, name) if metrics else None),
            self._reconcile,
            workers=workers,
            metrics=ControllerMetrics(metrics, name, workers) if metrics else None,
        )

    @property
    def is_synced(self) -> bool:
        """Whether everything there was at the start is known."""
        return all(each.is_synced for each in self._controllers.values())

    @property
    def problems(self) -> list[str]:
        """What keeps the caches from following the server, if anything."""
        return [problem for each in self._controllers.values() for problem in each.problems]

    async def run(self, stop: asyncio.Event, *, turn: Turn | None = None) -> None:
        """Work until told to stop; then finish what is under way.

        :param turn: waits until this process may write, and tells what version it must know of before it does: what
            others did until then. Without it the turn has come; caches are filled meanwhile, so that a standby is warm.
        """
        async with asyncio.TaskGroup() as group:
            following = [group.create_task(each.follow(self._loop, turn)) for each in self._controllers.values()]
            working = group.create_task(self._loop.run())
            await stop.wait()
            self._loop.stop()
            await working
            for task in following:
                task.cancel()

    async def _reconcile(self, key: Key) -> Result | None:
        everywhere = self._controllers.get(None)
        return await (everywhere or self._controllers[key.namespace]).reconcile(key)
