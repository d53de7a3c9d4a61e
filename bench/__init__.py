"""Programs that measure what the documentation claims.

Each prints its figures with their limits and what they are compared to, and ends with code 1 when a limit is missed.
Absolute times depend on the machine; ratios are taken within one run.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field


@dataclass(slots=True)
class Figures:
    """A table of figures that knows whether all of them are within their limits."""

    title: str
    rows: list[tuple[str, str, str, str]] = field(default_factory=list)
    missed: list[str] = field(default_factory=list)

    def add(self, name: str, value: float, unit: str, *, limit: float | None = None, compared: str = "") -> None:
        """Note a figure; `limit` is the largest value it may have."""
        bound = "" if limit is None else f"at most {limit:g} {unit}"
        shown = f"{value:.3g} {unit}"
        self.rows.append((name, shown, bound, compared))
        print(f"{name}: {shown}", file=sys.stderr, flush=True)  # the table comes at the end, and that may be far
        if limit is not None and value > limit:
            self.missed.append(name)

    def finish(self) -> int:
        """Print the table; the exit code of the program."""
        headings = ("figure", "measured", "limit", "compared to")
        widths = [max(len(row[column]) for row in [headings, *self.rows]) for column in range(4)]
        print(f"\n{self.title}")
        for row in [headings, tuple("-" * width for width in widths), *self.rows]:
            print("  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
        for name in self.missed:
            print(f"  MISSED: {name}")
        return 1 if self.missed else 0
