"""The loop of a controller: take a key, reconcile it, decide when to look again.

Reconciling is level-based: it gets a key and never learns what happened, so a lost or doubled event costs nothing. A
failure concerns its key alone: it is logged with the id of the attempt, and the key comes back later. Every ten hours
everything is looked at without a reason, so that what nobody was told of is found in the end.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import structlog

from kuberay.kube.errors import KubeError
from kuberay.kube.identity import Key, identity
from kuberay.kube.queue import LOW, NORMAL, Queue, QueueClosed

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator

    from kuberay.kube.metrics import ControllerMetrics
    from kuberay.kube.store import Store

T = TypeVar("T")
K = TypeVar("K")

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Result:
    """What a reconcile answers. Looking again later is no failure."""

    requeue_after: float | None = None
    """Seconds until the next look; `None` waits for something to happen."""
    priority: int | None = None
    """Of the next look; `None` keeps that of this one."""


class TerminalError(Exception):
    """A failure that trying again cannot mend; only a change of the object can."""


class Controller(Generic[K]):
    """Reconciles keys of a queue with a bounded number of workers; a key is never with two of them.

    :param timeout: seconds after which a reconcile counts as failed; `None` for no limit.
    :param drain: seconds that reconciles under way may still take after `stop`.
    :param resync: seconds after which all that is watched is looked at again, give or take a tenth; `None` for never.
    :param metrics: where to count what comes of reconciles.
    """

    def __init__(
        self,
        name: str,
        queue: Queue[K],
        reconcile: Callable[[K], Awaitable[Result | None]],
        *,
        workers: int = 1,
        timeout: float | None = None,
        drain: float = 30.0,
        resync: float | None = 36_000.0,
        metrics: ControllerMetrics | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        rng: Callable[[], float] = random.random,
    ) -> None:
        if workers < 1:
            raise ValueError(f"controller {name} needs at least one worker")
        self.name = name
        self.queue = queue
        self._reconcile = reconcile
        self._workers = workers
        self._timeout = timeout
        self._drain = drain
        self._resync = resync
        self._metrics = metrics
        self._clock = clock
        self._sleep = sleep
        self._rng = rng
        self._watched: list[Callable[[], Iterator[K]]] = []
        self._ids = _attempt_ids(rng)
        self._stopping = asyncio.Event()

    async def run(self) -> None:
        """Work until `stop`; then let what is under way finish, and return."""
        async with asyncio.TaskGroup() as group:
            workers = [group.create_task(self._work(), name=f"{self.name}-{n}") for n in range(self._workers)]
            resyncing = group.create_task(self._keep_looking(), name=f"{self.name}-resync")
            await self._stopping.wait()
            resyncing.cancel()
            _, late = await asyncio.wait(workers, timeout=self._drain)
            for worker in late:
                log.warning("a reconcile did not end in time and is cancelled", controller=self.name)
                worker.cancel()

    def stop(self) -> None:
        """Begin no more reconciles."""
        self.queue.close()
        self._stopping.set()

    def watches(
        self,
        store: Store[T],
        keys: Callable[[T], Iterable[K]],
        *,
        when: Callable[[T | None, T | None], bool] | None = None,
        after: float = 0.0,
    ) -> None:
        """Look at keys whenever an object of a store changes: at those of its old state and of its new one.

        What is in the store already is looked at too: nobody was told of it.

        :param when: a predicate on (old, new); without it every change counts.
        :param after: seconds to wait, so that changes which come together are looked at together.
        """
        keeps_its_keys = keys is itself

        def enqueue(old: T | None, new: T | None) -> None:
            if when is not None and not when(old, new):
                return
            priority = NORMAL if store.is_synced else LOW
            found = tuple(keys(new)) if new is not None else ()
            for key in found:
                self.queue.add(key, after=after, priority=priority)
            if old is not None and (new is None or not keeps_its_keys):
                for key in keys(old):
                    if key not in found:
                        self.queue.add(key, after=after, priority=priority)

        def all_keys() -> Iterator[K]:
            return (key for obj in store for key in keys(obj))

        store.on_change(enqueue)
        self._watched.append(all_keys)
        self._add(all_keys())

    def look_again(self) -> None:
        """Look at all that is watched, without a reason that a key could tell."""
        for watched in self._watched:
            self._add(watched())

    def _add(self, keys: Iterable[K]) -> None:
        for key in keys:
            self.queue.add(key, priority=LOW)

    async def _keep_looking(self) -> None:
        while self._resync is not None:
            await self._sleep(self._resync * (0.9 + 0.2 * self._rng()))
            self.look_again()

    async def _work(self) -> None:
        # A worker is a task, and a task has a context of its own: nothing need be unbound again.
        structlog.contextvars.bind_contextvars(controller=self.name)
        while True:
            try:
                key = await self.queue.get()
            except QueueClosed:
                return
            try:
                structlog.contextvars.bind_contextvars(object=str(key), reconcile_id=next(self._ids))
                await self._measured(key)
            finally:
                self.queue.done(key)

    async def _measured(self, key: K) -> None:
        if self._metrics is None:
            await self._attempt(key)
            return
        began = self._clock()
        with self._metrics.active.track_inprogress():
            await self._attempt(key)
        self._metrics.took(self._clock() - began)

    async def _attempt(self, key: K) -> None:
        try:
            if self._timeout is None:
                result = await self._reconcile(key)
            else:
                async with asyncio.timeout(self._timeout):
                    result = await self._reconcile(key)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            # Not ours: something that the reconcile waited for was cancelled. The worker must live on.
            self._failed(key, "something it waited for was cancelled")
        except TerminalError as error:
            self.queue.forget(key)
            if self._metrics is not None:
                self._metrics.failed(terminal=True)
            log.error("reconcile failed for good", error=str(error))
        except TimeoutError as error:
            self._failed(key, str(error) or f"not done after {self._timeout} s")
        except KubeError as error:
            self._failed(key, f"{type(error).__name__}: {error}")
        except Exception as error:
            self._failed(key, f"{type(error).__name__}: {error}", trace=True)
        else:
            self.queue.forget(key)
            after = result.requeue_after if result is not None else None
            if after is not None:
                asked = result.priority if result is not None else None
                self.queue.add(key, after=after, priority=self.queue.priority(key) if asked is None else asked)
            if self._metrics is not None:
                self._metrics.succeeded(again=after is not None)

    def _failed(self, key: K, why: str, *, trace: bool = False) -> None:
        delay = self.queue.retry(key)
        if self._metrics is not None:
            self._metrics.failed(panic=trace)
        log.error("reconcile failed", error=why, retry_in_seconds=delay, exc_info=trace)


def _attempt_ids(rng: Callable[[], float]) -> Iterator[str]:
    """Names for attempts that no other process or controller uses.

    They look like UUIDs, as those of controller-runtime do; drawn is only their beginning, for counting is cheaper.
    """
    drawn = (f"{int(rng() * 16**digits):0{digits}x}" for digits in (8, 4, 3, 3))
    process = "{}-{}-4{}-8{}".format(*drawn)
    return (f"{process}-{number:012x}" for number in itertools.count(1))


def itself(obj: Any) -> Iterable[Key]:
    """The key of the object; for the kind that a controller is for."""
    return (identity(obj).key,)


def owner(kind: str, api_group: str) -> Callable[[Any], Iterable[Key]]:
    """The key of the controlling owner, when it is of this kind; for the kinds that a controller makes."""

    def keys(obj: Any) -> Iterable[Key]:
        return [
            Key(identity(obj).key.namespace, name)
            for is_controller, of_kind, api_version, name in _owners(obj)
            if is_controller and of_kind == kind and _group(api_version) == api_group
        ]

    return keys


def _owners(obj: Any) -> list[tuple[bool | None, str | None, str, str]]:
    if isinstance(obj, dict):
        return [
            (each.get("controller"), each.get("kind"), each.get("apiVersion") or "", each.get("name") or "")
            for each in (obj.get("metadata") or {}).get("ownerReferences") or ()
        ]
    return [
        (each.controller, each.kind, each.api_version or "", each.name or "") for each in obj.metadata.owner_references
    ]


def _group(api_version: str) -> str:
    group, slash, _ = api_version.partition("/")
    return group if slash else ""
