"""Schedules of RayCronJobs as data: the five fields of cron, or one of the `@` words.

Only reading a schedule happens here; when it fires next depends on a clock and a time zone, which live elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import floor
from typing import TYPE_CHECKING

from kuberay.api import durations
from kuberay.api.problems import shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


@dataclass(frozen=True, slots=True)
class Schedule:
    """The minutes that match. A day matches by both of its fields, or by either when both are restricted."""

    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    """0 is Sunday."""
    either_day: bool = False
    """Whether the day of the month and the day of the week are both restricted, so that one of them suffices."""


@dataclass(frozen=True, slots=True)
class Every:
    """A fixed interval from the last tick."""

    seconds: int


class ScheduleError(ValueError):
    """Not a schedule; the message says which part."""


@dataclass(frozen=True, slots=True)
class _Field:
    name: str
    low: int
    high: int
    words: Mapping[str, int]


def _words(text: str, first: int) -> dict[str, int]:
    return {word: number for number, word in enumerate(text.split(), first)}


_FIELDS = (
    _Field("minute", 0, 59, {}),
    _Field("hour", 0, 23, {}),
    _Field("day of month", 1, 31, {}),
    _Field("month", 1, 12, _words("jan feb mar apr may jun jul aug sep oct nov dec", 1)),
    _Field("day of week", 0, 6, _words("sun mon tue wed thu fri sat", 0)),
)
_DESCRIPTORS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}


def parse(text: str) -> Schedule | Every:
    """Read a schedule.

    :raises ScheduleError: it is none.
    """
    if text.startswith("@every "):
        seconds = durations.parse(text.removeprefix("@every ").strip())
        if seconds is None:
            raise ScheduleError(f"{shown(text)}: after @every comes a duration like 1h30m")
        return Every(max(1, floor(seconds)))
    if text.startswith("@"):
        if text not in _DESCRIPTORS:
            raise ScheduleError(f"{shown(text)} is not one of {', '.join(_DESCRIPTORS)} or @every DURATION")
        text = _DESCRIPTORS[text]
    parts = text.split()
    if len(parts) != len(_FIELDS):
        raise ScheduleError(f"{shown(text)} has {len(parts)} fields, expected 5: minute, hour, day, month, weekday")
    (minutes, _), (hours, _), (days, any_day), (months, _), (weekdays, any_weekday) = (
        _field(part, field) for part, field in zip(parts, _FIELDS, strict=True)
    )
    return Schedule(minutes, hours, days, months, weekdays, either_day=not (any_day or any_weekday))


def _field(text: str, field: _Field) -> tuple[frozenset[int], bool]:
    """The values a field matches, and whether it is unrestricted by an asterisk."""
    values: set[int] = set()
    unrestricted = False
    for part in text.split(","):
        matched, star = _range(part, field)
        values.update(matched)
        unrestricted = unrestricted or star
    return frozenset(values), unrestricted


def _range(part: str, field: _Field) -> tuple[Iterable[int], bool]:
    span, slash, step_text = part.partition("/")
    step = _number(step_text, field, part) if slash else 1
    if step < 1:
        raise ScheduleError(f"{field.name} {shown(part)}: the step must be at least 1")
    if span in ("*", "?"):
        return range(field.low, field.high + 1, step), step == 1
    first_text, dash, last_text = span.partition("-")
    first = _value(first_text, field, part)
    last = _value(last_text, field, part) if dash else field.high if slash else first
    if first > last:
        raise ScheduleError(f"{field.name} {shown(part)}: the range ends before it starts")
    return range(first, last + 1, step), False


def _value(text: str, field: _Field, part: str) -> int:
    value = field.words.get(text.lower())
    if value is None:
        value = _number(text, field, part)
    if not field.low <= value <= field.high:
        raise ScheduleError(f"{field.name} {shown(part)}: must be from {field.low} to {field.high}")
    return value


def _number(text: str, field: _Field, part: str) -> int:
    if not (text.isascii() and text.isdigit()) or len(text) > 9:
        raise ScheduleError(f"{field.name} {shown(part)}: {shown(text)} is not a number")
    return int(text)
