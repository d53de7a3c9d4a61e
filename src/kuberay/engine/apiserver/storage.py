"""All objects of the API server, in memory, under one resourceVersion counter, with a history for watches.

`MemoryStorage` is the whole of it; `sqlite.SqliteStorage` adds durability and changes nothing else. Everything
that reads or changes objects is synchronous, so that a request sees one state from its first look to its last
write; only waiting for durability (`settle`) and for changes (`Cursor.next`) is asynchronous.

An object in here is shared by every reader: nobody changes one in place.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left, bisect_right, insort
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import orjson

from kuberay.kube.errors import Expired

if TYPE_CHECKING:
    from collections.abc import Sequence

Object = dict[str, Any]
"""A Kubernetes object as JSON."""

ChangeType = Literal["ADDED", "MODIFIED", "DELETED"]

HISTORY = 4096
"""How many changes of one table a watch may be behind before it has to list again."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One object at one version. `body` is its JSON, encoded once for every reader."""

    table: str
    namespace: str
    name: str
    version: int
    obj: Object
    body: bytes


@dataclass(frozen=True, slots=True)
class Change:
    """One step of history. A deletion's `entry` is the last state, at the version of the deletion."""

    type: ChangeType
    entry: Entry
    before: Entry | None

    @property
    def version(self) -> int:
        return self.entry.version


@dataclass(slots=True)
class _Table:
    """Objects of one resource, its keys in the order of lists, and its latest changes."""

    entries: dict[tuple[str, str], Entry] = field(default_factory=dict)
    keys: list[tuple[str, str]] = field(default_factory=list)
    changes: list[Change] = field(default_factory=list)
    forgotten: int = 0
    """Changes up to this version are no longer in `changes`."""
    waiting: list[asyncio.Future[None]] = field(default_factory=list)

    def insert(self, entry: Entry) -> None:
        key = (entry.namespace, entry.name)
        if key not in self.entries:
            insort(self.keys, key)
        self.entries[key] = entry

    def discard(self, entry: Entry) -> None:
        key = (entry.namespace, entry.name)
        del self.entries[key]
        del self.keys[bisect_left(self.keys, key)]


class MemoryStorage:
    """Objects by table, namespace and name. Cluster-scoped objects have the namespace `""`."""

    def __init__(self, *, history: int = HISTORY) -> None:
        self._tables: dict[str, _Table] = {}
        self._history = history
        self._version = 0
        self._first_version = 0

    @property
    def version(self) -> int:
        """The resourceVersion of the latest write."""
        return self._version

    @property
    def published(self) -> int:
        """The version up to which watchers have been told everything."""
        return self._version

    def get(self, table: str, namespace: str, name: str) -> Entry | None:
        """The object, or `None`."""
        return self._table(table).entries.get((namespace, name))

    def entries(self, table: str, namespace: str | None = None, *, at: int | None = None) -> list[Entry]:
        """Objects ordered by namespace and name; `at` gives them as they were at an earlier version.

        :raises Expired: `at` lies before the history.
        """
        kept = self._table(table)
        keys: Sequence[tuple[str, str]] = kept.keys
        if namespace is not None:
            keys = keys[bisect_left(keys, (namespace, "")) : bisect_left(keys, (namespace + "\0", ""))]
        if at is None or at >= self._version:
            return [kept.entries[key] for key in keys]
        past = {key: kept.entries[key] for key in keys}
        for change in reversed(self._changes_after(kept, at)):
            entry = change.entry
            if namespace is not None and entry.namespace != namespace:
                continue
            if change.before is None:
                past.pop((entry.namespace, entry.name), None)
            else:
                past[entry.namespace, entry.name] = change.before
        return [past[key] for key in sorted(past)]

    def put(self, table: str, namespace: str, name: str, obj: Object) -> Entry:
        """Store an object, new or changed; gives it the next resourceVersion. Takes over `obj`."""
        kept = self._table(table)
        before = kept.entries.get((namespace, name))
        entry = self._stamp(table, namespace, name, obj)
        kept.insert(entry)
        self._record(Change("MODIFIED" if before else "ADDED", entry, before))
        return entry

    def remove(self, table: str, namespace: str, name: str, last: Object | None = None) -> Entry:
        """Remove an object that exists; the answer is its last state at the version of its removal.

        `last` is that state when the removal itself has changed it (a deletion time, say).
        """
        kept = self._table(table)
        before = kept.entries[namespace, name]
        state = last or before.obj
        obj = {**state, "metadata": dict(state["metadata"])}
        entry = self._stamp(table, namespace, name, obj)
        kept.discard(before)
        self._record(Change("DELETED", entry, before))
        return entry

    async def settle(self) -> None:
        """Return when every write made so far is durable: what has been told survives a crash.

        :raises InternalError: the writes could not be kept.
        """

    def watch(self, table: str, after: int) -> Cursor:
        """Changes of a table later than a version.

        :raises Expired: `after` lies before the history.
        """
        kept = self._table(table)
        self._changes_after(kept, after)
        return Cursor(self, kept, after)

    def watchers(self, table: str) -> int:
        """How many readers are waiting for a change of a table."""
        return sum(not future.done() for future in self._table(table).waiting)

    async def close(self) -> None:
        """Let go of what the storage holds open."""

    def _table(self, name: str) -> _Table:
        table = self._tables.get(name)
        if table is None:
            table = self._tables[name] = _Table(forgotten=self._first_version)
        return table

    def _stamp(self, table: str, namespace: str, name: str, obj: Object) -> Entry:
        self._version += 1
        obj["metadata"]["resourceVersion"] = str(self._version)
        return Entry(table, namespace, name, self._version, obj, orjson.dumps(obj))

    def _record(self, change: Change) -> None:
        """Make a change part of history: here at once, in a durable storage when it is."""
        self._publish((change,))

    def _publish(self, changes: Sequence[Change]) -> None:
        touched = []
        for change in changes:
            table = self._table(change.entry.table)
            table.changes.append(change)
            if len(table.changes) >= 2 * self._history:
                table.forgotten = table.changes[-self._history - 1].version
                del table.changes[: -self._history]
            touched.append(table)
        for table in touched:
            waiting, table.waiting = table.waiting, []
            for future in waiting:
                if not future.done():
                    future.set_result(None)

    def _changes_after(self, table: _Table, version: int) -> list[Change]:
        if version < table.forgotten:
            raise Expired(f"too old resource version: {version} ({table.forgotten})")
        return table.changes[bisect_right(table.changes, version, key=lambda change: change.version) :]


class Cursor:
    """A reader of one table's changes. It holds a place, not a queue: a slow reader costs nothing, and one
    that falls out of the history is told to list again."""

    def __init__(self, storage: MemoryStorage, table: _Table, after: int) -> None:
        self._storage = storage
        self._table = table
        self.version = after

    def pending(self) -> list[Change]:
        """Changes since the last call, oldest first.

        :raises Expired: the reader was too slow.
        """
        changes = self._storage._changes_after(self._table, self.version)
        self.version = max(self.version, self._storage.published)
        return changes

    async def wait(self, timeout: float | None = None) -> bool:
        """Wait for a change that is not read yet; `False` when none came in `timeout` seconds."""
        if self._table.changes and self._table.changes[-1].version > self.version:
            return True
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._table.waiting.append(future)
        try:
            # Not `wait_for`: before Python 3.12 it loses a cancellation that meets a change.
            async with asyncio.timeout(timeout):
                await future
        except TimeoutError:
            return False
        finally:
            # Whoever publishes a change takes the waiting ones with it, also one that was cancelled just then.
            if future in self._table.waiting:
                self._table.waiting.remove(future)
        return True
