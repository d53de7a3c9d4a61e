#!/usr/bin/env python3
"""Write the structure of the Kubernetes types that we embed, serve or write into the package.

    scripts/embed_kubernetes_schemas.py [FOLDER]

FOLDER holds the source of Kubernetes; without it the module is fetched with Go (`go mod download`). Only structure is
taken: names, types, formats, enums, required fields, defaults, list and map topology, keys of patches. No texts.

The result is one JSON file: type name -> schema, where `{"$ref": NAME}` stands for another type of the file. CRDs embed
some of them (`kuberay.api.kubernetes`), and the local API server judges its own kinds by the others.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

VERSION = "1.36.3"
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
"""Which kinds are taken from which document, with all that they refer to."""
TARGET = Path(__file__).parents[1] / "src" / "kuberay" / "api" / "kubernetes.json"

KEPT = (
    "type", "format", "enum", "default",
    "x-kubernetes-list-type", "x-kubernetes-list-map-keys", "x-kubernetes-map-type",
    "x-kubernetes-patch-merge-key", "x-kubernetes-patch-strategy",
)  # fmt: skip
ANYTHING = {"x-kubernetes-preserve-unknown-fields": True}
SPECIAL: dict[str, dict[str, Any]] = {
    "api.resource.Quantity": {"x-kubernetes-quantity": True},
    "util.intstr.IntOrString": {"x-kubernetes-int-or-string": True},
    "meta.v1.FieldsV1": {"type": "object", **ANYTHING},
    "pkg.runtime.RawExtension": {"type": "object", **ANYTHING},
    "apiextensions.v1.JSON": ANYTHING,
    "apiextensions.v1.JSONSchemaPropsOrArray": ANYTHING,
    "apiextensions.v1.JSONSchemaPropsOrBool": ANYTHING,
    "apiextensions.v1.JSONSchemaPropsOrStringArray": ANYTHING,
}
"""Types that are written in several ways."""


def main() -> None:
    """Read, reduce, write."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else source()
    found: dict[str, Any] = {}
    for document, kinds in DOCUMENTS.items():
        path = folder / "api" / "openapi-spec" / "v3" / f"{document}_openapi.json"
        types = {short(name): schema for name, schema in json.loads(path.read_text())["components"]["schemas"].items()}
        waiting = [name for name in types if name.rpartition(".")[2] in kinds and not name.startswith("meta.")]
        while waiting:
            name = waiting.pop()
            if name not in found and name not in SPECIAL:
                found[name] = reduced(types[name], waiting)
    content = {"version": VERSION, "types": found}
    TARGET.write_text(json.dumps(content, separators=(",", ":"), sort_keys=True) + "\n")
    sys.stdout.write(f"{TARGET.name}: {len(found)} types, {TARGET.stat().st_size} bytes\n")


def source() -> Path:
    """The folder of Kubernetes' source in Go's module cache."""
    command = ["go", "mod", "download", "-json", f"k8s.io/kubernetes@v{VERSION}"]
    return Path(json.loads(subprocess.run(command, check=True, capture_output=True).stdout)["Dir"])


def short(reference: str) -> str:
    """`#/components/schemas/io.k8s.api.core.v1.Pod` is `core.v1.Pod`: the last three parts name a type well enough."""
    return ".".join(reference.rpartition("/")[2].split(".")[-3:])


def reduced(schema: dict[str, Any], references: list[str]) -> dict[str, Any]:
    """The structure of a schema; names of types it refers to are added to `references`."""
    if "$ref" in schema or "allOf" in schema:
        # `allOf` with one reference is how a default stands beside a reference; it is always the empty object.
        name = short(schema.get("$ref", "") or schema["allOf"][0]["$ref"])
        references.append(name)
        return SPECIAL.get(name, {"$ref": name})
    kept = {key: value for key, value in schema.items() if key in KEPT}
    required = schema.get("required", [])
    if required:
        kept["required"] = sorted(required)
    if "properties" in schema:
        kept["properties"] = {
            name: without_zero(reduced(value, references)) if name in required else reduced(value, references)
            for name, value in schema["properties"].items()
        }
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            kept[key] = without_zero(reduced(schema[key], references))
    return kept


def without_zero(schema: dict[str, Any]) -> dict[str, Any]:
    """Without the default that only says what Go fills in for a field that must be there anyway."""
    return {key: value for key, value in schema.items() if key != "default"}


if __name__ == "__main__":
    main()
