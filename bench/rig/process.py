"""A process under measurement: what it costs, as the kernel counts it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_TICKS = os.sysconf("SC_CLK_TCK")


def cpu_of(pid: int) -> float:
    """Seconds of CPU that a process has used, those of its children included."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / _TICKS


def memory_of(pid: int, field: str = "VmRSS") -> float:
    """Megabytes of memory that a process has."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) * 1024 / 1e6
    raise RuntimeError(f"there is no {field} of process {pid}")


@dataclass(frozen=True, slots=True)
class Measured:
    """A running process."""

    process: subprocess.Popen[bytes]
    log: Path

    @property
    def cpu(self) -> float:
        """Seconds of CPU so far, those of its children included."""
        return cpu_of(self.process.pid)

    @property
    def rss(self) -> float:
        """Megabytes of memory now."""
        return memory_of(self.process.pid)

    @property
    def peak(self) -> float:
        """The most megabytes it has had."""
        return memory_of(self.process.pid, "VmHWM")

    def check(self) -> None:
        """Fail if it is not running any more."""
        if self.process.poll() is not None:
            raise RuntimeError(f"{self.process.args!r} ended:\n{self.log.read_text()[-2000:]}")


@contextlib.contextmanager
def running(command: Sequence[str], log: Path, environment: Mapping[str, str] | None = None) -> Iterator[Measured]:
    """Run a program meanwhile."""
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, stdout=output, stderr=output, env={**os.environ, **(environment or {})}, start_new_session=True
        )
    try:
        yield Measured(process, log)
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        try:
            process.wait(timeout=40)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
