"""Schemas of the Kubernetes types: those that our CRDs embed, and those that the local API server serves itself.

`kubernetes.json` beside this module holds their structure; `scripts/embed_kubernetes_schemas.py` writes it from
Kubernetes' own OpenAPI documents.
"""

from __future__ import annotations

import pkgutil
from functools import cache
from typing import TYPE_CHECKING, Any, cast

import msgspec

from kuberay.api.meta import Condition
from kuberay.api.schema import quantity_schema, schema_of

if TYPE_CHECKING:
    from collections.abc import Callable

    Schema = dict[str, Any]

_GROUPS = ("core.v1", "networking.v1", "meta.v1")
_TEXTS = {"additionalProperties": {"type": "string"}, "type": "object"}
_METADATA = {
    "properties": {
        "annotations": _TEXTS,
        "finalizers": {"items": {"type": "string"}, "type": "array"},
        "labels": _TEXTS,
        "name": {"type": "string"},
        "namespace": {"type": "string"},
    },
    "type": "object",
}
"""What may be said about an object that is made from a template; the rest is the API server's to say."""
_INT_OR_STRING = {"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": True}
_ATOMIC = ("ConfigMapEnvSource", "ConfigMapProjection", "ConfigMapVolumeSource", "SecretEnvSource", "SecretProjection")
"""Types that hold a reference to an object among their own fields, and are applied as one value for that reason."""
_WITHOUT_DEFAULT = {"AzureDiskVolumeSource": ("cachingMode", "kind")}
"""Defaults that Kubernetes fills in by code when a Pod is made; in a template they stay open."""
_PORT_ERROR = {
    "maxLength": 316,
    "pattern": (
        r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?"
        r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$"
    ),
}
"""What stands as a marker beside `PortStatus.error` in Kubernetes' source, and in no document of its API."""
_NOT_EMBEDDED = ("enum", "x-kubernetes-patch-merge-key", "x-kubernetes-patch-strategy")
"""What an API server that embeds these types in a CRD does not enforce, or does not know."""
_LARGE = ("PodTemplateSpec", "Service")
POINTER = "x-go-pointer"
"""Whether a field is a pointer in Go: one that is empty is not the same as none then. For `compared` only."""


@cache
def definitions() -> dict[str, Schema]:
    """All types by their short name, such as `core.v1.Pod`; references between them stay references."""
    return cast(dict[str, "Schema"], _content()["types"])


@cache
def embedded(kind: str) -> Schema:
    """The schema of a type, whole. It is shared: whoever changes it copies it first.

    :raises KeyError: our CRDs embed no type of this name.
    """
    match kind:
        case "Quantity":
            return quantity_schema()
        case "Condition":
            return schema_of(Condition, embedded)
        case "ObjectMeta":
            return _METADATA
    return _whole(kind, embedded)


@cache
def compared(kind: str) -> Schema:
    """The same for whoever compares values: each field of Kubernetes' own says whether it is a `POINTER`."""
    if kind in ("Quantity", "Condition", "ObjectMeta"):
        return embedded(kind)
    schema = _whole(kind, compared)
    pointers = _content()["pointers"].get(_name(kind), ())
    if "properties" in schema:
        fields = schema["properties"].items()
        schema["properties"] = {field: {**inner, POINTER: field in pointers} for field, inner in fields}
    return schema


def slim(kind: str, embed: Callable[[str], Schema] = embedded) -> Schema:
    """The same with Pod templates and Services left open: they are nearly all of a CRD's size."""
    return {"type": "object", "x-kubernetes-preserve-unknown-fields": True} if kind in _LARGE else embed(kind)


@cache
def _content() -> dict[str, Any]:
    body = pkgutil.get_data("kuberay.api", "kubernetes.json")
    if body is None:
        raise FileNotFoundError("kubernetes.json is missing from the package kuberay.api")
    return cast(dict[str, Any], msgspec.json.decode(body))


def _name(kind: str) -> str:
    return next((name for group in _GROUPS if (name := f"{group}.{kind}") in definitions()), kind)


def _whole(kind: str, embed: Callable[[str], Schema]) -> Schema:
    schema = _resolved(definitions()[_name(kind)], embed)
    if kind in _ATOMIC:
        schema["x-kubernetes-map-type"] = "atomic"
    if kind == "PortStatus":
        # Every generator of CRDs takes the field for required: its marker says so, though the API server does not.
        schema["properties"]["error"] |= _PORT_ERROR
        schema["required"] = ["error", *schema["required"]]
    for field in _WITHOUT_DEFAULT.get(kind, ()):
        del schema["properties"][field]["default"]
    return schema


def _resolved(schema: Schema, embed: Callable[[str], Schema]) -> Schema:
    if "$ref" in schema:
        return embed(schema["$ref"].rpartition(".")[2])
    if schema.get("x-kubernetes-quantity"):
        return embedded("Quantity")
    if schema.get("x-kubernetes-int-or-string"):
        return _INT_OR_STRING
    whole = {key: value for key, value in schema.items() if key not in _NOT_EMBEDDED}
    if "properties" in whole:
        whole["properties"] = {name: _resolved(value, embed) for name, value in whole["properties"].items()}
    for key in ("items", "additionalProperties"):
        if key in whole:
            whole[key] = _resolved(whole[key], embed)
    return whole
