"""Keeps a store in step with the server: list once, then follow the watch, for ever.

A watch that breaks is taken up at the last version seen, so nothing is lost and nothing is listed again. Only when the
server has forgotten that version (410) is everything listed anew; the store then finds what has gone meanwhile. No
failure ends an informer: it says what is wrong, waits a little longer each time, and goes on.
"""

from __future__ import annotations

import asyncio
import random
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import structlog

from kuberay.kube.decoding import Bookmark, EventType, Unreadable
from kuberay.kube.errors import ApiError, DecodeError, Expired, Forbidden, KubeError, NotFound, Timeout, TransportError
from kuberay.kube.identity import Key
from kuberay.kube.watch import SilentWatch

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from kuberay.kube.client import Client
    from kuberay.kube.decoding import Event
    from kuberay.kube.resources import Resource
    from kuberay.kube.selectors import FieldSelector, LabelSelector
    from kuberay.kube.store import Store

T = TypeVar("T")

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Timing:
    """How patient an informer is, in seconds."""

    first_wait: float = 0.8
    longest_wait: float = 30.0
    healthy_after: float = 120.0
    """Without failure for so long, the next failure is the first again."""
    silence: float = 70.0
    """Servers send a bookmark about every minute; without a byte for longer, the connection counts as dead."""
    shortest_watch: float = 300.0
    """The server is asked to end a watch after this, or up to twice as long: many clients do not return at once."""


class Informer(Generic[T]):
    """Follows the objects of one kind into a store.

    :param type: what to decode into: see `kube.decoding`. Without it, dicts are stored.
    :param namespace: only this one; `None` for all.
    :param page_size: how many objects to ask for at a time when listing.
    """

    def __init__(
        self,
        client: Client,
        resource: Resource,
        store: Store[T],
        *,
        type: type[T] | None = None,
        namespace: str | None = None,
        labels: str | LabelSelector | None = None,
        fields: str | FieldSelector | None = None,
        page_size: int = 500,
        timing: Timing | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        rng: Callable[[], float] = random.random,
    ) -> None:
        self.resource = resource
        self.store = store
        self.problem: str | None = None
        """What keeps it from following the server at the moment, for who asks after its health."""
        self._client = client
        self._type = type
        self._selection: dict[str, Any] = {"namespace": namespace, "labels": labels, "fields": fields}
        self._where = f"in namespace {namespace}" if namespace else "in all namespaces"
        self._page_size = page_size
        self._timing = timing or Timing()
        self._clock = clock
        self._sleep = sleep
        self._rng = rng
        self._synced = asyncio.Event()
        self._failures = 0
        self._failed_at = float("-inf")
        self._unreadable_at: str | None = None
        self._log = log.bind(resource=resource.name)

    async def synced(self) -> None:
        """Wait until a first list is in the store."""
        await self._synced.wait()

    async def run(self) -> None:
        """Follow the server until cancelled."""
        must_list = True
        while True:
            verb = "list" if must_list else "watch"
            try:
                if must_list:
                    await self._list()
                    must_list = False
                else:
                    await self._follow()
                self.problem = None
            except SilentWatch as silent:
                self._log.debug("watch is taken up again", why=str(silent))
            except KubeError as error:
                must_list = must_list or self._must_list_after(error)
                await self._back_off(verb, error)

    async def _list(self) -> None:
        try:
            await self._list_pages(self._page_size)
        except Expired:
            # The pages outlived the server's history; all at once cannot.
            await self._list_pages(None)
        self._synced.set()

    async def _list_pages(self, size: int | None) -> None:
        items: list[T] = []
        unreadable: list[Key] = []
        continue_: str | None = None
        while True:
            page = await self._client.list(
                self.resource,
                **self._selection,
                limit=size,
                continue_=continue_,
                type=self._type,
                skip_unreadable=True,
            )
            items += page.items
            for each in page.unreadable:
                self._log_unreadable(each)
                unreadable.append(Key(each.namespace, each.name))
            if not page.continue_:
                break
            continue_ = page.continue_
        self.store.replaced(items, page.resource_version, keep=unreadable)

    async def _follow(self) -> None:
        """One watch, from the last version seen until the server ends it."""
        began = self._clock()
        came = 0
        seconds = int(self._timing.shortest_watch * (1 + self._rng()))
        async with self._client.watch(
            self.resource,
            **self._selection,
            resource_version=self.store.resource_version,
            timeout_seconds=seconds,
            idle_timeout=self._timing.silence,
            type=self._type,
        ) as watch:
            self.problem = None
            async for batch in watch.batches():
                came += len(batch)
                for event in batch:
                    self._apply(event)
                await asyncio.sleep(0)  # a flood of events must not keep others from running
        if not came and self._clock() - began < 1.0:
            raise TransportError("the server ended the watch at once")

    def _apply(self, event: Event[T] | Bookmark | Unreadable) -> None:
        if isinstance(event, Bookmark):
            self.store.passed(event.resource_version)
        elif isinstance(event, Unreadable):
            self._log_unreadable(event)
            last = self.store.get(event.namespace, event.name)
            if event.type is EventType.DELETED and last is not None:
                self.store.removed(last)
            self.store.passed(event.resource_version)
        elif event.type is EventType.DELETED:
            self.store.removed(event.object)
        else:
            self.store.applied(event.object)

    def _must_list_after(self, error: KubeError) -> bool:
        """Whether taking up the watch again is hopeless."""
        if isinstance(error, Expired):
            return True
        if isinstance(error, Timeout):
            # The server has not come as far as we have: its history may have been put back.
            details = error.status.details
            return details is not None and any(cause.reason == "ResourceVersionTooLarge" for cause in details.causes)
        if isinstance(error, DecodeError):
            # Once may be an accident on the way; twice at the same place is what the server has to say.
            again = self._unreadable_at == self.store.resource_version
            self._unreadable_at = self.store.resource_version
            return again
        return False

    async def _back_off(self, verb: str, error: KubeError) -> None:
        now = self._clock()
        if now - self._failed_at > self._timing.healthy_after:
            self._failures = 0
        self._failed_at = now
        wait = min(self._timing.longest_wait, self._timing.first_wait * 2.0 ** min(self._failures, 16))
        wait *= 0.5 + 0.5 * self._rng()
        if isinstance(error, Expired) and not self._failures:
            wait = 0.0  # what the server has forgotten is listed at once; waiting would only make it older
        self._failures += 1
        self.problem = self._explain(verb, error)
        self._log.warning(self.problem, retry_in_seconds=round(wait, 3))
        await self._sleep(wait)

    def _explain(self, verb: str, error: KubeError) -> str:
        what = f"{verb} {self.resource.name} {self._where}"
        if isinstance(error, Forbidden):
            return f"not allowed to {what}: the account needs the verb {verb!r} on it; the server says: {error}"
        if isinstance(error, NotFound):
            return f"cannot {what}: the server does not know this kind; is its CustomResourceDefinition installed?"
        if isinstance(error, ApiError):
            return f"cannot {what}: the server says {error.status.code} {error.status.reason}: {error}"
        return f"cannot {what}: {error}"

    def _log_unreadable(self, each: Unreadable) -> None:
        self._log.error(
            "an object cannot be read and is left as it was last seen",
            object=str(Key(each.namespace, each.name)),
            error=each.why,
        )
