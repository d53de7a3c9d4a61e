"""Times as Kubernetes writes them (RFC 3339, UTC) and ages as kubectl shows them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any


def timestamp(moment: datetime) -> str:
    """To the second, as in `creationTimestamp`."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def parse(text: Any) -> datetime | None:
    """The moment, or `None` for what is no time."""
    if not isinstance(text, str):
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def age(text: Any, now: datetime) -> str:
    """How long ago a time was: `45s`, `4m10s`, `3h`, `2d4h`."""
    moment = parse(text)
    return "<unknown>" if moment is None else duration(int((now - moment).total_seconds()))


def duration(seconds: int) -> str:
    """A span in at most two units, the finer one only while it says something."""
    if seconds < -1:
        return "<invalid>"
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    if seconds < 120:
        return f"{max(seconds, 0)}s"
    if minutes < 10:
        return _two(minutes, "m", seconds % 60, "s")
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return _two(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    if days < 8:
        return _two(days, "d", hours % 24, "h")
    if days < 730:
        return f"{days}d"
    if days < 365 * 8:
        return _two(days // 365, "y", days % 365, "d")
    return f"{days // 365}y"


def _two(big: int, big_unit: str, small: int, small_unit: str) -> str:
    return f"{big}{big_unit}{small}{small_unit}" if small else f"{big}{big_unit}"
