"""What one account asked of the API server, by the server's own audit log."""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from typing import TYPE_CHECKING

import msgspec
import yaml

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class _Object(msgspec.Struct):
    resource: str = ""
    subresource: str = ""
    namespace: str = ""


class _Line(msgspec.Struct, rename="camel"):
    verb: str
    stage_timestamp: datetime
    object_ref: _Object | None = None


_decoder = msgspec.json.Decoder(_Line)


class Audit:
    """A log that the server writes, and how to read it."""

    def __init__(self, folder: Path, user: str) -> None:
        self._policy = folder / "audit-policy.yaml"
        self._log = folder / "audit.log"
        self._policy.write_text(
            yaml.safe_dump(
                {
                    "apiVersion": "audit.k8s.io/v1",
                    "kind": "Policy",
                    "omitStages": ["RequestReceived", "ResponseStarted"],
                    "rules": [{"level": "Metadata", "users": [user]}, {"level": "None"}],
                }
            )
        )

    @property
    def flags(self) -> tuple[str, ...]:
        """For the server."""
        return (f"--audit-policy-file={self._policy}", f"--audit-log-path={self._log}", "--audit-log-maxsize=4096")

    def mark(self) -> int:
        """A place in the log, for counting from there."""
        return self._log.stat().st_size if self._log.exists() else 0

    def calls(self, since: int = 0) -> Calls:
        """What was asked since a mark. Watches are left out: they end whenever they end."""
        counted: Counter[str] = Counter()
        for line, what in self._lines(since):
            if line.verb != "watch":
                suffix = f"/{what.subresource}" if what.subresource else ""
                counted[f"{line.verb} {what.resource}{suffix}"] += 1
        return Calls(counted)

    def created(self, resource: str, since: int) -> dict[str, list[float]]:
        """When such objects were made in each namespace since a mark, by the clock of `time.time`."""
        found: dict[str, list[float]] = {}
        for line, what in self._lines(since):
            if line.verb == "create" and what.resource == resource and not what.subresource:
                found.setdefault(what.namespace, []).append(line.stage_timestamp.timestamp())
        return found

    def _lines(self, since: int) -> Iterator[tuple[_Line, _Object]]:
        if not self._log.exists():
            return
        with self._log.open("rb") as lines:
            lines.seek(since)
            for text in lines:
                if not text.endswith(b"\n"):
                    break
                line = _decoder.decode(text)
                if line.object_ref is not None:
                    yield line, line.object_ref


class Calls:
    """Requests by verb and resource."""

    def __init__(self, counted: Counter[str]) -> None:
        self.counted = counted

    @property
    def reads(self) -> int:
        return sum(count for call, count in self.counted.items() if call.split()[0] in ("get", "list"))

    @property
    def status(self) -> int:
        return sum(count for call, count in self.counted.items() if call.endswith("/status"))

    @property
    def events(self) -> int:
        return sum(count for call, count in self.counted.items() if call.endswith(" events"))

    @property
    def objects(self) -> int:
        """Writes that are neither status nor event."""
        return sum(self.counted.values()) - self.reads - self.status - self.events

    @property
    def writes(self) -> int:
        return self.objects + self.status + self.events
