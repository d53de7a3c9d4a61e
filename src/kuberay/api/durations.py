"""Durations as Go writes them (`1h30m`, `1.5h`, `100ms`): in annotations, and in schedules of the form `@every`."""

from __future__ import annotations

import re
from fractions import Fraction

_UNITS = {
    "ns": Fraction(1, 10**9),
    "us": Fraction(1, 10**6),
    "µs": Fraction(1, 10**6),
    "μs": Fraction(1, 10**6),
    "ms": Fraction(1, 1000),
    "s": Fraction(1),
    "m": Fraction(60),
    "h": Fraction(3600),
}
_PART = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)")
_LONGEST_TEXT = 128
_LONGEST = Fraction(2**63 - 1, 10**9)


def parse(text: str) -> Fraction | None:
    """The seconds of a duration, exactly; `None` when it is not one. A bare `0` is, any other bare number is not."""
    if len(text) > _LONGEST_TEXT:
        return None
    sign, digits = (-1, text[1:]) if text.startswith("-") else (1, text.removeprefix("+"))
    if digits == "0":
        return Fraction(0)
    total, position = Fraction(0), 0
    while match := _PART.match(digits, position):
        number, unit = match.groups()
        total += Fraction(number.rstrip(".") if number.endswith(".") else f"0{number}") * _UNITS[unit]
        position = match.end()
    if position == 0 or position < len(digits) or total > _LONGEST:
        return None
    return sign * total
