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
from kuberay.api.problems import Problem, child, shown

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kuberay.api.expressions import Rule

    Schema = dict[str, Any]

_RANGES = {"int32": (-(2**31), 2**31 - 1), "int64": (-(2**63), 2**63 - 1)}
_LONGEST_FIELD = 64
_DATE_TIME = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)\Z", re.ASCII)
_TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
}
_NAMES = {
    "object": "an object",
    "array": "a list",
    "string": "a string",
    "boolean": "a boolean",
    "integer": "an integer",
    "number": "a number",
}


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


def problems(value: Any, schema: Schema, before: Any = None, path: str = "") -> Iterator[Problem]:
    """What is wrong with a value, fields that the schema does not know included.

    :param before: the value that this one replaces, for rules about changes.
    """
    if "type" not in schema and not _is_int_or_string(schema):
        return
    if value is None:
        if not schema.get("nullable"):
            yield Problem(path, f"expected {_expected(schema)}, got null")
        return
    if not _has_type(value, schema):
        yield Problem(path, f"expected {_expected(schema)}, got {kind_of(value)}")
        return
    if isinstance(value, dict):
        yield from _object_problems(value, schema, before, path)
    elif isinstance(value, list):
        yield from _list_problems(value, schema, path)
    elif isinstance(value, str):
        yield from _text_problems(value, schema, path)
    elif not isinstance(value, bool):
        yield from _number_problems(value, schema, path)
    if value not in schema.get("enum", (value,)):
        yield Problem(path, f"must be one of {', '.join(map(repr, schema['enum']))}, got {shown(value)}")
    for entry in schema.get("x-kubernetes-validations", ()):
        rule = _rule(entry["rule"])
        if (before is not None or not rule.uses_old) and not _holds(rule, value, before):
            yield Problem(path, entry["message"])


@cache
def _rule(text: str) -> Rule:
    return compile_rule(text)


def _holds(rule: Rule, value: Any, before: Any) -> bool:
    try:
        return rule.holds(value, before)
    except RuleError:
        return False  # it asks for something that is of another type or not there


def _expected(schema: Schema) -> str:
    return "an integer or a string" if _is_int_or_string(schema) else _NAMES[schema["type"]]


def _is_int_or_string(schema: Schema) -> bool:
    return bool(schema.get("x-kubernetes-int-or-string"))


def _has_type(value: Any, schema: Schema) -> bool:
    wanted = ("integer", "string") if _is_int_or_string(schema) else (schema["type"],)
    if isinstance(value, bool):
        return "boolean" in wanted
    if isinstance(value, float) and "integer" in wanted:
        return value.is_integer()
    return any(isinstance(value, _TYPES[name]) for name in wanted)


def _object_problems(value: dict[str, Any], schema: Schema, before: Any, path: str) -> Iterator[Problem]:
    fields, rest = schema.get("properties"), schema.get("additionalProperties")
    earlier = before if isinstance(before, dict) else {}
    for key, member in value.items():
        inner = (fields or {}).get(key, rest)
        if isinstance(inner, dict):
            yield from problems(member, inner, earlier.get(key), child(path, key))
        elif fields is not None and not schema.get("x-kubernetes-preserve-unknown-fields") and member is not None:
            yield Problem(child(path, key), _unknown_field(key, fields))
    for key in schema.get("required", ()):
        if key not in value:
            yield Problem(child(path, key), "is required")


def _unknown_field(key: str, fields: Schema) -> str:
    if len(key) > _LONGEST_FIELD:
        return "unknown field"
    known = {name.lower(): name for name in fields}
    close = get_close_matches(key.lower(), known, n=1, cutoff=0.7)
    return f"unknown field; did you mean {known[close[0]]}?" if close else "unknown field"


def _list_problems(value: list[Any], schema: Schema, path: str) -> Iterator[Problem]:
    if len(value) < schema.get("minItems", 0):
        yield Problem(path, f"must have at least {schema['minItems']} element(s)")
    for index, element in enumerate(value):
        yield from problems(element, schema["items"], None, child(path, index))
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
            yield Problem(child(path, index), f"duplicate of {child(path, first)}: {said}")


def _text_problems(value: str, schema: Schema, path: str) -> Iterator[Problem]:
    if len(value) < schema.get("minLength", 0):
        yield Problem(path, f"must have at least {schema['minLength']} character(s)")
    if len(value) > schema.get("maxLength", len(value)):
        yield Problem(path, f"must have at most {schema['maxLength']} characters, has {len(value)}")
        return
    pattern = schema.get("pattern")
    if pattern and not _compiled(pattern).search(value):
        what = "a quantity like 500m or 2Gi" if _is_int_or_string(schema) else f"text that matches {pattern}"
        yield Problem(path, f"expected {what}, got {shown(value)}")
    if schema.get("format") == "date-time" and not _DATE_TIME.match(value):
        yield Problem(path, f"expected a time like 2026-01-31T12:00:00Z, got {shown(value)}")


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    # `$` means the very end here, as it does for an API server, not the end before a final newline.
    return re.compile(re.sub(r"\$\Z", r"\\Z", pattern), re.ASCII)


def _number_problems(value: float, schema: Schema, path: str) -> Iterator[Problem]:
    # No integer of an API server is wider than 64 bits, whatever its schema says.
    low, high = _RANGES.get(schema.get("format", "int64"), _RANGES["int64"])
    if not low <= value <= high:
        yield Problem(path, f"must be from {low} to {high}, got {value}")
    minimum = schema.get("minimum")
    if minimum is not None and value < minimum:
        yield Problem(path, f"must be at least {minimum}, got {value}")
