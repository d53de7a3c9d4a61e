"""YAML documents with the line of every member, read the way kubectl reads them.

Built on the parser's events and not on its object constructor: values become what JSON has (a date stays text, `1:30`
is no number), repeated keys are noticed, and neither deep nesting nor aliases that multiply can bring the reader down
(the constructor ends the whole process on some ten thousand open brackets).
"""

from __future__ import annotations

import contextlib
import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import yaml

from kuberay.api.problems import child

if TYPE_CHECKING:
    from collections.abc import Iterator

DEEPEST = 200
"""Levels of nesting; no Kubernetes object comes near."""
LARGEST = 2_000_000
"""Values in one document, aliases counted each time they are used."""

_TAG = "tag:yaml.org,2002:"


class Unreadable(Exception):
    """Not YAML, or not something JSON can hold; `line` is where."""

    def __init__(self, line: int, message: str) -> None:
        super().__init__(message)
        self.line = line


@dataclass(slots=True)
class Document:
    """A document as JSON values, with where everything stands."""

    value: Any
    line: int
    lines: dict[int, dict[str | int, int]] = field(default_factory=dict)
    """By identity of an object or list: the line of each of its members."""
    repeated: list[tuple[str, int, int]] = field(default_factory=list)
    """Keys that stand twice in one mapping: the path, the line, and the line of the first."""
    doubtful: list[tuple[str, int, str]] = field(default_factory=list)
    """Values without quotes that are text to most readers and a boolean to kubectl: the path, the line, the text."""

    def line_of(self, path: str) -> int:
        """The line of a field, or of the nearest thing around it that is there."""
        value, line, rest = self.value, self.line, path
        while rest:
            step = self._step(value, rest)
            if step is None:
                return line
            key, rest = step
            line = self.lines.get(id(value), {}).get(key, line)
            value = value[key]
        return line

    def _step(self, value: Any, path: str) -> tuple[Any, str] | None:
        """The member a path starts with, and what is left of the path behind it."""
        if isinstance(value, list):
            index = re.match(r"\[([0-9]{1,9})\]\.?", path)
            return (int(index[1]), path[index.end() :]) if index and int(index[1]) < len(value) else None
        keys = value if isinstance(value, dict) else ()
        found = [(written, key) for key in keys if path.startswith(written := child("", key))]
        for written, key in sorted(found, key=lambda each: -len(each[0])):
            rest = path[len(written) :]
            if not rest or rest[0] in ".[":
                return key, rest.removeprefix(".")
        return None


def read(text: str) -> Iterator[Document]:
    """The documents of a text, one by one; empty ones are left out.

    :raises Unreadable: when the text goes wrong; documents before that have been handed out.
    """
    loader = yaml.CSafeLoader(text)
    try:
        while True:
            event = loader.get_event()
            if event is None or isinstance(event, yaml.StreamEndEvent):
                return
            if isinstance(event, yaml.DocumentStartEvent):
                document = _Reader(loader).document()
                if document.value is not None:
                    yield document
    except yaml.YAMLError as error:
        yield from _as_json(text, error)
    finally:
        loader.dispose()


def _as_json(text: str, error: yaml.YAMLError) -> Iterator[Document]:
    """JSON may escape a character in two halves, which YAML refuses: try it before giving up; its lines are unknown."""
    if text.lstrip().startswith("{"):
        with contextlib.suppress(ValueError, RecursionError):
            value = json.loads(text, parse_constant=_refuse)
            if _depth(value) <= DEEPEST:
                yield Document(value, 1)
                return
    mark = getattr(error, "problem_mark", None)
    message = str(getattr(error, "problem", None) or getattr(error, "reason", None) or error).splitlines()[0]
    lines = text.splitlines() or [""]
    # What is missing at the end is told for the line behind the last.
    line = min(mark.line + 1 if mark else 1, len(lines))
    if re.match(r"\s*\t", lines[line - 1]):
        message += "; indent with spaces, not with tabs"
    raise Unreadable(line, f"not YAML: {message}") from error


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


def _depth(value: Any) -> int:
    """How deep the collections of a value lie in each other."""
    deepest, waiting = 0, [(value, 1)]
    while waiting:
        each, level = waiting.pop()
        if isinstance(each, dict | list):
            deepest = max(deepest, level)
            waiting += [(inner, level + 1) for inner in (each.values() if isinstance(each, dict) else each)]
    return deepest


@dataclass(slots=True)
class _Open:
    """A collection that is being read."""

    value: Any
    path: str
    line: int
    anchor: str | None
    key: Any = None
    key_line: int = 0
    has_key: bool = False
    size: int = 1
    merged: list[dict[str, Any]] = field(default_factory=list)


class _Reader:
    """Puts one document together from events."""

    def __init__(self, loader: yaml.CSafeLoader) -> None:
        self._loader = loader
        self._document = Document(None, 0)
        self._open: list[_Open] = []
        self._anchors: dict[str, tuple[Any, int]] = {}

    def document(self) -> Document:
        while (event := self._loader.get_event()) is not None and not isinstance(event, yaml.DocumentEndEvent):
            line = event.start_mark.line + 1 if event.start_mark else 0
            self._document.line = self._document.line or line
            match event:
                case yaml.ScalarEvent():
                    if event.value in _DOUBTFUL and event.implicit[0] and self._open and self._open[-1].has_key:
                        path = child(self._open[-1].path, self._open[-1].key)
                        self._document.doubtful.append((path, line, event.value))
                    self._add(_scalar(event, line), 1, line, event.anchor)
                case yaml.AliasEvent():
                    if event.anchor not in self._anchors:
                        raise Unreadable(line, f"not YAML: *{event.anchor} refers to itself or to nothing before it")
                    self._add(*self._anchors[event.anchor], line)
                case yaml.MappingStartEvent() | yaml.SequenceStartEvent():
                    self._start({} if isinstance(event, yaml.MappingStartEvent) else [], line, event.anchor)
                case yaml.MappingEndEvent() | yaml.SequenceEndEvent():
                    self._end()
        return self._document

    def _start(self, value: Any, line: int, anchor: str | None) -> None:
        if len(self._open) >= DEEPEST:
            raise Unreadable(line, f"nested deeper than {DEEPEST} levels")
        around = self._open[-1] if self._open else None
        if around is not None and isinstance(around.value, dict) and not around.has_key:
            raise Unreadable(line, "the key of a mapping must be text")
        path = ""
        if around is not None:
            path = child(around.path, len(around.value) if isinstance(around.value, list) else around.key)
        self._document.lines[id(value)] = {}
        self._open.append(_Open(value, path, line, anchor))

    def _end(self) -> None:
        closed = self._open.pop()
        for merged in closed.merged:
            for key, value in merged.items():
                closed.value.setdefault(key, value)
                self._document.lines[id(closed.value)].setdefault(key, closed.line)
        self._add(closed.value, closed.size, closed.line, closed.anchor)

    def _add(self, value: Any, size: int, line: int, anchor: str | None = None) -> None:
        if anchor is not None:
            self._anchors[anchor] = (value, size)
        if not self._open:
            self._document.value = value
            return
        around = self._open[-1]
        around.size += size
        if around.size > LARGEST:
            raise Unreadable(line, f"more than {LARGEST} values once its aliases are followed")
        lines = self._document.lines[id(around.value)]
        if isinstance(around.value, list):
            lines.setdefault(len(around.value), line)
            around.value.append(value)
        elif not around.has_key:
            around.key, around.key_line, around.has_key = self._key(value, line), line, True
        else:
            self._set(around, lines, value)

    def _key(self, value: Any, line: int) -> str:
        if isinstance(value, dict | list):
            raise Unreadable(line, "the key of a mapping must be text")
        return value if isinstance(value, str) else json.dumps(value)

    def _set(self, around: _Open, lines: dict[str | int, int], value: Any) -> None:
        key, around.has_key = around.key, False
        if key == "<<":
            around.merged += [
                each for each in (value if isinstance(value, list) else [value]) if isinstance(each, dict)
            ]
            return
        if key in around.value:
            self._document.repeated.append((child(around.path, key), around.key_line, lines[key]))
        else:
            lines[key] = around.key_line
        around.value[key] = value


def _scalar(event: yaml.ScalarEvent, line: int) -> Any:
    """A scalar as kubectl sends it: only what stands without quotes, or says so by a tag, is anything but text."""
    text: str = event.value
    tag = event.tag
    if tag in (None, "!"):
        plain = tag is None and event.implicit[0]
        return _resolved(text, line) if plain else text
    return _resolved(text, line) if tag.removeprefix(_TAG) in ("null", "bool", "int", "float") else text


def _resolved(text: str, line: int) -> Any:
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in "+-.0123456789":
        return text
    if len(text) > _LONGEST_NUMBER:
        return text
    digits = text.replace("_", "")
    if _OCTAL.fullmatch(digits):
        return int(digits, 8)
    if _INTEGER.fullmatch(digits):
        return int(digits, 0)
    if _FLOAT.fullmatch(digits):
        number = float(digits)
        return text if number in (float("inf"), float("-inf")) else number
    if _NO_NUMBER.fullmatch(text):
        raise Unreadable(line, f"{text} is not a number that JSON has")
    return text


_WORDS: dict[str, bool | None] = {
    **dict.fromkeys(["", "~", "null", "Null", "NULL"]),
    **dict.fromkeys(["yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"], True),
    **dict.fromkeys(["no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"], False),
}
_LONGEST_NUMBER = 300
_DOUBTFUL = frozenset("yYnN")
_OCTAL = re.compile(r"[-+]?0[0-7]+")
_INTEGER = re.compile(r"[-+]?(0|[1-9][0-9]*|0[xX][0-9a-fA-F]+|0[oO][0-7]+|0[bB][01]+)")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_NO_NUMBER = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
