"""What is wrong with an object, field by field, in the words kubectl users know."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson

from kuberay.kube.errors import Invalid, StatusCause, StatusDetails

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kuberay.kube.resources import Resource


@dataclass(frozen=True, slots=True)
class Problem:
    """One refusal: the path of the field, a reason for programs and a message for people."""

    field: str
    reason: str
    message: str


def required(field: str, detail: str = "") -> Problem:
    """The field must be there."""
    return Problem(field, "FieldValueRequired", f"Required value: {detail}" if detail else "Required value")


def invalid(field: str, value: Any, detail: str) -> Problem:
    """The field has a value that it cannot have."""
    return Problem(field, "FieldValueInvalid", f"Invalid value: {_shown(value)}: {detail}")


def wrong_type(field: str, value: Any, wanted: str) -> Problem:
    """The field is of another JSON type."""
    found = _shown(_type_name(value))
    text = f"Invalid value: {found}: {field} in body must be of type {wanted}: {found}"
    return Problem(field, "FieldValueTypeInvalid", text)


def unsupported(field: str, value: Any, supported: Iterable[Any]) -> Problem:
    """The field knows a few values, and this is none of them."""
    values = ", ".join(_shown(one) for one in supported)
    return Problem(field, "FieldValueNotSupported", f"Unsupported value: {_shown(value)}: supported values: {values}")


def duplicate(field: str, value: Any) -> Problem:
    """The value stands in the list already."""
    return Problem(field, "FieldValueDuplicate", f"Duplicate value: {_shown(value)}")


def forbidden(field: str, detail: str) -> Problem:
    """The field may not be set, or not changed."""
    return Problem(field, "FieldValueForbidden", f"Forbidden: {detail}")


def refusal(resource: Resource, name: str, problems: list[Problem]) -> Invalid:
    """The 422 that names every problem."""
    shown = f"{resource.kind}.{resource.group}" if resource.group else resource.kind
    texts = [f"{problem.field}: {problem.message}" for problem in problems]
    text = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    causes = [StatusCause(reason=p.reason, message=p.message, field=p.field) for p in problems]
    details = StatusDetails(name=name, group=resource.group, kind=resource.kind, causes=causes)
    return Invalid(f'{shown} "{name}" is invalid: {text}', details=details)


def _shown(value: Any) -> str:
    return orjson.dumps(value).decode()


def _type_name(value: Any) -> str:
    match value:
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
        case None:
            return "null"
        case _:
            return "object"
