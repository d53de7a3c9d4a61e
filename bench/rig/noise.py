"""How long something took, and how much of the machine others used meanwhile: what tells whether to believe it."""

from __future__ import annotations

import os
import time
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")


class Stopwatch:
    """Runs from its making until `stop`."""

    def __init__(self) -> None:
        self._busy, self._ours = _busy(), _ours()
        self._began = time.perf_counter()
        self.seconds = 0.0
        self.others = 0.0
        """Cores that were busy with other programs."""

    def stop(self) -> Stopwatch:
        """Take the time."""
        self.seconds = time.perf_counter() - self._began
        used = (_busy() - self._busy) - (_ours() - self._ours)
        self.others = max(0.0, used / self.seconds)
        return self

    def __str__(self) -> str:
        noise = f" (others: {self.others:.1f} cores)" if self.others >= 0.1 else ""
        return f"{self.seconds:.2f} s{noise}"


def _busy() -> float:
    """Seconds of CPU that all programs have used."""
    user, nice, system, _, _, irq, softirq, *_ = map(int, Path("/proc/stat").read_text().split("\n")[0].split()[1:])
    return (user + nice + system + irq + softirq) / _TICKS


def _ours() -> float:
    """Seconds of CPU of this program and of those it has started."""
    parents: dict[int, int] = {}
    used: dict[int, int] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            try:
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue  # it has ended
            pid = int(folder.name)
            parents[pid] = int(fields[1])
            used[pid] = int(fields[11]) + int(fields[12])
    ours = os.getpid()

    def is_ours(pid: int) -> bool:
        while pid > 1:
            if pid == ours:
                return True
            pid = parents.get(pid, 0)
        return False

    return sum(ticks for pid, ticks in used.items() if is_ours(pid)) / _TICKS
