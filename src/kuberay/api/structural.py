"""What an API server does with an object and the structural schema of its CRD: fill in defaults, and find problems.

Everything here works on plain JSON values. It knows the parts of OpenAPI that our schemas use, no others; that it
agrees with a real kube-apiserver is tested, not assumed.
"""

from __future__ import annotations

import re
from difflib import get_close_matches
from functools import cache
from typing import TYPE_CHECKING, Any

from kuberay.api.expressions import RuleError, compile_rule
from kuberay.api.model import kind_of
from kuberay.api.problems import Problem, shown, written

if TYPE_CHECKING:
    from kuberay.api.expressions import Rule
    from kuberay.api.problems import Path

    Schema = dict[str, Any]

_RANGES = {"int32": (-(2**31), 2**31 - 1), "int64": (-(2**63), 2**63 - 1)}
_LONGEST_FIELD = 64
_DATE_TIME = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)\Z", re.ASCII)
_TYPES: dict[str, frozenset[type]] = {
    "object": frozenset((dict,)),
    "array": frozenset((list,)),
    "string": frozenset((str,)),
    "boolean": frozenset((bool,)),
    "integer": frozenset((int,)),
    "number": frozenset((int, float)),
}
_INT_OR_STRING = frozenset((int, str))
_NAMES = {
    "object": "an object",
    "array": "a list",
    "string": "a string",
    "boolean": "a boolean",
    "integer": "an integer",
    "number": "a number",
}


class UnknownField(Problem, frozen=True, gc=False):
    """A field that the schema does not know. An API server that is not asked to be strict drops it."""


def defaulted(value: Any, schema: Schema) -> Any:
    """The value with the schema's defaults filled in, and without nulls where the schema allows none.

    What does not change is shared with the value that was given.
    """
    if isinstance(value, dict):
        fields, rest = schema.get("properties", {}), schema.get("additionalProperties")
        result = {}
        for key, member in value.items():
            inner = fields.get(key, rest)
            if not isinstance(inner, dict):
                result[key] = member
            elif member is not None or inner.get("nullable"):
                result[key] = defaulted(member, inner)
        for key, inner in fields.items():
            if key not in result and "default" in inner:
                result[key] = inner["default"]
        return result
    if isinstance(value, list) and isinstance(schema.get("items"), dict):
        return [defaulted(element, schema["items"]) for element in value]
    return value


def problems(value: Any, schema: Schema, before: Any = None, path: Path = "") -> list[Problem]:
    """What is wrong with a value, fields that the schema does not know included.

    :param before: the value that this one replaces, for rules about changes.
    """
    found: list[Problem] = []
    _check(value, schema, before, path, found)
    return found


def _check(value: Any, schema: Schema, before: Any, path: Path, found: list[Problem]) -> None:
    kinds = _INT_OR_STRING if schema.get("x-kubernetes-int-or-string") else _TYPES.get(schema.get("type", ""))
    if kinds is None:
        return  # anything goes
    kind = type(value)
    if kind not in kinds and not (kind is float and int in kinds and value.is_integer()):
        if value is not None or not schema.get("nullable"):
            found.append(Problem(written(path), f"expected {_expected(schema)}, got {kind_of(value)}"))
        return
    if kind is str:
        _check_text(value, schema, path, found)
    elif kind is dict:
        _check_object(value, schema, before, path, found)
    elif kind is list:
        _check_list(value, schema, path, found)
    elif kind is not bool:
        _check_number(value, schema, path, found)
    choices = schema.get("enum")
    if choices is not None and value not in choices:
        found.append(Problem(written(path), f"must be one of {', '.join(map(repr, choices))}, got {shown(value)}"))
    for entry in schema.get("x-kubernetes-validations", ()):
        rule = _rule(entry["rule"])
        if (before is not None or not rule.uses_old) and not _holds(rule, value, before):
            found.append(Problem(written(path), entry["message"]))


@cache
def _rule(text: str) -> Rule:
    return compile_rule(text)


def _holds(rule: Rule, value: Any, before: Any) -> bool:
    try:
        return rule.holds(value, before)
    except RuleError:
        return False  # it asks for something that is of another type or not there


def _expected(schema: Schema) -> str:
    return "an integer or a string" if schema.get("x-kubernetes-int-or-string") else _NAMES[schema["type"]]


def _check_object(value: dict[str, Any], schema: Schema, before: Any, path: Path, found: list[Problem]) -> None:
    fields, rest = schema.get("properties"), schema.get("additionalProperties")
    known = fields or {}
    earlier = before if isinstance(before, dict) else {}
    for key, member in value.items():
        inner = known.get(key, rest)
        if isinstance(inner, dict):
            _check(member, inner, earlier.get(key), (path, key), found)
        elif fields is not None and not schema.get("x-kubernetes-preserve-unknown-fields") and member is not None:
            found.append(UnknownField(written((path, key)), _unknown_field(key, fields)))
    missing = (key for key in schema.get("required", ()) if key not in value)
    found.extend(Problem(written((path, key)), "is required") for key in missing)


def _unknown_field(key: str, fields: Schema) -> str:
    if len(key) > _LONGEST_FIELD:
        return "unknown field"
    known = {name.lower(): name for name in fields}
    close = get_close_matches(key.lower(), known, n=1, cutoff=0.7)
    return f"unknown field; did you mean {known[close[0]]}?" if close else "unknown field"


def _check_list(value: list[Any], schema: Schema, path: Path, found: list[Problem]) -> None:
    if len(value) < schema.get("minItems", 0):
        found.append(Problem(written(path), f"must have at least {schema['minItems']} element(s)"))
    for index, element in enumerate(value):
        _check(element, schema["items"], None, (path, index), found)
    keys = schema.get("x-kubernetes-list-map-keys")
    if not keys and schema.get("x-kubernetes-list-type") != "set":
        return
    seen: dict[str, int] = {}
    for index, element in enumerate(value):
        if keys and not isinstance(element, dict):
            continue
        identity = {key: element.get(key) for key in keys} if keys else {"": element}
        first = seen.setdefault(repr(identity), index)
        if first != index:
            said = ", ".join(f"{key} {shown(what)}".strip() for key, what in identity.items())
            found.append(Problem(written((path, index)), f"duplicate of {written((path, first))}: {said}"))


def _check_text(value: str, schema: Schema, path: Path, found: list[Problem]) -> None:
    if len(value) < schema.get("minLength", 0):
        found.append(Problem(written(path), f"must have at least {schema['minLength']} character(s)"))
    if len(value) > schema.get("maxLength", len(value)):
        message = f"must have at most {schema['maxLength']} characters, has {len(value)}"
        found.append(Problem(written(path), message))
        return
    pattern = schema.get("pattern")
    if pattern and not _compiled(pattern).search(value):
        is_amount = schema.get("x-kubernetes-int-or-string")
        what = "a quantity like 500m or 2Gi" if is_amount else f"text that matches {pattern}"
        found.append(Problem(written(path), f"expected {what}, got {shown(value)}"))
    if schema.get("format") == "date-time" and not _DATE_TIME.match(value):
        found.append(Problem(written(path), f"expected a time like 2026-01-31T12:00:00Z, got {shown(value)}"))


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    # `$` means the very end here, as it does for an API server, not the end before a final newline.
    return re.compile(re.sub(r"\$\Z", r"\\Z", pattern), re.ASCII)


def _check_number(value: float, schema: Schema, path: Path, found: list[Problem]) -> None:
    # No integer of an API server is wider than 64 bits, whatever its schema says.
    low, high = _RANGES.get(schema.get("format", "int64"), _RANGES["int64"])
    if not low <= value <= high:
        found.append(Problem(written(path), f"must be from {low} to {high}, got {shown(value)}"))
    minimum = schema.get("minimum")
    if minimum is not None and value < minimum:
        found.append(Problem(written(path), f"must be at least {minimum}, got {value}"))
