"""What is wrong with an object, as data: where, what, and how bad.

Everything that judges an object (decoding, schema, CEL rules, the operator's own rules) returns these, and whoever
asked (the operator, a webhook, the command line) decides what to do with them.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable

_GROUP = re.compile(r"(?P<spec>[A-Za-z.]+)\.workerGroupSpecs\[(?P<index>\d+)\]")
_PLAIN_KEY = re.compile(r"[A-Za-z0-9_-]*[A-Za-z0-9][A-Za-z0-9_-]*")

# The longest key that means something: the prefix of a label, and its name.
_LONGEST_KEY = 253 + 1 + 63


class Severity(StrEnum):
    """Whether a problem stops an object from being used."""

    ERROR = "error"
    WARNING = "warning"
    """The object is used, but something in it is deprecated or has no effect."""


class Problem(msgspec.Struct, frozen=True, gc=False):
    """One thing that is wrong. `path` is written as users write it: `spec.workerGroupSpecs[1].replicas`."""

    path: str
    message: str
    severity: Severity = Severity.ERROR

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message


def errors(problems: Iterable[Problem]) -> list[Problem]:
    """Those that stop the object from being used."""
    return [problem for problem in problems if problem.severity is Severity.ERROR]


def warning(path: str, message: str) -> Problem:
    """A problem that does not stop the object from being used."""
    return Problem(path, message, Severity.WARNING)


def with_group_names(problems: Iterable[Problem], document: dict[str, Any]) -> list[Problem]:
    """The same problems; those within a worker group tell its name as well, for nobody counts groups.

    :param document: what they were found in; whatever it looks like, a problem stays a problem.
    """
    return [_with_group_name(problem, document) for problem in problems]


def of_group(name: str) -> str:
    """What stands behind a path or a message that is about a worker group."""
    return f" (group {shown(name)})"


def _with_group_name(problem: Problem, document: dict[str, Any]) -> Problem:
    found = _GROUP.match(problem.path)
    if found is None:
        return problem
    spec: Any = document
    for key in found["spec"].split("."):
        spec = spec.get(key) if isinstance(spec, dict) else None
    groups, index = spec.get("workerGroupSpecs") if isinstance(spec, dict) else None, int(found["index"])
    group = groups[index] if isinstance(groups, list) and index < len(groups) else None
    name = group.get("groupName") if isinstance(group, dict) else None
    if not isinstance(name, str) or shown(name) in problem.message:
        return problem
    return msgspec.structs.replace(problem, message=problem.message + of_group(name))


def child(path: str, key: str | int) -> str:
    """The path of a member or an element: `a` + `b` = `a.b`, `a` + 0 = `a[0]`, `a` + `x.io/y` = `a[x.io/y]`."""
    if isinstance(key, str) and len(key) > _LONGEST_KEY:
        key = f"{key[:60]}..."
    if isinstance(key, int) or not _PLAIN_KEY.fullmatch(key):
        return f"{path}[{key}]"
    return f"{path}.{key}" if path else key


def beneath(path: str, inner: str) -> str:
    """A path within something that itself has a path: `a.b` + `c[0]` = `a.b.c[0]`."""
    return f"{path}{inner}" if not inner or inner.startswith("[") else f"{path}.{inner}"


Path = str | tuple["Path", str | int]
"""A path in the making: the path of the parent, and the key. Most are never written out, for nothing is wrong there."""


def written(path: Path) -> str:
    """A path as users write it."""
    return path if isinstance(path, str) else child(written(path[0]), path[1])


def shown(value: object) -> str:
    """A value for use in a message: as a user would quote it, and never longer than a line."""
    written = repr(value)
    return written if len(written) <= 80 else f"{written[:60]}... ({len(written)} characters)"
