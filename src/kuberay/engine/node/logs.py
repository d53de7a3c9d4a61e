"""What containers print, kept in bounded files, and read back as `kubectl logs` asks for it.

One file per attempt of a container, each line behind the time it was printed, so that `--timestamps` and `--since`
can be answered later. A full file becomes the older half; what is older still is gone.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections import deque
from datetime import UTC, datetime, timedelta
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from pathlib import Path

    from kuberay.engine.streams import LogOptions

FILE_LIMIT = 10 << 20
_CHUNK = 1 << 16
# A longer line is cut into parts; otherwise one line could fill the memory.
_LONGEST_LINE = 16 << 10
_FULL, _PART = b"F", b"P"
_KEPT_ATTEMPTS = 2


def timestamp(moment: datetime) -> str:
    """Kubernetes' time with nanoseconds, of fixed width: sorts as text."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f000Z")


class LogWriter:
    """Copies a pipe into a log file until nobody holds its other end any more."""

    def __init__(self, path: Path, now: Callable[[], datetime], *, limit: int = FILE_LIMIT) -> None:
        self.path = path
        self._now = now
        self._limit = limit
        self._rest = b""
        self._generation = 0
        self._file = self._open()
        self._size = 0
        self._news = asyncio.Event()
        self._done = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        reading, self.pipe = os.pipe2(os.O_CLOEXEC)
        self._reading = reading
        os.set_blocking(reading, False)
        self._loop.add_reader(reading, self._read)

    def close_pipe(self) -> None:
        """Let go of the writing end, once the container has it; safe to repeat."""
        if self.pipe >= 0:
            os.close(self.pipe)
            self.pipe = -1

    @property
    def generation(self) -> int:
        """How often the file was started afresh."""
        return self._generation

    @property
    def is_done(self) -> bool:
        return self._done.is_set()

    async def wait_done(self, seconds: float) -> None:
        """Wait until everything is written, but not for ever: a process that got away may hold the pipe."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._done.wait()
        self.finish()

    async def wait_news(self) -> None:
        """Wait until there is more to read, or until there never will be."""
        if not self.is_done:
            await self._news.wait()

    def write(self, data: bytes) -> None:
        """Add output; what does not end a line waits for the rest of it."""
        lines = (self._rest + data).split(b"\n")
        self._rest = lines.pop()
        moment = timestamp(self._now()).encode()
        out = bytearray()
        for line in lines:
            out += _records(moment, line)
        while len(self._rest) >= _LONGEST_LINE:
            out += b"%s %s %s\n" % (moment, _PART, self._rest[:_LONGEST_LINE])
            self._rest = self._rest[_LONGEST_LINE:]
        if out:
            self._append(bytes(out))

    def finish(self) -> None:
        """Write the last, unfinished line and close; safe to repeat."""
        if self.is_done:
            return
        self._loop.remove_reader(self._reading)
        os.close(self._reading)
        self.close_pipe()
        if self._rest:
            self._append(b"%s %s %s\n" % (timestamp(self._now()).encode(), _PART, self._rest))
            self._rest = b""
        self._file.close()
        self._done.set()
        self._tell()

    def _read(self) -> None:
        try:
            data = os.read(self._reading, _CHUNK)
        except BlockingIOError:
            return
        if data:
            self.write(data)
        else:
            self.finish()

    def _append(self, data: bytes) -> None:
        if self._size and self._size + len(data) > self._limit:
            self._file.close()
            os.replace(self.path, _older(self.path))
            self._file = self._open()
            self._size = 0
            self._generation += 1
        self._file.write(data)
        self._size += len(data)
        self._tell()

    def _open(self) -> IO[bytes]:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        return self.path.open("wb", buffering=0)

    def _tell(self) -> None:
        self._news.set()
        self._news = asyncio.Event()


class PodLogs:
    """The log files of one Pod's containers."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._writers: dict[str, LogWriter] = {}

    def writer(self, container: str, attempt: int, now: Callable[[], datetime]) -> LogWriter:
        """A new log for an attempt of a container; the attempt before it stays, older ones go."""
        made = LogWriter(self.file(container, attempt), now)
        self._writers[container] = made
        for file in (self._folder / container).glob("*.log*"):
            number = file.name.partition(".")[0]
            if number.isdigit() and int(number) <= attempt - _KEPT_ATTEMPTS:
                file.unlink(missing_ok=True)
        return made

    def file(self, container: str, attempt: int) -> Path:
        return self._folder / container / f"{attempt}.log"

    async def read(
        self, container: str, attempt: int, options: LogOptions, now: Callable[[], datetime]
    ) -> AsyncIterator[bytes]:
        """The lines that were asked for; with `follow`, also those that come until the attempt ends."""
        path = self.file(container, attempt)
        writer = self._writers.get(container)
        live = writer if writer and writer.path == path else None
        generation = live.generation if live else 0
        since = _since(options, now())
        budget = _Budget(options.limit_bytes)
        with contextlib.ExitStack() as files:
            current = files.enter_context(path.open("rb"))
            older = files.enter_context(_older(path).open("rb")) if _older(path).exists() else None
            lines = _lines([*([older] if older else []), current], since, timestamps=options.timestamps)
            for line in lines if options.tail_lines is None else _last(lines, options.tail_lines):
                if budget.is_spent:
                    break
                yield budget.take(line)
                await asyncio.sleep(0)
            while options.follow and live and not budget.is_spent:
                done = live.is_done
                fresh = b"".join(_lines([current], since, timestamps=options.timestamps))
                if fresh:
                    yield budget.take(fresh)
                elif live.generation != generation:
                    generation = live.generation
                    current = files.enter_context(path.open("rb"))
                elif done:
                    return
                else:
                    await live.wait_news()


class _Budget:
    """How many bytes may still be sent."""

    def __init__(self, limit: int | None) -> None:
        self._left = limit

    @property
    def is_spent(self) -> bool:
        return self._left is not None and self._left <= 0

    def take(self, data: bytes) -> bytes:
        if self._left is None:
            return data
        data = data[: self._left]
        self._left -= len(data)
        return data


def _records(moment: bytes, line: bytes) -> bytes:
    out = b""
    while len(line) > _LONGEST_LINE:
        out += b"%s %s %s\n" % (moment, _PART, line[:_LONGEST_LINE])
        line = line[_LONGEST_LINE:]
    return out + b"%s %s %s\n" % (moment, _FULL, line)


def _older(path: Path) -> Path:
    return path.with_suffix(".log.1")


def _since(options: LogOptions, now: datetime) -> str:
    if options.since_seconds is not None:
        return timestamp(now - timedelta(seconds=options.since_seconds))
    if options.since_time:
        return timestamp(datetime.fromisoformat(options.since_time))
    return ""


def _lines(files: list[IO[bytes]], since: str, *, timestamps: bool) -> Iterator[bytes]:
    """Whole lines as a reader sees them: parts joined, times shown or not."""
    begun: list[bytes] = []
    for file in files:
        for record in file:
            moment, kind, text = (*record.rstrip(b"\n").split(b" ", 2), b"", b"")[:3]
            if not kind or moment.decode() < since:  # a torn record is what a power cut leaves
                continue
            begun.append(text if begun or not timestamps else moment + b" " + text)
            if kind == _FULL:
                yield b"".join(begun) + b"\n"
                begun = []
    if begun:
        yield b"".join(begun)


def _last(lines: Iterator[bytes], count: int) -> Iterator[bytes]:
    yield from deque(lines, maxlen=count)
