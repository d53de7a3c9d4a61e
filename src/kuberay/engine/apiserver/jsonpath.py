"""The paths of `additionalPrinterColumns`: fields, indexes, `[*]` and `[?(@.field=="value")]`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_STEP = re.compile(
    r"\.(?P<field>(?:\\.|[^.\[\\])+)"
    r"|\[(?P<quote>['\"])(?P<quoted>.*?)(?P=quote)\]"
    r"|\[(?P<index>-?\d+|\*)\]"
    r"|\[\?\(\s*@(?P<key>(?:\.[^.=!\s)]+)+)\s*(?P<operator>==|!=)\s*(?P<wanted>\"[^\"]*\"|'[^']*'|[^)\s]+)\s*\)\]"
)


class PathError(ValueError):
    """A path that is not understood; the message shows it."""


def compile_path(text: str) -> Callable[[Any], list[Any]]:
    """All values that a path leads to, in order.

    :raises PathError: the path uses something else.
    """
    steps: list[Callable[[Any], Iterator[Any]]] = []
    path = text.strip().removeprefix("{").removesuffix("}").removeprefix("$")
    position = 0
    while position < len(path):
        match = _STEP.match(path, position)
        if match is None:
            raise PathError(f"{text!r}: {path[position:]!r} is not understood")
        steps.append(_step(match))
        position = match.end()

    def find(value: Any) -> list[Any]:
        found = [value]
        for step in steps:
            found = [below for above in found for below in step(above)]
        return found

    return find


def _step(match: re.Match[str]) -> Callable[[Any], Iterator[Any]]:
    if match["key"]:
        return _matching(match["key"].split(".")[1:], match["operator"] == "==", match["wanted"].strip("\"'"))
    if match["index"] == "*":
        return lambda value: iter(
            value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
        )
    if match["index"]:
        return _at(int(match["index"]))
    return _named(match["quoted"] if match["quoted"] is not None else re.sub(r"\\(.)", r"\1", match["field"]))


def _named(name: str) -> Callable[[Any], Iterator[Any]]:
    return lambda value: iter((value[name],) if isinstance(value, dict) and name in value else ())


def _at(index: int) -> Callable[[Any], Iterator[Any]]:
    return lambda value: iter(value[index:][:1] if isinstance(value, list) and -len(value) <= index else ())


def _matching(keys: list[str], equal: bool, wanted: str) -> Callable[[Any], Iterator[Any]]:
    def step(value: Any) -> Iterator[Any]:
        for item in value if isinstance(value, list) else ():
            found = item
            for key in keys:
                found = found.get(key) if isinstance(found, dict) else None
            text = str(found).lower() if isinstance(found, bool) else str(found)
            if (text == wanted) is equal:
                yield item

    return step
