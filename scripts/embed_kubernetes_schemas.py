#!/usr/bin/env python3
"""Write the structure of the Kubernetes types that our CRDs embed into the package.

    scripts/embed_kubernetes_schemas.py [FOLDER]

FOLDER holds the source of Kubernetes; without it the module is fetched with Go (`go mod download`). Only structure is
taken: names, types, formats, required fields, defaults, list and map topology. No description texts, no enums (an API
server that embeds these types in a CRD enforces none).

The result is one JSON file: type name -> structural schema, where `{"$ref": NAME}` stands for another type of the
file. Each type is held once; `kuberay.api.kubernetes` puts them together.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

VERSION = "1.36.3"
DOCUMENTS = ("api__v1", "apis__networking.k8s.io__v1")
ROOTS = (
    "EnvFromSource", "EnvVar", "EnvVarSource", "IngressTLS", "NetworkPolicyEgressRule", "NetworkPolicyIngressRule",
    "PodTemplateSpec", "ResourceRequirements", "SecurityContext", "Service", "VolumeMount",
)  # fmt: skip
TARGET = Path(__file__).parents[1] / "src" / "kuberay" / "api" / "kubernetes.json"

KEPT = (
    "type", "format", "required", "items", "properties", "additionalProperties", "default",
    "x-kubernetes-list-type", "x-kubernetes-list-map-keys", "x-kubernetes-map-type",
)  # fmt: skip
METADATA = {
    "type": "object",
    "properties": {
        "annotations": {"type": "object", "additionalProperties": {"type": "string"}},
        "finalizers": {"type": "array", "items": {"type": "string"}},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        "name": {"type": "string"},
        "namespace": {"type": "string"},
    },
}
"""What may be said about an object that is made from a template; the rest is the API server's to say."""
LEAVES: dict[str, dict[str, Any]] = {
    "Condition": {},  # the package has its own of these two
    "Quantity": {},
    "IntOrString": {"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": True},
    "Time": {"type": "string", "format": "date-time"},
    "ObjectMeta": METADATA,
}
ATOMIC = ("ConfigMapEnvSource", "ConfigMapProjection", "ConfigMapVolumeSource", "SecretEnvSource", "SecretProjection")
"""Types that hold a reference to an object among their own fields, and are applied as one value for that reason."""
NO_DEFAULTS = ("AzureDiskVolumeSource.cachingMode", "AzureDiskVolumeSource.kind")
"""Defaults that Kubernetes fills in by code when a Pod is made; in a template they stay open."""


def main() -> None:
    """Read, reduce, write."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else source()
    types: dict[str, Any] = {}
    for document in DOCUMENTS:
        path = folder / "api" / "openapi-spec" / "v3" / f"{document}_openapi.json"
        for name, schema in json.loads(path.read_text())["components"]["schemas"].items():
            types.setdefault(name.rpartition(".")[2], schema)
    found: dict[str, Any] = {}
    waiting = list(ROOTS)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found[name] = LEAVES[name] if name in LEAVES else reduced(types[name], waiting)
    for name in ATOMIC:
        found[name]["x-kubernetes-map-type"] = "atomic"
    for path in NO_DEFAULTS:
        name, _, field = path.partition(".")
        del found[name]["properties"][field]["default"]
    content = {"version": VERSION, "types": dict(sorted(found.items()))}
    TARGET.write_text(json.dumps(content, separators=(",", ":"), sort_keys=True) + "\n")
    sys.stdout.write(f"{TARGET.name}: {len(found)} types, {TARGET.stat().st_size} bytes\n")


def source() -> Path:
    """The folder of Kubernetes' source in Go's module cache."""
    command = ["go", "mod", "download", "-json", f"k8s.io/kubernetes@v{VERSION}"]
    return Path(json.loads(subprocess.run(command, check=True, capture_output=True).stdout)["Dir"])


def reduced(schema: dict[str, Any], references: list[str]) -> dict[str, Any]:
    """The structure of a schema; names of types it refers to are added to `references`."""
    if "$ref" in schema or "allOf" in schema:
        # `allOf` with one reference is how a default stands beside a reference; it is always the empty object.
        name = schema.get("$ref", "") or schema["allOf"][0]["$ref"]
        references.append(name := name.rpartition(".")[2])
        return {"$ref": name}
    kept = {key: value for key, value in schema.items() if key in KEPT}
    required = kept.get("required", [])
    if required:
        kept["required"] = sorted(required)
    if "properties" in kept:
        kept["properties"] = {
            name: without_zero(reduced(value, references)) if name in required else reduced(value, references)
            for name, value in kept["properties"].items()
        }
    for key in ("items", "additionalProperties"):
        if isinstance(kept.get(key), dict):
            kept[key] = without_zero(reduced(kept[key], references))
    return kept


def without_zero(schema: dict[str, Any]) -> dict[str, Any]:
    """Without the default that only says what Go fills in for a field that must be there anyway."""
    return {key: value for key, value in schema.items() if key != "default"}


if __name__ == "__main__":
    main()
