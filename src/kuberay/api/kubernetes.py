"""Schemas of the Kubernetes types that our CRDs embed: Pod templates, Services, and parts of them.

`kubernetes.json` beside this module holds their structure; `scripts/embed_kubernetes_schemas.py` writes it from
Kubernetes' own OpenAPI documents.
"""

from __future__ import annotations

import pkgutil
from functools import cache
from typing import TYPE_CHECKING, Any

import msgspec

from kuberay.api.meta import Condition
from kuberay.api.schema import quantity_schema, schema_of

if TYPE_CHECKING:
    Schema = dict[str, Any]


@cache
def _content() -> dict[str, Any]:
    body = pkgutil.get_data("kuberay.api", "kubernetes.json")
    if body is None:
        raise FileNotFoundError("kubernetes.json is missing from the package kuberay.api")
    content: dict[str, Any] = msgspec.json.decode(body)
    return content


@cache
def embedded(kind: str) -> Schema:
    """The schema of a type, whole. It is shared: whoever changes it copies it first.

    :raises KeyError: our CRDs embed no type of this name.
    """
    if kind == "Quantity":
        return quantity_schema()
    if kind == "Condition":
        return schema_of(Condition, embedded)
    schema: Schema = _resolved(_content()["types"][kind])
    return schema


def slim(kind: str) -> Schema:
    """The same with Pod templates and Services left open: they are nearly all of a CRD's size."""
    return {"type": "object", "x-kubernetes-preserve-unknown-fields": True} if kind in _LARGE else embedded(kind)


_LARGE = ("PodTemplateSpec", "Service")


def _resolved(schema: Any) -> Any:
    if isinstance(schema, dict):
        if "$ref" in schema:
            return embedded(schema["$ref"])
        return {key: _resolved(value) for key, value in schema.items()}
    return schema
