"""Structural schemas (the OpenAPI v3 subset of CRDs) made from the API types and the facts on their fields."""

from __future__ import annotations

from types import NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, Union, get_args, get_origin, get_type_hints

import msgspec

from kuberay.api.facts import Facts
from kuberay.api.meta import ObjectMeta
from kuberay.api.model import Model

if TYPE_CHECKING:
    from collections.abc import Callable

    Schema = dict[str, Any]
    Embed = Callable[[str], Schema]

QUANTITY_PATTERN = (
    r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))"
    r"(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$"
)


def quantity_schema() -> Schema:
    """A quantity: a whole number, or a text with a suffix."""
    return {
        "anyOf": [{"type": "integer"}, {"type": "string"}],
        "pattern": QUANTITY_PATTERN,
        "x-kubernetes-int-or-string": True,
    }


def schema_of(kind: type[Model], embed: Embed) -> Schema:
    """The schema of an API type.

    :param embed: the schema for a Kubernetes type of a given name (`PodTemplateSpec`).
    """
    hints = get_type_hints(kind, include_extras=True)
    properties: Schema = {}
    required: list[str] = []
    for field in msgspec.structs.fields(kind):
        if field.name == "extra":
            continue
        hint, facts = _split(hints[field.name])
        properties[field.encode_name] = _field_schema(hint, facts, embed)
        if any(fact.required for fact in facts):
            required.append(field.encode_name)
    schema: Schema = {"type": "object", "properties": dict(sorted(properties.items()))}
    if required:
        schema["required"] = sorted(required)
    return schema


def _split(hint: Any) -> tuple[Any, tuple[Facts, ...]]:
    if get_origin(hint) is Annotated:
        inner, *marks = get_args(hint)
        return inner, tuple(mark for mark in marks if isinstance(mark, Facts))
    return hint, ()


def _field_schema(hint: Any, facts: tuple[Facts, ...], embed: Embed) -> Schema:
    embeds = next((fact.embeds for fact in facts if fact.embeds), None)
    schema = _type_schema(hint, facts, embed if embeds is None else (lambda _kind: embed(embeds)))
    for fact in facts:
        _apply(fact, schema)
    return schema


def _type_schema(hint: Any, facts: tuple[Facts, ...], embed: Embed) -> Schema:
    hint, more = _split(hint)
    if more:
        return _field_schema(hint, more, embed)
    if get_origin(hint) in (Union, UnionType):
        choices = [choice for choice in get_args(hint) if choice is not NoneType]
        if len(choices) == 1:
            return _type_schema(choices[0], facts, embed)
        if any(fact.format == "quantity" for fact in facts):
            return quantity_schema()
        raise TypeError(f"no schema for {hint}")
    if hint is ObjectMeta:
        # An API server checks an object's own metadata by itself.
        return {"type": "object"}
    if isinstance(hint, type) and issubclass(hint, Model):
        return schema_of(hint, embed)
    if get_origin(hint) is list:
        return {"type": "array", "items": _type_schema(get_args(hint)[0], facts, embed)}
    if get_origin(hint) is dict:
        values = get_args(hint)[1]
        if values is Any:
            return dict(embed(""))
        return {"type": "object", "additionalProperties": _type_schema(values, (), embed)}
    return {"type": _TYPES[hint]}


_TYPES: dict[Any, str] = {str: "string", int: "integer", bool: "boolean", float: "number"}


def _apply(facts: Facts, schema: Schema) -> None:
    """Write what is known about a field into its schema."""
    if facts.format and facts.format != "quantity":
        schema["format"] = facts.format
    if facts.enum:
        schema["enum"] = list(facts.enum)
    if facts.nullable:
        schema["nullable"] = True
    if facts.list_keys:
        schema["x-kubernetes-list-map-keys"] = list(facts.list_keys)
    if facts.rules:
        schema["x-kubernetes-validations"] = [{"rule": cel.rule, "message": cel.message} for cel in facts.rules]
    plain = {
        "default": facts.default,
        "minimum": facts.minimum,
        "minLength": facts.min_length,
        "maxLength": facts.max_length,
        "minItems": facts.min_items,
        "pattern": facts.pattern,
        "x-kubernetes-list-type": facts.list_type,
    }
    schema.update({key: value for key, value in plain.items() if value is not None})
