"""Keeps a store in step with the server: list once, then follow the watch, for ever.

A watch that breaks is taken up at the last version seen, so nothing is lost and nothing is listed again. Only when the
server has forgotten that version (410), or fails at it time and again, is everything listed anew, at least as new as
what is known: a replica of the server that lags behind cannot turn time back. The store then finds what has gone
meanwhile. No failure ends an informer: it says what is wrong, waits a little longer each time, and goes on.

Where the server offers it, the list is streamed at the head of the watch, so that thousands of objects are never held
as text. A server that does not is asked for pages, by all informers of the same client.
"""

from __future__ import annotations

import asyncio
import random
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import structlog

from kuberay.kube.decoding import Bookmark, EventType, Unreadable
from kuberay.kube.errors import (
    ApiError,
    BadRequest,
    DecodeError,
    Expired,
    Forbidden,
    Invalid,
    KubeError,
    MethodNotAllowed,
    NotFound,
    Timeout,
    TooManyRequests,
    TransportError,
    Unauthorized,
    UnsupportedMediaType,
)
from kuberay.kube.identity import Key, identity, version_order
from kuberay.kube.watch import SilentWatch

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable

    from kuberay.kube.client import Client
    from kuberay.kube.decoding import Event, Page
    from kuberay.kube.resources import Resource
    from kuberay.kube.selectors import FieldSelector, LabelSelector
    from kuberay.kube.store import Store

T = TypeVar("T")

log = structlog.get_logger(__name__)

# How servers, old and new, say that they do not stream lists.
_NO_STREAMED_LISTS = (BadRequest, MethodNotAllowed, UnsupportedMediaType, Invalid)

# Refusals of a watch that a list would meet as well.
_NO_BETTER_LISTED = (Unauthorized, Forbidden, TooManyRequests)


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
    list_silence: float = 10.0
    """A streamed list that falls silent for so long before its end comes from a server that will never end it."""
    reach: float = 1.0
    """How long `reach` trusts the watch to get there by itself."""
    long_reach: float = 5.0
    """After so long, `reach` says that somebody waits."""


class Informer(Generic[T]):
    """Follows the objects of one kind into a store.

    :param type: what to decode into: see `kube.decoding`. Without it, dicts are stored.
    :param namespace: only this one; `None` for all.
    :param shard: only a part of them, by hash (a `shardSelector`), for several processes that share the work.
    :param page_size: how many objects to ask for at a time when listing.
    :param concerns: which objects to keep, where no selector can say it: the others cost their way here and no memory.
    :param on_unreadable: told of each object that cannot be decoded, beside the log.
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
        shard: str | None = None,
        page_size: int = 500,
        timing: Timing | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        rng: Callable[[], float] = random.random,
        concerns: Callable[[T], bool] = lambda _: True,
        on_unreadable: Callable[[Unreadable], None] | None = None,
    ) -> None:
        self.resource = resource
        self._on_unreadable = on_unreadable
        self._concerns = concerns
        self.store = store
        self.problem: str | None = None
        """What keeps it from following the server at the moment, for who asks after its health."""
        self._client = client
        self._type = type
        self._selection: dict[str, Any] = {
            "namespace": namespace,
            "labels": labels,
            "fields": fields,
            "shard": shard,
        }
        self._where = f"in namespace {namespace}" if namespace else "in all namespaces"
        self._page_size = page_size
        self._timing = timing or Timing()
        self._clock = clock
        self._sleep = sleep
        self._rng = rng
        self._tried = asyncio.Event()
        self._synced = asyncio.Event()
        self._must_list = True
        self._least: str | None = None
        """How new the next list must be at least; `None` for what is newest, which costs the server more."""
        self._prefers_pages = False
        self._failures = 0
        self._failed_at = float("-inf")
        self._stuck_at: str | None = None
        self._reaching: list[tuple[tuple[int, str], asyncio.Event]] = []
        self._log = log.bind(resource=resource.name)

    async def synced(self) -> None:
        """Wait until a first list is in the store."""
        await self._synced.wait()

    async def tried(self) -> None:
        """Wait until a first list is in the store or could not be had; for who can do without."""
        await self._tried.wait()

    async def reach(self, resource_version: str) -> None:
        """Wait until the store shows everything up to a version: by the watch, or else by a list of its own.

        A quiet kind has no events, and a bookmark comes once a minute; who must know now is worth a list. What such a
        list shows is new enough whatever its version says: a version of another kind may come from another etcd, and
        then the two do not compare.
        """
        await self.synced()
        patience = asyncio.get_running_loop().call_later(self._timing.long_reach, self._log_long_reach)
        try:
            while not self.store.has_passed(resource_version):
                if await self._comes_by(resource_version) or await self._list_beside():
                    return
        finally:
            patience.cancel()

    async def _comes_by(self, resource_version: str) -> bool:
        """Whether the watch gets to a version by itself, before long."""
        passed = asyncio.Event()
        entry = (version_order(resource_version), passed)
        self._reaching.append(entry)
        try:
            async with asyncio.timeout(self._timing.reach):
                return await passed.wait()
        except TimeoutError:
            return False
        finally:
            self._reaching.remove(entry)

    def _log_long_reach(self) -> None:
        self._log.warning("work waits for news of this kind", seconds=self._timing.long_reach, problem=self.problem)

    async def run(self) -> None:
        """Follow the server until cancelled."""
        while True:
            by_pages = self._must_list and (self._prefers_pages or not self._client.streamed_lists)
            is_streaming = self._must_list and not by_pages
            try:
                await (self._list() if by_pages else self._follow())
                self.problem = None
            except SilentWatch as silent:
                if is_streaming and self._must_list:
                    self._give_up_streaming(silent)
                self._log.debug("watch is taken up again", why=str(silent))
            except KubeError as error:
                if is_streaming and self._must_list:
                    if isinstance(error, ApiError):
                        self._prefers_pages = True
                    if isinstance(error, _NO_STREAMED_LISTS):
                        self._give_up_streaming(error)
                    if isinstance(error, (*_NO_STREAMED_LISTS, Forbidden)):
                        continue  # pages tell which right is missing: the one to list or the one to watch
                verb = "list" if self._must_list else "watch"
                if self._must_list and _is_out_of_reach(error):
                    self._least = None
                elif not self._must_list and self._must_list_after(error):
                    self._must_list = True
                    self._least = None if _is_ahead(error) else self.store.resource_version
                await self._back_off(verb, error)

    def _give_up_streaming(self, why: Exception) -> None:
        if self._client.streamed_lists:
            self._client.streamed_lists = False
            self._log.info("the server does not stream lists; asking for pages from now on", why=str(why))

    def _replace(self, items: Iterable[T], resource_version: str, unreadable: Iterable[Key], *, known: str) -> None:
        """Put a list in place, unless something newer has come meanwhile.

        :param known: up to where the store was when the list was asked for. Only one that is older than that tells of
            a history that was put back.
        """
        if version_order(known) <= version_order(resource_version) < version_order(self.store.resource_version):
            return
        self.store.replaced(items, resource_version, keep=unreadable)
        self._must_list = False
        self._prefers_pages = False
        self._synced.set()
        self._tried.set()
        self._tell_who_waits()

    async def _list(self) -> None:
        known = self.store.resource_version
        self._replace(*await self._listed(self._least), known=known)

    async def _list_beside(self) -> bool:
        """List while the watch goes on: what the watch then shows of an earlier time is late, and the store knows.

        Tells whether there was a list to be had.
        """
        known = self.store.resource_version
        try:
            self._replace(*await self._listed(None), known=known)
        except KubeError as error:
            self._log.warning(self._explain("list", error))
            return False
        return True

    async def _listed(self, least: str | None) -> tuple[list[T], str, list[Key]]:
        try:
            return await self._pages(self._page_size, least)
        except ApiError as error:
            if not _is_out_of_reach(error):
                raise
            # The pages, or what we know, outlived the server's history; all at once, and what is newest, cannot.
            return await self._pages(None, None)

    async def _pages(self, size: int | None, least: str | None) -> tuple[list[T], str, list[Key]]:
        items: list[T] = []
        unreadable: list[Key] = []
        continue_: str | None = None
        while True:
            page: Page[T] = await self._client.list(
                self.resource,
                **self._selection,
                limit=size,
                continue_=continue_,
                not_older_than=least,
                type=self._type,
                skip_unreadable=True,
            )
            for obj in filter(self._concerns, page.items):
                self.store.interner.intern(obj)
                items.append(obj)
            for each in page.unreadable:
                self._log_unreadable(each)
                unreadable.append(Key(each.namespace, each.name))
            if not page.continue_:
                return items, page.resource_version, unreadable
            continue_ = page.continue_

    async def _follow(self) -> None:
        """One watch, from the last version seen, or from a streamed list, until the server ends it."""
        began = self._clock()
        came = 0
        seconds = int(self._timing.shortest_watch * (1 + self._rng()))
        starts_with_list = self._must_list
        known = self.store.resource_version
        async with self._client.watch(
            self.resource,
            **self._selection,
            resource_version=self._least if starts_with_list else known,
            timeout_seconds=seconds,
            send_initial_events=starts_with_list,
            idle_timeout=self._timing.list_silence if starts_with_list else self._timing.silence,
            known=self.store.written,
            type=self._type,
        ) as watch:
            batches = watch.batches()
            if starts_with_list:
                self._prefers_pages = True  # until it has worked: getting on is better than insisting
                await self._take_list(batches, known)
                watch.idle_timeout = self._timing.silence
            self.problem = None
            async for batch in batches:
                came += len(batch)
                for event in batch:
                    self._apply(event)
                if self._reaching:
                    self._tell_who_waits()
                await asyncio.sleep(0)  # a flood of events must not keep others from running
        if not came and self._clock() - began < 1.0:
            raise TransportError("the server ended the watch at once")

    async def _take_list(self, batches: AsyncIterator[list[Event[T] | Bookmark | Unreadable]], known: str) -> None:
        """The list at the head of a watch: kept aside until its end, then put in place at once."""
        items: dict[Key, T] = {}
        unreadable: dict[Key, None] = {}
        async for batch in batches:
            for number, event in enumerate(batch):
                if isinstance(event, Bookmark):
                    if event.initial_events_end:
                        self._replace(items.values(), event.resource_version, unreadable, known=known)
                        for later in batch[number + 1 :]:
                            self._apply(later)
                        return
                elif isinstance(event, Unreadable):
                    self._log_unreadable(event)
                    unreadable[Key(event.namespace, event.name)] = None
                elif event.type is EventType.DELETED or not self._concerns(event.object):
                    items.pop(identity(event.object).key, None)
                else:
                    self.store.interner.intern(event.object)
                    items[identity(event.object).key] = event.object
            await asyncio.sleep(0)
        raise TransportError("the server ended the watch before the end of the list")

    def _tell_who_waits(self) -> None:
        reached = version_order(self.store.resource_version)
        for version, passed in self._reaching:
            if version <= reached:
                passed.set()

    def _apply(self, event: Event[T] | Bookmark | Unreadable) -> None:
        if isinstance(event, Bookmark):
            self.store.passed(event.resource_version)
        elif isinstance(event, Unreadable):
            self._log_unreadable(event)
            last = self.store.get(event.namespace, event.name)
            if event.type is EventType.DELETED and last is not None:
                self.store.removed(last, event.resource_version)
            self.store.passed(event.resource_version)
        elif event.type is EventType.DELETED or not self._concerns(event.object):
            self.store.removed(event.object)
        else:
            self.store.applied(event.object)

    def _must_list_after(self, error: KubeError) -> bool:
        """Whether taking up the watch again is hopeless."""
        if _is_out_of_reach(error):
            return True
        if not isinstance(error, (DecodeError, ApiError)) or isinstance(error, _NO_BETTER_LISTED):
            return False
        # Once may be an accident on the way; twice at the same place is what the server has to say.
        again = self._stuck_at == self.store.resource_version
        self._stuck_at = self.store.resource_version
        return again

    async def _back_off(self, verb: str, error: KubeError) -> None:
        now = self._clock()
        if now - self._failed_at > self._timing.healthy_after:
            self._failures = 0
        self._failed_at = now
        wait = min(self._timing.longest_wait, self._timing.first_wait * 2.0 ** min(self._failures, 16))
        wait *= 0.5 + 0.5 * self._rng()
        if isinstance(error, Expired) and not self._failures:
            wait = 0.0  # what the server has forgotten is listed at once; waiting would only make it older
        if isinstance(error, ApiError) and (details := error.status.details) is not None:
            wait = max(wait, min(self._timing.longest_wait, details.retry_after_seconds))
        self._failures += 1
        self.problem = self._explain(verb, error)
        self._tried.set()
        self._log.warning(self.problem, retry_in_seconds=round(wait, 3))
        await self._sleep(wait)

    def _explain(self, verb: str, error: KubeError) -> str:
        what = f"{verb} {self.resource.name} {self._where}"
        if isinstance(error, Forbidden):
            return f"not allowed to {what}: the account needs the verb {verb!r} on it; the server says: {error}"
        if isinstance(error, Unauthorized):
            return f"cannot {what}: the server does not take our credentials; are they expired? It says: {error}"
        if isinstance(error, NotFound):
            return f"cannot {what}: the server does not know this kind; is its CustomResourceDefinition installed?"
        if isinstance(error, ApiError):
            return f"cannot {what}: the server says {error.status.code} {error.status.reason}: {error}"
        if isinstance(error, DecodeError):
            return f"cannot {what}: {error}; is there an API server at this address?"
        return f"cannot {what}: {error}"

    def _log_unreadable(self, each: Unreadable) -> None:
        self._log.error(
            "an object cannot be read and is left as it was last seen",
            object=str(Key(each.namespace, each.name)),
            error=each.why,
        )
        if self._on_unreadable is not None:
            self._on_unreadable(each)


def _is_out_of_reach(error: KubeError) -> bool:
    """Whether the server cannot show the version that was asked for: it has forgotten it, or never had it."""
    return isinstance(error, Expired) or _is_ahead(error)


def _is_ahead(error: KubeError) -> bool:
    """Whether the server has not come as far as we have: its history may have been put back."""
    if not isinstance(error, Timeout) or error.status.details is None:
        return False
    return any(cause.reason == "ResourceVersionTooLarge" for cause in error.status.details.causes)
