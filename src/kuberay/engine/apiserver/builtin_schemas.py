"""Schemas of the built-in kinds: names, types, enums and list keys, generated from Kubernetes' own OpenAPI documents.

They let the server refuse a misspelt field, a wrong type or an unknown enum value of a Pod exactly as it does for a
custom resource, by the same code (`schema`). `builtin_schemas.json` is made by

    python -m kuberay.engine.apiserver.builtin_schemas FOLDER > builtin_schemas.json

where FOLDER is `api/openapi-spec/v3` of the Go module `k8s.io/kubernetes`. It carries structure only, no description.
"""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path
from typing import Any

import orjson

_CORE = "Namespace Node Pod Service Secret ConfigMap ServiceAccount Binding Event PersistentVolumeClaim ResourceQuota"
DOCUMENTS = {
    "api__v1": tuple(_CORE.split()),
    "apis__events.k8s.io__v1": ("Event",),
    "apis__discovery.k8s.io__v1": ("EndpointSlice",),
    "apis__coordination.k8s.io__v1": ("Lease",),
    "apis__apiextensions.k8s.io__v1": ("CustomResourceDefinition",),
    "apis__batch__v1": ("Job",),
    "apis__networking.k8s.io__v1": ("Ingress", "NetworkPolicy"),
    "apis__scheduling.k8s.io__v1": ("PriorityClass",),
    "apis__rbac.authorization.k8s.io__v1": ("Role", "RoleBinding"),
}
"""Which kinds are taken from which document."""

ANYTHING = {"x-kubernetes-preserve-unknown-fields": True}
_SPECIAL: dict[str, Any] = {
    "api.resource.Quantity": {"x-kubernetes-quantity": True},
    "util.intstr.IntOrString": {"x-kubernetes-int-or-string": True},
    "meta.v1.FieldsV1": {"type": "object", **ANYTHING},
    "pkg.runtime.RawExtension": {"type": "object", **ANYTHING},
    "apiextensions.v1.JSON": ANYTHING,
    "apiextensions.v1.JSONSchemaPropsOrArray": ANYTHING,
    "apiextensions.v1.JSONSchemaPropsOrBool": ANYTHING,
    "apiextensions.v1.JSONSchemaPropsOrStringArray": ANYTHING,
}
_KEPT = (
    "type",
    "format",
    "enum",
    "required",
    "x-kubernetes-list-type",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-patch-merge-key",
    "x-kubernetes-patch-strategy",
)


@cache
def definitions() -> dict[str, Any]:
    """All definitions by their short name, such as `core.v1.Pod`; references between them stay references."""
    found: dict[str, Any] = orjson.loads(Path(__file__).with_suffix(".json").read_bytes())
    return found


def short_name(reference: str) -> str:
    """`#/components/schemas/io.k8s.api.core.v1.Pod` is `core.v1.Pod`: the last three parts name a type well enough."""
    return ".".join(reference.rpartition("/")[2].split(".")[-3:])


def compact(schema: dict[str, Any]) -> dict[str, Any]:
    """One definition without its texts and defaults, the wrappers around references taken off."""
    if "$ref" in schema:
        name = short_name(schema["$ref"])
        return dict(_SPECIAL[name]) if name in _SPECIAL else {"$ref": name}
    if len(schema.get("allOf", ())) == 1:
        return compact(schema["allOf"][0])
    kept = {key: schema[key] for key in _KEPT if key in schema}
    if "properties" in schema:
        kept["properties"] = {name: compact(value) for name, value in sorted(schema["properties"].items())}
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            kept[key] = compact(schema[key])
    return kept


def generate(folder: Path) -> dict[str, Any]:
    """The definitions of all kinds of `DOCUMENTS` and of what they refer to."""
    found: dict[str, Any] = {}
    for document, kinds in DOCUMENTS.items():
        schemas = orjson.loads((folder / f"{document}_openapi.json").read_bytes())["components"]["schemas"]
        by_name = {short_name(full): full for full in schemas}
        wanted = [short for short in by_name if short.split(".")[-1] in kinds and not short.startswith("meta.")]
        while wanted:
            name = wanted.pop()
            if name not in found and name not in _SPECIAL:
                found[name] = compact(schemas[by_name[name]])
                wanted += _references(found[name])
    return dict(sorted(found.items()))


def _references(schema: dict[str, Any]) -> list[str]:
    below = [*schema.get("properties", {}).values(), schema.get("items"), schema.get("additionalProperties")]
    own = [schema["$ref"]] if "$ref" in schema else []
    return own + [name for part in below if isinstance(part, dict) for name in _references(part)]


if __name__ == "__main__":
    sys.stdout.buffer.write(orjson.dumps(generate(Path(sys.argv[1])), option=orjson.OPT_APPEND_NEWLINE))
