"""Objects of one kind in memory: what the watch has shown, and on top of it what we wrote ourselves.

A cache lags behind its server. Without care, a controller that has just made a Pod does not see it, and makes another.
So the answer of every write is laid over the cache at once, and taken away when the watch has passed its
resourceVersion and knows better. A deleted object is hidden until an event tells that it is leaving or gone.

One event loop, no locks: every call is complete before the next begins. What is handed out is shared, and not to be
changed.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

import structlog

from kuberay.kube.identity import Key, identity, version_of, version_order
from kuberay.kube.interning import Interner

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

T = TypeVar("T")

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class _Write(Generic[T]):
    """One unconfirmed write of ours, and what the watch shows beneath it."""

    obj: T
    uid: str
    version: tuple[int, str]
    deleted: bool
    beneath: T | None

    def is_refuted_by(self, shown: T) -> bool:
        """Whether the watch shows that a deleted object is leaving, or that another has come after it.

        Not one that came before it under the same name: that one is gone, too, and the watch has yet to say so.
        """
        _, uid, resource_version, leaving = identity(shown)
        if not self.deleted:
            return False
        return leaving if uid == self.uid else version_order(resource_version) > self.version


class Store(Generic[T]):
    """The objects of one kind, by key and by index.

    :param indexes: named functions from an object to the values under which `by` finds it.
    """

    def __init__(self, indexes: Mapping[str, Callable[[T], Iterable[str]]] | None = None) -> None:
        self._objects: dict[Key, T] = {}
        self._writes: dict[Key, _Write[T]] = {}
        self._by_version: list[tuple[tuple[int, str], Key]] = []
        self._index_functions = dict(indexes or {})
        # Dicts in place of sets: their order is that of insertion, the same in every run.
        self._indexes: dict[str, dict[str, dict[Key, None]]] = {name: {} for name in self._index_functions}
        self._handlers: list[Callable[[T | None, T | None], None]] = []
        self.interner = Interner()
        """What its objects have in common; for whoever holds many of them before they are stored."""
        self.resource_version = ""
        """The newest version that the watch has shown; empty before the first list."""

    # Reading.

    def get(self, namespace: str, name: str) -> T | None:
        """The object of this name; an empty namespace for objects that have none."""
        return self._objects.get(Key(namespace, name))

    def by(self, index: str, value: str) -> list[T]:
        """The objects under a value of an index, oldest arrival first."""
        return [self._objects[key] for key in self._indexes[index].get(value, ())]

    def keys(self) -> Iterator[Key]:
        """The keys of all objects. The store must not change meanwhile."""
        return iter(self._objects)

    def __iter__(self) -> Iterator[T]:
        return iter(self._objects.values())

    def __len__(self) -> int:
        return len(self._objects)

    def __contains__(self, key: tuple[str, str]) -> bool:
        return key in self._objects

    @property
    def is_synced(self) -> bool:
        """Whether a whole list has arrived. False while the handlers run for the first one."""
        return self.resource_version != ""

    def has_passed(self, resource_version: str) -> bool:
        """Whether the watch has shown everything up to this version."""
        return self.is_synced and version_order(self.resource_version) >= version_order(resource_version)

    def written(self, key: Key, resource_version: str) -> T | None:
        """The object in this very state, if it is we who wrote it and the watch has not confirmed that yet."""
        write = self._writes.get(key)
        is_known = write is not None and not write.deleted and write.version == version_order(resource_version)
        return write.obj if write is not None and is_known else None

    @property
    def unconfirmed(self) -> int:
        """How many writes of ours the watch has not shown yet."""
        return len(self._writes)

    def on_change(self, handler: Callable[[T | None, T | None], None]) -> None:
        """Call the handler with (old, new) at every change; no old is an arrival, no new a departure.

        It is called for what the watch shows and for our own writes alike, once for each state, and must not block. A
        handler that raises is logged; the others are still called.
        """
        self._handlers.append(handler)

    # What we wrote.

    def wrote(self, obj: T) -> None:
        """Lay the answer of a create, patch or replace over the cache."""
        key, uid, resource_version, _ = identity(obj)
        if self.has_passed(resource_version):
            return  # the watch was faster than the answer, and has shown this state or what came of it
        version = version_order(resource_version)
        earlier = self._writes.get(key)
        if earlier is not None:
            if version <= earlier.version or (earlier.deleted and earlier.uid == uid):
                return  # answers may arrive out of order
            earlier.obj, earlier.uid, earlier.version, earlier.deleted = obj, uid, version, False
        else:
            self._writes[key] = _Write(obj, uid, version, False, self._objects.get(key))
        heapq.heappush(self._by_version, (version, key))
        self._set(key, obj)

    def deleted(self, obj: T) -> None:
        """Hide an object whose deletion the server has granted, until an event says that it is leaving or gone.

        When the server's answer shows the object with a deletion time, `wrote` that answer instead: it is still there.
        """
        key, uid, told, _ = identity(obj)
        current = self._objects.get(key)
        if current is None or identity(current).uid != uid or identity(current).leaving:
            return  # the watch was faster, or there is nothing to hide
        version = max(version_order(told), version_order(identity(current).resource_version))
        earlier = self._writes.get(key)
        beneath = earlier.beneath if earlier is not None else current
        self._writes[key] = _Write(current, uid, version, True, beneath)
        heapq.heappush(self._by_version, (version, key))
        self._set(key, None)

    # What the watch shows. Called by the informer.

    def applied(self, obj: T) -> None:
        """An object was added or modified."""
        key, _, resource_version, _ = identity(obj)
        if self._is_late(resource_version):
            return
        write = self._writes.get(key)
        if write is None:
            self._set(key, obj)
        else:
            write.beneath = obj
            if write.is_refuted_by(obj):
                self._confirm(key)
        self._pass(resource_version)

    def removed(self, obj: T, resource_version: str = "") -> None:
        """An object is gone, or selected no more: this very one, not another that has its name by now.

        :param resource_version: since when, if the object does not tell.
        """
        key, uid, told, _ = identity(obj)
        since = resource_version or told
        if self._is_late(since):
            return  # it may have come back
        write = self._writes.get(key)
        shown = self._objects.get(key) if write is None else write.beneath
        if shown is not None and identity(shown).uid == uid:
            if write is None:
                self._set(key, None)
            else:
                write.beneath = None
        if write is not None and write.uid == uid and write.version <= version_order(since):
            self._confirm(key)
        self._pass(since)

    def passed(self, resource_version: str) -> None:
        """The watch has shown everything up to this version (an event or a bookmark)."""
        if not self._is_late(resource_version):
            self._pass(resource_version)

    def replaced(self, objects: Iterable[T], resource_version: str, *, keep: Iterable[Key] = ()) -> None:
        """A whole list has arrived. Handlers learn of every difference, departures included.

        :param keep: keys of objects that are there but could not be read: their last readable state stays.
        """
        rewound = version_order(resource_version) < version_order(self.resource_version)
        if rewound:
            # The server's history was put back: what we wrote to the other one may never be passed.
            for key in list(self._writes):
                self._confirm(key)
        arrived = {identity(obj).key: obj for obj in objects}
        kept = set(keep)
        for key in [key for key in self._objects if key not in arrived and key not in kept and key not in self._writes]:
            self._set(key, None)
        for key, obj in arrived.items():
            if key not in self._writes:
                self._set(key, obj)
        for key, write in list(self._writes.items()):
            if key not in kept:
                write.beneath = arrived.get(key)
            is_gone = write.deleted and write.beneath is None and write.version <= version_order(resource_version)
            if is_gone or (write.beneath is not None and write.is_refuted_by(write.beneath)):
                self._confirm(key)
        self.resource_version = resource_version
        self._confirm_until(version_order(resource_version))

    # How it is kept.

    def _is_late(self, resource_version: str) -> bool:
        return version_order(resource_version) < version_order(self.resource_version)

    def _pass(self, resource_version: str) -> None:
        self.resource_version = resource_version
        if self._by_version:
            self._confirm_until(version_order(resource_version))

    def _confirm_until(self, version: tuple[int, str]) -> None:
        """Take away the writes up to a version: their events have come, or never will because nobody selected them."""
        while self._by_version and self._by_version[0][0] <= version:
            at, key = heapq.heappop(self._by_version)
            write = self._writes.get(key)
            if write is None or write.version != at:
                continue
            if not write.deleted or write.beneath is None:
                self._confirm(key)

    def _confirm(self, key: Key) -> None:
        self._set(key, self._writes.pop(key).beneath)

    def _set(self, key: Key, new: T | None) -> None:
        old = self._objects.get(key)
        if old is new or (old is not None and new is not None and _is_same_state(old, new)):
            return
        if new is None:
            del self._objects[key]
        else:
            self.interner.intern(new, old)
            self._objects[key] = new
        for name, of in self._index_functions.items():
            self._reindex(self._indexes[name], key, () if old is None else of(old), () if new is None else of(new))
        for handler in self._handlers:
            try:
                handler(old, new)
            except Exception:
                log.exception("a handler of changes failed", object=str(key))

    @staticmethod
    def _reindex(index: dict[str, dict[Key, None]], key: Key, before: Iterable[str], after: Iterable[str]) -> None:
        before, after = tuple(before), tuple(after)
        if before == after:
            return
        for value in before:
            if value not in after and (keys := index.get(value)) is not None:
                keys.pop(key, None)
                if not keys:
                    del index[value]
        for value in after:
            index.setdefault(value, {})[key] = None


def _is_same_state(old: object, new: object) -> bool:
    version = version_of(new)
    return version != "" and version_of(old) == version and identity(old).uid == identity(new).uid
