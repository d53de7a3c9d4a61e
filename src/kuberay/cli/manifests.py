"""Manifest files: every object in them, and everything that is wrong with it, by file, line and field.

`kuberay validate` prints what is found here; commands that send manifests to a server look here first, so that a typo
is told before anything is started.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kuberay.api.documents import Unreadable, read
from kuberay.api.model import kind_of
from kuberay.api.problems import Problem
from kuberay.api.validate.objects import is_ray_object, object_problems

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kuberay.api.documents import Document
    from kuberay.api.validate.objects import Rules


@dataclass(frozen=True, slots=True)
class Manifest:
    """One object of a file."""

    file: str
    line: int
    document: dict[str, Any]

    @property
    def is_ray(self) -> bool:
        """Whether it is of `ray.io`, so that its rules are known here."""
        return is_ray_object(self.document)

    @property
    def title(self) -> str:
        """How kubectl speaks of it: `raycluster/example`."""
        return f"{self.document['kind'].lower()}/{_name(self.document)}"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong, or doubtful."""

    file: str
    line: int
    kind: str
    name: str
    path: str
    message: str
    severity: str
    """`error`, `warning`, or `unreadable` for a file that could not be read to its end."""

    def __str__(self) -> str:
        subject = f" {self.kind}/{self.name}" if self.kind else ""
        mark = "warning: " if self.severity == "warning" else ""
        where = f" {self.path}" if self.path else ""
        return f"{self.file}:{self.line}{subject}{where}: {mark}{self.message}"


def examine(file: str, rules: Rules) -> Iterator[Manifest | Finding]:
    """The objects of a file, each followed by what is wrong with it; `-` is standard input."""
    name = "<stdin>" if file == "-" else file
    try:
        text = (sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()).decode("utf-8-sig")
    except OSError as error:
        yield Finding(name, 0, "", "", "", f"cannot be read: {error.strerror}", "unreadable")
        return
    except UnicodeDecodeError as error:
        yield Finding(name, 0, "", "", "", f"not text in UTF-8: byte {error.start} is wrong", "unreadable")
        return
    try:
        for document in read(text):
            for prefix, value in _objects(document.value):
                yield from _judge(name, document, prefix, value, rules)
    except Unreadable as error:
        yield Finding(name, error.line, "", "", "", str(error), "unreadable")


def _objects(value: Any) -> Iterator[tuple[str, Any]]:
    """The objects of a document: itself, or the items of a list."""
    if isinstance(value, dict) and str(value.get("kind")).endswith("List") and isinstance(value.get("items"), list):
        kind = str(value["kind"]).removesuffix("List")
        for index, item in enumerate(value["items"]):
            # The items of a typed list need not say what they are.
            if kind and isinstance(item, dict):
                item = {"apiVersion": value.get("apiVersion"), "kind": kind, **item}
            yield f"items[{index}]", item
    else:
        yield "", value


def _judge(file: str, document: Document, prefix: str, value: Any, rules: Rules) -> Iterator[Manifest | Finding]:
    def finding(problem: Problem, kind: str = "", name: str = "") -> Finding:
        path = f"{prefix}.{problem.path}".strip(".") if prefix else problem.path
        return Finding(file, document.line_of(path), kind, name, problem.path, problem.message, problem.severity.value)

    if not isinstance(value, dict):
        yield finding(Problem("", f"expected a Kubernetes object, got {kind_of(value)}"))
        return
    for field in ("apiVersion", "kind"):
        if not isinstance(value.get(field), str):
            yield finding(Problem(field, "is missing: every object says its apiVersion and kind"))
            return
    manifest = Manifest(file, document.line_of(prefix), value)
    yield manifest
    if not manifest.is_ray:
        return
    name, kind = _name(value), value["kind"]
    notes = [
        (path, line, f"stands here twice, first in line {first}", "error") for path, line, first in document.repeated
    ]
    notes += [
        (path, line, f"kubectl takes {text} without quotes for a boolean; write '{text}'", "warning")
        for path, line, text in document.doubtful
    ]
    for path, line, message, severity in notes:
        if not prefix or path.startswith((f"{prefix}.", f"{prefix}[")):
            where = path.removeprefix(prefix).removeprefix(".")
            yield Finding(file, line, kind, name, where, message, severity)
    for problem in object_problems(value, rules):
        yield finding(problem, kind, name)


def _name(value: dict[str, Any]) -> str:
    metadata = value.get("metadata")
    said = metadata if isinstance(metadata, dict) else {}
    return str(said.get("name") or said.get("generateName") or "?")


def knows_time_zone(name: str) -> bool:
    """Whether this machine has a time zone of that name; a machine without any cannot tell, and says yes."""
    import zoneinfo

    try:
        zoneinfo.ZoneInfo(name)
    except (ValueError, OSError, zoneinfo.ZoneInfoNotFoundError):
        return not zoneinfo.available_timezones()
    return True
