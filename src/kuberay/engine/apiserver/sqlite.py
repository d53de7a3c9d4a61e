"""Storage that survives the process: the memory storage with every change written to one SQLite file.

A change is applied in memory at once and handed to a writer thread, which commits whatever has gathered since
its last commit in one transaction. An answer waits for that commit (`settle`), and so do watchers: nothing is
told that a crash could take back.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
import threading
from collections import deque
from typing import TYPE_CHECKING

import orjson

from kuberay.engine.apiserver.storage import HISTORY, Change, Entry, MemoryStorage
from kuberay.engine.errors import DamagedStorage
from kuberay.kube.errors import InternalError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Notify = Callable[[list[Change], Exception | None], object]

APPLICATION_ID = 0x6B756265
SCHEMA_VERSION = 1

_SCHEMA = f"""
BEGIN;
CREATE TABLE objects (
  resource TEXT NOT NULL, namespace TEXT NOT NULL, name TEXT NOT NULL, version INTEGER NOT NULL, body BLOB NOT NULL,
  PRIMARY KEY (resource, namespace, name)
) WITHOUT ROWID;
CREATE TABLE counter (version INTEGER NOT NULL);
INSERT INTO counter VALUES (0);
PRAGMA application_id = {APPLICATION_ID};
PRAGMA user_version = {SCHEMA_VERSION};
COMMIT;
"""


class SqliteStorage(MemoryStorage):
    """Objects in memory and in the SQLite file at `path`.

    :raises DamagedStorage: the file is not one of ours, or can no longer be read.
    """

    def __init__(self, path: Path, *, history: int = HISTORY) -> None:
        super().__init__(history=history)
        self._path = path
        self._connection = _open(path)
        try:
            self._load()
        except DamagedStorage:
            self._connection.close()
            raise
        self._writer = _Writer(self._connection)
        self._unsettled: deque[tuple[int, asyncio.Future[None]]] = deque()
        self._settled = self._version
        self._failure: Exception | None = None

    @property
    def published(self) -> int:
        return self._settled

    def _load(self) -> None:
        try:
            (self._version,) = self._connection.execute("SELECT version FROM counter").fetchone()
            for resource, namespace, name, version, body in self._connection.execute(
                "SELECT resource, namespace, name, version, body FROM objects"
            ):
                self._table(resource).insert(Entry(resource, namespace, name, version, orjson.loads(body), body))
        except (sqlite3.Error, ValueError, TypeError) as error:
            raise DamagedStorage(self._path, f"the stored objects cannot be read ({error})") from error
        self._first_version = self._version
        for table in self._tables.values():
            table.forgotten = self._version

    def _record(self, change: Change) -> None:
        if self._failure is not None:
            raise self._broken()
        loop = asyncio.get_running_loop()
        self._writer.append(change, lambda done, failure: loop.call_soon_threadsafe(self._committed, done, failure))

    def _committed(self, changes: list[Change], failure: Exception | None) -> None:
        if failure is not None:
            self._failure = failure
        else:
            self._settled = changes[-1].version
            self._publish(changes)
        while self._unsettled and (self._failure or self._unsettled[0][0] <= self._settled):
            _, future = self._unsettled.popleft()
            if not future.done():
                future.set_result(None)

    async def settle(self) -> None:
        wanted = self._version
        if self._settled < wanted and self._failure is None:
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._unsettled.append((wanted, future))
            await future
        if self._failure is not None:
            raise self._broken()

    def _broken(self) -> InternalError:
        return InternalError(
            f"writing to {self._path} failed ({self._failure}); nothing is accepted until the engine is restarted"
        )

    async def close(self) -> None:
        """Commit what is outstanding and close the file."""
        await asyncio.to_thread(self._writer.stop)
        self._connection.close()


class _Writer:
    """The one thread that writes. It starts with the first change."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._pending: list[Change] = []
        self._notify: Notify = lambda changes, failure: None
        self._wake = threading.Condition()
        self._stopping = False
        self._thread: threading.Thread | None = None

    def append(self, change: Change, notify: Notify) -> None:
        with self._wake:
            self._pending.append(change)
            self._notify = notify
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="storage-writer", daemon=True)
                self._thread.start()
            self._wake.notify()

    def stop(self) -> None:
        with self._wake:
            self._stopping = True
            self._wake.notify()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while True:
            with self._wake:
                while not self._pending:
                    if self._stopping:
                        return
                    self._wake.wait()
                changes, self._pending = self._pending, []
                notify = self._notify
            failure: Exception | None = None
            try:
                self._commit(changes)
            except sqlite3.Error as error:
                failure = error
            notify(changes, failure)
            if failure is not None:
                return

    def _commit(self, changes: list[Change]) -> None:
        # The last change of an object in a batch is the only one that matters to the file.
        last = {(change.entry.table, change.entry.namespace, change.entry.name): change for change in changes}
        removed = [key for key, change in last.items() if change.type == "DELETED"]
        stored = [
            (*key, change.entry.version, change.entry.body) for key, change in last.items() if change.type != "DELETED"
        ]
        with self._connection:
            self._connection.execute("BEGIN")
            self._connection.executemany(
                "DELETE FROM objects WHERE resource = ? AND namespace = ? AND name = ?", removed
            )
            self._connection.executemany("INSERT OR REPLACE INTO objects VALUES (?, ?, ?, ?, ?)", stored)
            self._connection.execute("UPDATE counter SET version = ?", (changes[-1].version,))


def _open(path: Path) -> sqlite3.Connection:
    """Open our file or make a new one; anything else is damage."""
    write_ahead_log = path.with_name(path.name + "-wal")
    if not path.exists() and write_ahead_log.exists():
        raise DamagedStorage(path, f"the file is missing although its log {write_ahead_log.name} is there")
    # Secrets are in it: for its owner alone from the start. Its -wal and -shm take over its mode.
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    connection = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
    try:
        (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        (schema,) = connection.execute("PRAGMA user_version").fetchone()
        if tables == 0 and application == 0 and schema == 0:
            connection.executescript(_SCHEMA)
        elif application != APPLICATION_ID:
            raise DamagedStorage(path, "this is another program's database")
        elif schema != SCHEMA_VERSION:
            raise DamagedStorage(
                path, f"its format is version {schema}, this program reads version {SCHEMA_VERSION} only"
            )
        (check,) = connection.execute("PRAGMA quick_check(1)").fetchone()
        if check != "ok":
            raise DamagedStorage(path, f"the database is malformed ({check})")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
    except sqlite3.Error as error:
        connection.close()
        raise DamagedStorage(path, f"the database cannot be read ({error})") from error
    except DamagedStorage:
        connection.close()
        raise
    return connection
