#!/usr/bin/env python3
"""Write the structure of the Kubernetes types that we embed, serve or write into the package.

    scripts/embed_kubernetes_schemas.py [FOLDER]

FOLDER holds the source of Kubernetes; without it the module is fetched with Go (`go mod download`), as is k8s.io/api in
any case. Only structure is taken: names, types, formats, enums, required fields, defaults, list and map topology, keys
of patches, and which fields are pointers. No texts.

The result is one JSON file: type name -> schema, where `{"$ref": NAME}` stands for another type of the file. CRDs embed
some of them (`kuberay.api.kubernetes`), and the local API server judges its own kinds by the others. Beside them
stands, by type name, which fields are pointers: no schema tells that, and only of these an empty one is not none.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

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
POINTERS = ("core.v1", "networking.v1")
"""The groups whose types a RayCluster may hold."""
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
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else source(f"k8s.io/kubernetes@v{VERSION}")
    found: dict[str, Any] = {}
    for document, kinds in DOCUMENTS.items():
        path = folder / "api" / "openapi-spec" / "v3" / f"{document}_openapi.json"
        types = {short(name): schema for name, schema in json.loads(path.read_text())["components"]["schemas"].items()}
        waiting = [name for name in types if name.rpartition(".")[2] in kinds and not name.startswith("meta.")]
        while waiting:
            name = waiting.pop()
            if name not in found and name not in SPECIAL:
                found[name] = reduced(types[name], waiting)
    content = {"version": VERSION, "types": found, "pointers": pointers(source(f"k8s.io/api@v0{VERSION[1:]}"), found)}
    TARGET.write_text(json.dumps(content, separators=(",", ":"), sort_keys=True) + "\n")
    sys.stdout.write(f"{TARGET.name}: {len(found)} types, {TARGET.stat().st_size} bytes\n")


def source(module: str) -> Path:
    """The folder of a module's source in Go's module cache."""
    command = ["go", "mod", "download", "-json", module]
    return Path(json.loads(subprocess.run(command, check=True, capture_output=True).stdout)["Dir"])


def pointers(folder: Path, types: dict[str, Any]) -> dict[str, list[str]]:
    """The fields of types that are pointers, from the Go structs that the types were made from."""
    found = {}
    for group in POINTERS:
        text = (folder / group.replace(".", "/") / "types.go").read_text()
        structs = dict(re.findall(r"^type (\w+) struct {\n(.*?)^}", text, re.MULTILINE | re.DOTALL))
        for name in structs:
            fields = {field for field, is_pointer in fields_of(name, structs) if is_pointer}
            if fields and f"{group}.{name}" in types:
                found[f"{group}.{name}"] = sorted(fields)
    return found


def fields_of(name: str, structs: dict[str, str]) -> Iterator[tuple[str, bool]]:
    """The fields of a struct by their names on the wire, those of structs in it that have none included."""
    for kind, tag in re.findall(r'^\t(?:\w+ +)?(\S+) +`.*?json:"([^"]*)"', structs.get(name, ""), re.MULTILINE):
        field = tag.partition(",")[0]
        if field:
            yield field, kind.startswith("*")
        else:
            yield from fields_of(kind, structs)


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
