"""A bare client for tests of the API server: it shows status codes and bodies as they are."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson

from kuberay.engine.apiserver import ApiServer, InProcessTransport, MemoryStorage
from kuberay.kube.transport import Request

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"

PODS = "/api/v1/namespaces/default/pods"
SERVICES = "/api/v1/namespaces/default/services"
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
WIDGETS = "/apis/example.com/v1/namespaces/default/widgets"


@dataclass
class Clock:
    """A clock that stands still unless moved."""

    now: datetime = datetime(2026, 5, 1, 12, 0, 0, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)


@dataclass
class Answer:
    """A response, decoded."""

    status: int
    body: Any
    headers: dict[str, str]

    @property
    def reason(self) -> str:
        return str(self.body["reason"])

    @property
    def message(self) -> str:
        return str(self.body["message"])

    @property
    def fields(self) -> list[str]:
        """The fields that a refusal names."""
        return [cause["field"] for cause in self.body["details"]["causes"]]

    @property
    def meta(self) -> dict[str, Any]:
        found: dict[str, Any] = self.body["metadata"]
        return found


@dataclass
class Api:
    """Requests to a server of its own."""

    clock: Clock = field(default_factory=Clock)
    storage: MemoryStorage = field(default_factory=MemoryStorage)
    streams: Any = None

    def __post_init__(self) -> None:
        uids = iter(range(1, 10**9))
        self.server = ApiServer(
            self.storage,
            clock=self.clock,
            new_uid=lambda: f"uid-{next(uids)}",
            rng=random.Random(7),
            streams=self.streams,
        )
        self.transport = InProcessTransport(self.server)

    async def send(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        content: str = "application/json",
        accept: str = "",
        headers: dict[str, str] | None = None,
        **query: Any,
    ) -> Answer:
        headers = {"Content-Type": content} | ({"Accept": accept} if accept else {}) | (headers or {})
        data = body if isinstance(body, bytes) or body is None else orjson.dumps(body)
        request = Request(method, path, tuple((name, str(value)) for name, value in query.items()), headers, data)
        response = await self.transport.send(request)
        decoded = (
            orjson.loads(response.body)
            if response.body and "json" in response.headers.get("content-type", "")
            else response.body
        )
        return Answer(response.status, decoded, dict(response.headers))

    async def get(self, path: str, **query: Any) -> Answer:
        return await self.send("GET", path, **query)

    async def create(self, path: str, body: Any, **query: Any) -> Answer:
        return await self.send("POST", path, body, **query)

    async def replace(self, path: str, body: Any, **query: Any) -> Answer:
        return await self.send("PUT", path, body, **query)

    async def merge(self, path: str, body: Any, **query: Any) -> Answer:
        return await self.send("PATCH", path, body, content=MERGE_PATCH, **query)

    async def patch(self, path: str, operations: Any, **query: Any) -> Answer:
        return await self.send("PATCH", path, operations, content=JSON_PATCH, **query)

    async def delete(self, path: str, body: Any = None, **query: Any) -> Answer:
        return await self.send("DELETE", path, body, **query)

    async def names(self, path: str, **query: Any) -> list[str]:
        """Names in a list, in its order."""
        return [item["metadata"]["name"] for item in (await self.get(path, **query)).body["items"]]


def pod(name: str = "a", **meta: Any) -> dict[str, Any]:
    """The smallest Pod."""
    return {"metadata": {"name": name, **meta}, "spec": {"containers": [{"name": "main", "image": "busybox:1"}]}}


def binding(name: str, node: str = "node") -> dict[str, Any]:
    """Puts a Pod on a node."""
    return {"metadata": {"name": name}, "target": {"kind": "Node", "name": node}}


def config_map(name: str = "a", data: dict[str, str] | None = None, **meta: Any) -> dict[str, Any]:
    """A kind without rules of its own."""
    return {"metadata": {"name": name, **meta}, "data": data or {}}


def definition(properties: dict[str, Any] | None = None, **version: Any) -> dict[str, Any]:
    """A CustomResourceDefinition of widgets with a status and these fields in its spec."""
    spec = {"type": "object", "properties": properties if properties is not None else {"size": {"type": "integer"}}}
    status = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema = {"type": "object", "properties": {"spec": spec, "status": status}}
    return {
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget", "shortNames": ["wd"], "categories": ["all"]},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": schema},
                    "subresources": {"status": {}},
                    **version,
                }
            ],
        },
    }


def widget(name: str = "w", spec: dict[str, Any] | None = None, **meta: Any) -> dict[str, Any]:
    """A custom resource of that definition."""
    return {
        "apiVersion": "example.com/v1",
        "kind": "Widget",
        "metadata": {"name": name, **meta},
        "spec": spec if spec is not None else {"size": 1},
    }
