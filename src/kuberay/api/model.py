"""The base of all API types: msgspec Structs that lose nothing of what they were read from.

A manifest may hold fields that this version does not know, at any level; whoever reads an object here and writes it
back must not drop them. So each object carries the members it has no attribute for in `extra`, and `to_dict` puts
them back. `extra` also remembers members that were written out although they mean the same as leaving them away
(`null`, or an empty list or map where that is the attribute's default): absent stays absent, empty stays empty.

Kubernetes' own objects (Pod templates, Services, environment variables...) are plain dicts, shared and never copied.

These types also decode natively (`msgspec.json.decode(body, type=RayCluster)`), which is what caches use: faster, and
without `extra`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, NamedTuple, Union, get_args, get_origin, get_type_hints

import msgspec

from kuberay.api.problems import Path, Problem, with_group_names, written

if TYPE_CHECKING:
    from typing import Self


class DecodeError(ValueError):
    """The data is not an object of this type; `problems` tells each place."""

    def __init__(self, problems: list[Problem]) -> None:
        self.problems = problems
        super().__init__("; ".join(map(str, problems)))


class Model(msgspec.Struct, frozen=True, kw_only=True, gc=False, rename="camel", omit_defaults=True):
    """A frozen object of the API: snake_case in Python, camelCase on the wire."""

    # The name on the wire is one that no manifest uses; only native decoding and encoding would see it.
    extra: dict[str, Any] = msgspec.field(default_factory=dict, name="<extra>")
    """Members this version does not know, and members written out with a value that means absent."""

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """Read an object, keeping what is unknown.

        :raises DecodeError: a known field has a value of the wrong type, or one without which the type makes no sense
            is missing; all such fields are named.
        """
        problems: list[Problem] = []
        decoded = _decode(cls, data, "", problems)
        if problems:
            raise DecodeError(with_group_names(problems, data))
        return decoded  # type: ignore[no-any-return]

    @classmethod
    def from_json(cls, body: bytes | str) -> Self:
        """Read an object from JSON text.

        :raises DecodeError: it is not JSON, or a known field has a value of the wrong type.
        """
        try:
            data = msgspec.json.decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise DecodeError([Problem("", f"not JSON: {error}")]) from error
        return cls.from_dict(data)

    def to_dict(self) -> dict[str, Any]:
        """The object as JSON values: everything that was read, with the attributes' present values."""
        return _encode(self, whole=True)

    def known(self) -> dict[str, Any]:
        """The same without `extra`: only what this version makes something of. Two that decode alike are alike."""
        return _encode(self, whole=False)

    def to_json(self) -> bytes:
        """The object as JSON text."""
        return msgspec.json.encode(self.to_dict())


_Reader = Callable[[Any, Path, list[Problem]], Any]
_Writer = Callable[[Any, bool], Any]
"""Takes the value, and whether `extra` is written, too."""


class _Member(NamedTuple):
    attribute: str
    wire: str
    decode: _Reader
    encode: _Writer | None
    omit_empty: bool
    required: bool


def _decode(cls: type[Model], data: Any, path: Path, problems: list[Problem]) -> Any:
    if type(data) is not dict:
        problems.append(_mismatch(path, "an object", data))
        return None
    members = _members(cls)
    values: dict[str, Any] = {}
    extra: dict[str, Any] = {}
    for wire, value in data.items():
        member = members.get(wire)
        if member is None or value is None:
            extra[wire] = value
            continue
        values[member.attribute] = member.decode(value, (path, wire), problems)
        if not value and member.omit_empty:
            extra[wire] = value
    problems.extend(
        Problem(written((path, member.wire)), "is required")
        for member in members.values()
        if member.required and member.attribute not in values
    )
    return None if problems else cls(extra=extra, **values)


def _encode(model: Model, whole: bool) -> dict[str, Any]:
    encoded: dict[str, Any] = {}
    for member in _members(type(model)).values():
        value = getattr(model, member.attribute)
        if value is None:
            continue
        if member.encode is not None:
            value = member.encode(value, whole)
        if value or not member.omit_empty:
            encoded[member.wire] = value
    for wire, value in model.extra.items() if whole else ():
        encoded.setdefault(wire, value)
    return encoded


@cache
def _members(cls: type[Model]) -> dict[str, _Member]:
    """How each field of a class is read and written, by its name on the wire."""
    hints = get_type_hints(cls)
    members = {}
    for field in msgspec.structs.fields(cls):
        if field.name == "extra":
            continue
        decode, encode = _codec(hints[field.name])
        omit_empty = field.default_factory is not msgspec.NODEFAULT
        members[field.encode_name] = _Member(
            field.name, field.encode_name, decode, encode, omit_empty, required=field.required
        )
    return members


def _codec(hint: Any) -> tuple[_Reader, _Writer | None]:
    """The reader and writer for a type; no writer means that the value is already JSON."""
    if get_origin(hint) in (Union, UnionType):
        choices = [choice for choice in get_args(hint) if choice is not NoneType]
        if len(choices) == 1:
            return _codec(choices[0])
        return _scalar(tuple(choices)), None
    if hint is Any:
        return (lambda value, _path, _problems: value), None
    if isinstance(hint, type) and issubclass(hint, Model):
        return (lambda value, path, problems: _decode(hint, value, path, problems)), _encode
    if get_origin(hint) is list:
        return _list(*_codec(get_args(hint)[0]))
    if get_origin(hint) is dict:
        return _map(*_codec(get_args(hint)[1]), verbatim=get_args(hint)[1] is Any)
    return _scalar((hint,)), None


def _list(decode: _Reader, encode: _Writer | None) -> tuple[_Reader, _Writer | None]:
    def read(value: Any, path: Path, problems: list[Problem]) -> Any:
        if type(value) is not list:
            problems.append(_mismatch(path, "a list", value))
            return []
        return [decode(element, (path, index), problems) for index, element in enumerate(value)]

    return read, None if encode is None else lambda value, whole: [encode(element, whole) for element in value]


def _map(decode: _Reader, encode: _Writer | None, *, verbatim: bool) -> tuple[_Reader, _Writer | None]:
    def read(value: Any, path: Path, problems: list[Problem]) -> Any:
        if type(value) is not dict:
            problems.append(_mismatch(path, "an object", value))
            return {}
        if verbatim:
            return value
        return {key: decode(element, (path, key), problems) for key, element in value.items()}

    if encode is None:
        return read, None
    return read, lambda value, whole: {key: encode(element, whole) for key, element in value.items()}


def _scalar(types: tuple[type, ...]) -> _Reader:
    expected = " or ".join(_NAMES[each] for each in types)

    def read(value: Any, path: Path, problems: list[Problem]) -> Any:
        found = type(value)
        if found in types:
            return value
        # JSON knows one kind of number: 1.0 is an integer there, and 1 is a number.
        if found is float and int in types and value.is_integer():
            return int(value)
        if found is int and float in types:
            return float(value)
        problems.append(_mismatch(path, expected, value))
        return None

    return read


_NAMES: dict[type, str] = {
    NoneType: "null",
    bool: "a boolean",
    int: "an integer",
    float: "a number",
    str: "a string",
    list: "a list",
    dict: "an object",
}


def kind_of(value: Any) -> str:
    """What a JSON value is, in words: `a string`, `an object`, `null`."""
    return _NAMES.get(type(value), f"a {type(value).__name__}")


def _mismatch(path: Path, expected: str, value: Any) -> Problem:
    return Problem(written(path), f"expected {expected}, got {kind_of(value)}")
