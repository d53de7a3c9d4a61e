"""Storage: one counter, ordered lists, history for watches; and the same after the process was killed."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import orjson
import pytest

from kuberay.engine.apiserver import MemoryStorage, SqliteStorage
from kuberay.engine.errors import DamagedStorage
from kuberay.kube.errors import Expired, InternalError

if TYPE_CHECKING:
    from pathlib import Path


def thing(name: str, **more: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, **more}


class TestVersions:
    def test_every_write_gets_the_next_version(self) -> None:
        storage = MemoryStorage()
        versions = [storage.put("a", "", "x", thing("x")).version, storage.put("b", "", "y", thing("y")).version]
        assert [*versions, storage.remove("a", "", "x").version] == [1, 2, 3]

    def test_an_object_carries_its_version(self) -> None:
        entry = MemoryStorage().put("a", "", "x", thing("x"))
        assert orjson.loads(entry.body)["metadata"]["resourceVersion"] == "1"

    def test_a_removed_object_is_told_at_the_version_of_its_removal(self) -> None:
        storage = MemoryStorage()
        storage.put("a", "", "x", thing("x"))
        assert storage.remove("a", "", "x").obj["metadata"]["resourceVersion"] == "2"


class TestLists:
    def test_are_ordered_by_namespace_and_name(self) -> None:
        storage = MemoryStorage()
        for namespace, name in (("b", "x"), ("a", "z"), ("a", "b")):
            storage.put("t", namespace, name, thing(name))
        assert [(e.namespace, e.name) for e in storage.entries("t")] == [("a", "b"), ("a", "z"), ("b", "x")]

    def test_of_one_namespace_leave_out_those_that_start_alike(self) -> None:
        storage = MemoryStorage()
        for namespace in ("a", "aa", "a-b"):
            storage.put("t", namespace, "x", thing("x"))
        assert [entry.namespace for entry in storage.entries("t", "a")] == ["a"]

    def test_can_be_read_as_they_were(self) -> None:
        storage = MemoryStorage()
        storage.put("t", "", "kept", thing("kept", v=1))
        storage.put("t", "", "gone", thing("gone"))
        then = storage.version
        storage.put("t", "", "kept", thing("kept", v=2))
        storage.remove("t", "", "gone")
        storage.put("t", "", "new", thing("new"))
        past = storage.entries("t", at=then)
        assert [(e.name, e.obj.get("v")) for e in past] == [("gone", None), ("kept", 1)]


class TestHistory:
    def test_holds_the_changes_of_one_table_in_order(self) -> None:
        storage = MemoryStorage()
        cursor = storage.watch("t", 0)
        storage.put("t", "", "x", thing("x"))
        storage.put("other", "", "x", thing("x"))
        storage.put("t", "", "x", thing("x"))
        storage.remove("t", "", "x")
        assert [(c.type, c.version) for c in cursor.pending()] == [("ADDED", 1), ("MODIFIED", 3), ("DELETED", 4)]
        assert cursor.pending() == []

    def test_is_bounded_and_says_so(self) -> None:
        storage = MemoryStorage(history=3)
        slow = storage.watch("t", 0)
        for _ in range(7):
            storage.put("t", "", "x", thing("x"))
        with pytest.raises(Expired):
            slow.pending()
        with pytest.raises(Expired):
            storage.watch("t", 1)
        assert len(storage.watch("t", 4).pending()) == 3

    async def test_wakes_whoever_waits_for_a_change(self) -> None:
        storage = MemoryStorage()
        cursor = storage.watch("t", 0)
        waiting = asyncio.create_task(cursor.wait(10))
        await asyncio.sleep(0)
        storage.put("t", "", "x", thing("x"))
        assert await waiting

    @pytest.mark.parametrize("order", ["cancelled first", "changed first"])
    async def test_a_cancellation_that_meets_a_change_is_neither_lost_nor_in_the_way(self, order: str) -> None:
        storage = MemoryStorage()
        waiting = asyncio.create_task(storage.watch("t", 0).wait(10))
        await asyncio.sleep(0)
        if order == "cancelled first":
            waiting.cancel()
        storage.put("t", "", "x", thing("x"))
        if order == "changed first":
            waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert storage.watchers("t") == 0

    async def test_a_wait_has_an_end(self) -> None:
        assert not await MemoryStorage().watch("t", 0).wait(0.001)


class TestDurability:
    async def test_objects_and_the_counter_come_back(self, tmp_path: Path) -> None:
        path = tmp_path / "objects.db"
        storage = SqliteStorage(path)
        storage.put("t", "ns", "x", thing("x", v=1))
        storage.put("t", "ns", "y", thing("y"))
        storage.remove("t", "ns", "y")
        await storage.settle()
        await storage.close()
        again = SqliteStorage(path)
        assert [(e.name, e.obj) for e in again.entries("t")] == [
            ("x", {"metadata": {"name": "x", "resourceVersion": "1"}, "v": 1})
        ]
        assert again.put("t", "ns", "z", thing("z")).version == 4
        await again.close()

    async def test_a_watch_from_before_the_restart_has_to_list_again(self, tmp_path: Path) -> None:
        storage = SqliteStorage(tmp_path / "objects.db")
        storage.put("t", "", "x", thing("x"))
        storage.put("t", "", "x", thing("x"))
        await storage.close()
        again = SqliteStorage(tmp_path / "objects.db")
        with pytest.raises(Expired):
            again.watch("t", 1)
        with pytest.raises(Expired):
            again.watch("never-used", 1)
        assert again.watch("t", 2).pending() == []
        await again.close()

    async def test_watchers_learn_of_a_change_when_it_is_durable(self, tmp_path: Path) -> None:
        storage = SqliteStorage(tmp_path / "objects.db")
        cursor = storage.watch("t", 0)
        storage.put("t", "", "x", thing("x"))
        assert cursor.pending() == []
        await storage.settle()
        assert [change.version for change in cursor.pending()] == [1]
        await storage.close()

    async def test_a_write_that_cannot_be_kept_is_refused_and_so_is_everything_after(self, tmp_path: Path) -> None:
        storage = SqliteStorage(tmp_path / "objects.db")
        storage._connection.execute("PRAGMA query_only = ON")
        storage.put("t", "", "x", thing("x"))
        with pytest.raises(InternalError, match=r"objects\.db"):
            await storage.settle()
        with pytest.raises(InternalError):
            storage.put("t", "", "y", thing("y"))
        await storage.close()

    def test_what_was_answered_survives_kill_9(self, tmp_path: Path) -> None:
        path = tmp_path / "objects.db"
        child = subprocess.Popen([sys.executable, "-c", _WRITER, str(path)], stdout=subprocess.PIPE, text=True)
        assert child.stdout is not None
        answered = [child.stdout.readline().strip() for _ in range(200)]
        os.kill(child.pid, signal.SIGKILL)
        answered += [line.strip() for line in child.stdout if line.endswith("\n")]
        child.wait()
        child.stdout.close()
        storage = SqliteStorage(path)
        stored = {entry.name: entry.version for entry in storage.entries("t")}
        assert all(stored[f"x{version}"] == int(version) for version in answered)
        assert storage.version >= int(answered[-1])
        storage._connection.close()


_WRITER = """
import asyncio, pathlib, sys
from kuberay.engine.apiserver import SqliteStorage

async def main():
    storage = SqliteStorage(pathlib.Path(sys.argv[1]))
    while True:
        name = f"x{storage.version + 1}"
        entry = storage.put("t", "", name, {"metadata": {"name": name}})
        await storage.settle()
        print(entry.version, flush=True)

asyncio.run(main())
"""


class TestDamage:
    async def stored(self, path: Path) -> None:
        storage = SqliteStorage(path)
        for number in range(200):
            storage.put("t", "", f"x{number}", thing("x", data="y" * 500))
        await storage.close()

    def refused(self, path: Path, problem: str) -> None:
        before = path.read_bytes()
        with pytest.raises(DamagedStorage, match=problem) as refusal:
            SqliteStorage(path)
        assert str(path) in str(refusal.value)
        assert "move it away" in str(refusal.value)
        assert path.read_bytes() == before

    def test_a_file_that_is_no_database_is_left_alone(self, tmp_path: Path) -> None:
        (tmp_path / "objects.db").write_text("these are my notes, not a database\n" * 100)
        self.refused(tmp_path / "objects.db", "cannot be read")

    def test_the_database_of_another_program_is_left_alone(self, tmp_path: Path) -> None:
        connection = sqlite3.connect(tmp_path / "objects.db")
        connection.execute("CREATE TABLE songs (title)")
        connection.close()
        self.refused(tmp_path / "objects.db", "another program")

    async def test_a_format_of_another_version_is_left_alone(self, tmp_path: Path) -> None:
        await self.stored(tmp_path / "objects.db")
        connection = sqlite3.connect(tmp_path / "objects.db")
        connection.execute("PRAGMA user_version = 99")
        connection.close()
        self.refused(tmp_path / "objects.db", "version 99")

    async def test_a_page_of_garbage_is_noticed(self, tmp_path: Path) -> None:
        path = tmp_path / "objects.db"
        await self.stored(path)
        data = bytearray(path.read_bytes())
        data[8192:12288] = b"\xa5" * 4096
        path.write_bytes(data)
        self.refused(path, "malformed|cannot be read")

    async def test_a_truncated_file_is_noticed(self, tmp_path: Path) -> None:
        path = tmp_path / "objects.db"
        await self.stored(path)
        path.write_bytes(path.read_bytes()[:-4096])
        self.refused(path, "malformed|cannot be read")

    def test_a_log_without_its_file_is_not_taken_for_an_empty_cluster(self, tmp_path: Path) -> None:
        (tmp_path / "objects.db-wal").write_bytes(b"x")
        with pytest.raises(DamagedStorage, match="missing"):
            SqliteStorage(tmp_path / "objects.db")
