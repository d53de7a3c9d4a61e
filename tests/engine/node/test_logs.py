"""What containers print, and what `kubectl logs` gets to see of it."""

from __future__ import annotations

import asyncio
import os
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from kuberay.engine.node.logs import LogWriter, PodLogs
from kuberay.engine.streams import LogOptions

if TYPE_CHECKING:
    from pathlib import Path

START = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)


class Clock:
    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> datetime:
        return self.now


async def read(logs: PodLogs, attempt: int = 0, clock: Clock | None = None, **options: object) -> str:
    chosen = LogOptions(**options)  # type: ignore[arg-type]
    return b"".join([line async for line in logs.read("c", attempt, chosen, clock or Clock())]).decode()


def printed(tmp_path: Path, text: bytes) -> PodLogs:
    logs = PodLogs(tmp_path)
    writer = logs.writer("c", 0, Clock())
    writer.write(text)
    writer.finish()
    return logs


class TestReading:
    async def test_comes_back_byte_for_byte(self, tmp_path: Path) -> None:
        assert await read(printed(tmp_path, b"one\ntwo\n\nno end")) == "one\ntwo\n\nno end"

    async def test_long_lines_survive(self, tmp_path: Path) -> None:
        text = b"x" * 100_000 + b"\nshort\n"
        assert await read(printed(tmp_path, text)) == text.decode()

    async def test_the_last_lines(self, tmp_path: Path) -> None:
        assert await read(printed(tmp_path, b"1\n2\n3\n"), tail_lines=2) == "2\n3\n"
        assert await read(printed(tmp_path, b"1\n2\n3\n"), tail_lines=0) == ""

    async def test_with_times(self, tmp_path: Path) -> None:
        output = await read(printed(tmp_path, b"one\n"), timestamps=True)
        assert output == "2026-01-01T12:00:00.000000000Z one\n"

    async def test_at_most_so_many_bytes(self, tmp_path: Path) -> None:
        assert await read(printed(tmp_path, b"one\ntwo\n"), limit_bytes=5) == "one\nt"

    async def test_only_what_is_recent(self, tmp_path: Path) -> None:
        clock = Clock()
        logs = PodLogs(tmp_path)
        writer = logs.writer("c", 0, clock)
        writer.write(b"early\n")
        clock.now += timedelta(seconds=60)
        writer.write(b"late\n")
        writer.finish()
        assert await read(logs, clock=clock, since_seconds=30) == "late\n"
        assert await read(logs, clock=clock, since_time="2026-01-01T12:00:30Z") == "late\n"
        assert await read(logs, clock=clock, since_time="2026-01-01T11:00:00Z") == "early\nlate\n"


class TestFollowing:
    async def test_goes_on_until_the_container_ends(self, tmp_path: Path) -> None:
        logs = PodLogs(tmp_path)
        writer = logs.writer("c", 0, Clock())
        writer.write(b"one\n")
        following = asyncio.create_task(read(logs, follow=True))
        for text in (b"two\n", b"three\n"):
            await asyncio.sleep(0)
            writer.write(text)
        writer.finish()
        assert await following == "one\ntwo\nthree\n"

    async def test_crosses_the_point_where_the_file_is_full(self, tmp_path: Path) -> None:
        writer = LogWriter(tmp_path / "c" / "0.log", Clock(), limit=200)
        logs = PodLogs(tmp_path)
        logs._writers["c"] = writer
        writer.write(b"first\n")
        lines = logs.read("c", 0, LogOptions(follow=True), Clock())
        assert await anext(lines) == b"first\n"
        for number in range(20):
            writer.write(b"%d\n" % number)
            assert await anext(lines) == b"%d\n" % number
        writer.finish()
        assert [line async for line in lines] == []


class TestBounds:
    async def test_a_full_file_leaves_room_and_the_newest_lines(self, tmp_path: Path) -> None:
        writer = LogWriter(tmp_path / "c" / "0.log", Clock(), limit=1000)
        for number in range(1000):
            writer.write(b"line %d\n" % number)
        writer.finish()
        assert sum(file.stat().st_size for file in (tmp_path / "c").iterdir()) <= 2000
        assert (await read(PodLogs(tmp_path), tail_lines=1)) == "line 999\n"

    async def test_the_attempt_before_this_one_can_be_read_and_older_ones_are_gone(self, tmp_path: Path) -> None:
        logs = PodLogs(tmp_path)
        for attempt in range(4):
            writer = logs.writer("c", attempt, Clock())
            writer.write(b"attempt %d\n" % attempt)
            writer.finish()
        assert await read(logs, attempt=2) == "attempt 2\n"
        assert sorted(file.name for file in (tmp_path / "c").iterdir()) == ["2.log", "3.log"]


class TestThePipe:
    async def test_everything_that_was_printed_is_there_when_the_pipe_has_ended(self, tmp_path: Path) -> None:
        logs = PodLogs(tmp_path)
        writer = logs.writer("c", 0, Clock())
        await asyncio.to_thread(os.write, writer.pipe, b"hello\n" * 1000)
        writer.close_pipe()
        await writer.wait_done(5)
        assert await read(logs) == "hello\n" * 1000

    async def test_a_process_that_holds_the_pipe_is_not_waited_for_for_ever(self, tmp_path: Path) -> None:
        writer = LogWriter(tmp_path / "c" / "0.log", Clock())
        held = os.dup(writer.pipe)
        await writer.wait_done(0.01)
        os.close(held)
        assert writer.is_done
