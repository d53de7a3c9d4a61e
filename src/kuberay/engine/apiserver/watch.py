"""Watches: a list that goes on as one JSON event a line."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

import orjson

from kuberay.engine.apiserver.answers import Form, object_bytes, partial_metadata
from kuberay.engine.apiserver.table import table
from kuberay.kube.errors import Expired

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable
    from datetime import datetime

    from kuberay.engine.apiserver.requests import Selection
    from kuberay.engine.apiserver.storage import Change, Cursor, Entry, Object

BOOKMARK_SECONDS = 60.0
INITIAL_EVENTS_END = "k8s.io/initial-events-end"


class Watch:
    """Turns changes into the events that one client should see, in the form it wants."""

    def __init__(
        self, selection: Selection, form: Form, *, include: str, clock: Callable[[], datetime], bookmarks: bool
    ) -> None:
        self._selection = selection
        self._form = form
        self._include = include
        self._clock = clock
        self._bookmarks = bookmarks
        self._headed = True

    async def events(
        self,
        initial: list[Entry],
        cursor: Cursor,
        *,
        end_of_initial: bool,
        timeout: float | None,
    ) -> AsyncGenerator[bytes, None]:
        """Lines until the timeout, or until the client has fallen behind the history."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout if timeout else None
        first = [self._line("ADDED", entry) for entry in initial]
        if end_of_initial and self._bookmarks:
            first.append(self._bookmark(cursor.version, {INITIAL_EVENTS_END: "true"}))
        if first:
            yield b"".join(first)
        next_bookmark = loop.time() + BOOKMARK_SECONDS
        while True:
            try:
                lines = [line for change in cursor.pending() if (line := self._event(change))]
            except Expired as error:
                yield orjson.dumps({"type": "ERROR", "object": error.status.to_dict()}) + b"\n"
                return
            now = loop.time()
            if self._bookmarks and now >= next_bookmark:
                lines.append(self._bookmark(cursor.version))
                next_bookmark = now + BOOKMARK_SECONDS
            if lines:
                yield b"".join(lines)
            if deadline is not None and now >= deadline:
                return
            wake = min(deadline or float("inf"), next_bookmark if self._bookmarks else float("inf"))
            await cursor.wait(None if wake == float("inf") else max(0.0, wake - loop.time()))

    def _event(self, change: Change) -> bytes | None:
        """What a change means to this client: an object that leaves its selection is deleted for it."""
        before = change.before is not None and self._selection.matches(change.before)
        now = change.type != "DELETED" and self._selection.matches(change.entry)
        if now:
            return self._line("MODIFIED" if before else "ADDED", change.entry)
        if not before:
            return None
        if change.type == "DELETED":
            return self._line("DELETED", change.entry)
        assert change.before is not None
        return self._line("DELETED", _at_version(change.before, change.version))

    def _line(self, event: str, entry: Entry) -> bytes:
        return b'{"type":"%s","object":%s}\n' % (event.encode(), self._encoded(entry))

    def _encoded(self, entry: Entry) -> bytes:
        kind = self._selection.kind
        match self._form:
            case Form.OBJECT:
                return object_bytes(kind, entry)
            case Form.METADATA:
                return orjson.dumps(partial_metadata(entry.obj))
            case Form.TABLE:
                rows = table(kind, [entry], self._clock(), include=self._include, headed=self._headed)
                self._headed = False
                rows["metadata"]["resourceVersion"] = entry.obj["metadata"]["resourceVersion"]
                return orjson.dumps(rows)

    def _bookmark(self, version: int, annotations: dict[str, str] | None = None) -> bytes:
        resource = self._selection.kind.resource
        meta: Object = {"resourceVersion": str(version), "creationTimestamp": None}
        if annotations:
            meta["annotations"] = annotations
        obj: Object = {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": meta}
        if self._form is Form.METADATA:
            obj = partial_metadata(obj)
        elif self._form is Form.TABLE:
            row = {"cells": [None] * len(self._selection.kind.columns.definitions), "object": partial_metadata(obj)}
            obj = {"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": {"resourceVersion": str(version)}}
            obj |= {"columnDefinitions": None, "rows": [row]}
        return orjson.dumps({"type": "BOOKMARK", "object": obj}) + b"\n"


def _at_version(entry: Entry, version: int) -> Entry:
    """The state before a change, told as of the change."""
    obj = {**entry.obj, "metadata": {**entry.obj["metadata"], "resourceVersion": str(version)}}
    return replace(entry, version=version, obj=obj, body=orjson.dumps(obj))
