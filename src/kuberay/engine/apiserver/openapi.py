"""OpenAPI v3: an index and one document per group version; what kubectl needs to apply, create and explain.

kubectl leaves the checking of fields to a server whose `patch` operations take `fieldValidation`; that, and the
schemas, is all the documents hold. They are made when first asked for and kept as bytes until a kind changes.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import orjson

from kuberay.api import kubernetes
from kuberay.engine.apiserver.answers import json_answer
from kuberay.engine.apiserver.requests import MISSING
from kuberay.kube.errors import NotFound
from kuberay.kube.transport import Response

if TYPE_CHECKING:
    from kuberay.engine.apiserver.registry import Kind, Registry
    from kuberay.engine.apiserver.storage import Object
    from kuberay.kube.transport import Request

_COMPONENTS = "#/components/schemas/"


class OpenApi:
    """Answers `/openapi/v3` and what its index points to."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._revision = -1
        self._documents: dict[str, bytes] = {}

    def answer(self, request: Request) -> Response:
        """:raises NotFound: no such document. Version 2 is not served; clients go on without it."""
        if self._revision != self._registry.revision:
            self._documents = {}
            self._revision = self._registry.revision
        match request.path.strip("/").split("/"):
            case ["openapi", "v3"]:
                paths = {path: {"serverRelativeURL": self._url(path)} for path in self._paths()}
                return json_answer({"paths": paths})
            case ["openapi", "v3", *rest] if "/".join(rest) in self._paths():
                return self._served(request, "/".join(rest))
        raise NotFound(MISSING)

    def _paths(self) -> dict[str, list[Kind]]:
        found: dict[str, list[Kind]] = {}
        for kind in self._registry.kinds():
            prefix = "apis/" if kind.resource.group else "api/"
            found.setdefault(prefix + kind.resource.api_version, []).append(kind)
        return found

    def _url(self, path: str) -> str:
        return f"/openapi/v3/{path}?hash={_hash(self._document(path))}"

    def _document(self, path: str) -> bytes:
        if path not in self._documents:
            self._documents[path] = orjson.dumps(_document(self._paths()[path]))
        return self._documents[path]

    def _served(self, request: Request, path: str) -> Response:
        body = self._document(path)
        tag = f'"{_hash(body)}"'
        headers = {"content-type": "application/json", "etag": tag, "vary": "Accept"}
        if dict(request.query).get("hash"):
            headers["cache-control"] = "public, immutable"
        if request.headers.get("if-none-match") == tag:
            return Response(304, headers, b"")
        return Response(200, headers, body)


def _hash(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()[:32].upper()


def _document(kinds: list[Kind]) -> Object:
    definitions = kubernetes.definitions()
    schemas: Object = {}
    wanted = ["meta.v1.ObjectMeta"]
    for kind in kinds:
        name, schema = _component(kind)
        schemas[name] = {**_public(schema, wanted), "x-kubernetes-group-version-kind": [_gvk(kind)]}
    while wanted:
        name = wanted.pop()
        if name not in schemas:
            schemas[name] = {}
            schemas[name] = _public(definitions[name], wanted)
    return {
        "openapi": "3.0.0",
        "info": {"title": "kuberay", "version": "v1"},
        "paths": {path: operations for kind in kinds for path, operations in _operations(kind)},
        "components": {"schemas": schemas},
    }


def _component(kind: Kind) -> tuple[str, Object]:
    raw = kind.schema.raw
    if "$ref" in raw:
        return raw["$ref"], kubernetes.definitions()[raw["$ref"]]
    group = ".".join(reversed(kind.resource.group.split(".")))
    return f"{group}.{kind.resource.version}.{kind.resource.kind}", raw


def _gvk(kind: Kind) -> Object:
    return {"group": kind.resource.group, "version": kind.resource.version, "kind": kind.resource.kind}


def _operations(kind: Kind) -> list[tuple[str, Object]]:
    path = kind.resource.path(namespace="{namespace}", name="{name}")
    names = ("dryRun", "fieldManager", "fieldValidation", "force")
    operation = {
        "operationId": f"patch{kind.resource.version}{kind.resource.kind}",
        "x-kubernetes-action": "patch",
        "x-kubernetes-group-version-kind": _gvk(kind),
        "parameters": [{"name": name, "in": "query", "schema": {"type": "string"}} for name in names],
        "responses": {"200": {"description": "OK"}},
    }
    return [(path, {"patch": operation})]


def _public(schema: Object, wanted: list[str]) -> Object:
    """A schema with references as OpenAPI writes them; what is referred to is added to `wanted`."""
    if "$ref" in schema:
        wanted.append(schema["$ref"])
        return {"allOf": [{"$ref": _COMPONENTS + schema["$ref"]}]}
    shown = dict(schema)
    if shown.pop("x-kubernetes-quantity", None):
        shown["type"] = "string"
    if shown.pop("x-kubernetes-int-or-string", None):
        return {"type": "string", "format": "int-or-string"}
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            shown[key] = _public(schema[key], wanted)
    if "properties" in schema:
        shown["properties"] = {name: _public(value, wanted) for name, value in schema["properties"].items()}
    return shown
