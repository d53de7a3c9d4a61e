"""Merge patch (RFC 7386) and JSON patch (RFC 6902) on plain JSON values.

JSON patch is as lax as Kubernetes': `replace` of a missing member adds it, a negative index counts from the end, and a
missing member is null to `test` and to `copy`. Nothing here changes its arguments: what a patch touches is copied, the
rest of the result is shared with them.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_INDEX = re.compile(r"-?(0|[1-9][0-9]{0,9})")


class PatchError(ValueError):
    """The patch does not fit the document: a failed `test`, or a path that leads nowhere."""


class MalformedPatch(PatchError):
    """What was sent is not a patch at all."""


def merge_patch(target: Any, patch: Any) -> Any:
    """The target with the patch merged in: null removes a member, objects merge, all else replaces."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = merge_patch(merged.get(key), value)
    return merged


def json_patch(document: Any, operations: Sequence[Mapping[str, Any]]) -> Any:
    """The document after all operations, in order; either all of them apply or none.

    :raises MalformedPatch: not a list of operations.
    :raises PatchError: an operation does not apply; the message names it.
    """
    if not isinstance(operations, list | tuple):
        raise MalformedPatch("a JSON patch is a list of operations")
    for number, operation in enumerate(operations):
        kind, path = _checked(number, operation)
        try:
            document = _apply(document, kind, path, operation)
        except MalformedPatch:
            raise
        except PatchError as error:
            raise PatchError(f"operation {number} ({kind} {operation['path']!r}): {error}") from None
    return document


def _checked(number: int, operation: Any) -> tuple[str, list[str]]:
    if not isinstance(operation, dict):
        raise MalformedPatch(f"operation {number} is not an object")
    kind = operation.get("op")
    if kind not in ("add", "remove", "replace", "move", "copy", "test"):
        raise MalformedPatch(f"operation {number}: op {kind!r} is none of add, remove, replace, move, copy, test")
    if kind in ("move", "copy"):
        _pointer(number, operation, "from")
    if kind in ("add", "replace") and "value" not in operation:
        raise MalformedPatch(f"operation {number}: {kind} needs a value")
    return kind, _pointer(number, operation, "path")


def _pointer(number: int, operation: Mapping[str, Any], field: str) -> list[str]:
    text = operation.get(field)
    if not isinstance(text, str) or (text and not text.startswith("/")):
        raise MalformedPatch(f"operation {number}: {field} {text!r} is not a JSON pointer")
    return [token.replace("~1", "/").replace("~0", "~") for token in text.split("/")[1:]]


def _apply(document: Any, kind: str, path: list[str], operation: Mapping[str, Any]) -> Any:
    match kind:
        case "add":
            return _add(document, path, operation["value"])
        case "replace":
            return _replace(document, path, operation["value"])
        case "remove":
            return _remove(document, path)
        case "test":
            found = _get(document, path, missing_is_null=True)
            if not same_json(found, operation.get("value")):
                raise PatchError("the test failed")
            return document
    source = _pointer(0, operation, "from")
    value = _get(document, source, missing_is_null=kind == "copy")
    if kind == "move":
        if path[: len(source)] == source and len(path) > len(source):
            raise PatchError("a value cannot be moved into itself")
        document = _remove(document, source)
    return _add(document, path, value)


def _get(document: Any, path: list[str], *, missing_is_null: bool = False) -> Any:
    for depth, token in enumerate(path):
        last = depth == len(path) - 1
        if isinstance(document, dict):
            if token not in document:
                if last and missing_is_null:
                    return None
                raise PatchError(f"there is no {token!r}")
            document = document[token]
        elif isinstance(document, list):
            document = document[_index(token, len(document))]
        else:
            raise PatchError(f"there is no {token!r} in a plain value")
    return document


def _edit(document: Any, path: list[str], change: Callable[[Any, str], None]) -> Any:
    """The document with copies of all containers on the path, the last of them changed."""
    token = path[0]
    if not isinstance(document, dict | list):
        raise PatchError(f"there is no {token!r} in a plain value")
    copy = document.copy()
    if len(path) == 1:
        change(copy, token)
    elif isinstance(copy, dict):
        if token not in copy:
            raise PatchError(f"there is no {token!r}")
        copy[token] = _edit(copy[token], path[1:], change)
    else:
        index = _index(token, len(copy))
        copy[index] = _edit(copy[index], path[1:], change)
    return copy


def _add(document: Any, path: list[str], value: Any) -> Any:
    def change(container: Any, token: str) -> None:
        if isinstance(container, dict):
            container[token] = value
        elif token == "-":
            container.append(value)
        else:
            container.insert(_index(token, len(container) + 1), value)

    return _edit(document, path, change) if path else value


def _replace(document: Any, path: list[str], value: Any) -> Any:
    def change(container: Any, token: str) -> None:
        container[token if isinstance(container, dict) else _index(token, len(container))] = value

    return _edit(document, path, change) if path else value


def _remove(document: Any, path: list[str]) -> Any:
    def change(container: Any, token: str) -> None:
        if isinstance(container, list):
            del container[_index(token, len(container))]
        elif token in container:
            del container[token]
        else:
            raise PatchError(f"there is no {token!r}")

    if not path:
        raise PatchError("the whole document cannot be removed")
    return _edit(document, path, change)


def _index(token: str, length: int) -> int:
    if not _INDEX.fullmatch(token):
        raise PatchError(f"{token!r} is not an index")
    index = int(token)
    if index < 0:
        index += length
    if not 0 <= index < length:
        raise PatchError(f"index {token} is outside of the list")
    return index


def same_json(a: Any, b: Any) -> bool:
    """Whether two JSON values are the same; unlike `==`, true is not 1."""
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same_json(value, b[key]) for key, value in a.items())
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same_json, a, b))
    return isinstance(a, bool) is isinstance(b, bool) and bool(a == b)
