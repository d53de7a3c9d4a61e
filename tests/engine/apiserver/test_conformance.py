"""The same requests to the real kube-apiserver and to ours: the answers have to agree.

Compared are status codes, reasons, the fields that a refusal names, and whole objects without what differs from
run to run.
"""

from __future__ import annotations

import ssl
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import orjson
import pytest

from tests.engine.apiserver.api import JSON_PATCH, MERGE_PATCH, TABLE, Api, Clock, definition

if TYPE_CHECKING:
    from tests.control_plane import ControlPlane

NAMESPACE = "conformance"
CORE = f"/api/v1/namespaces/{NAMESPACE}"
PODS, SERVICES, CONFIG_MAPS, SECRETS = (f"{CORE}/{kind}" for kind in ("pods", "services", "configmaps", "secrets"))
CLAIMS = f"{CORE}/persistentvolumeclaims"
PRIORITIES = "/apis/scheduling.k8s.io/v1/priorityclasses"
WIDGETS = f"/apis/example.com/v1/namespaces/{NAMESPACE}/widgets"

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

Step = tuple[str, str, Any] | tuple[str, str, Any, dict[str, str]]


def pod(name: str = "p", **spec: Any) -> dict[str, Any]:
    containers = [{"name": "main", "image": "busybox:1"}]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": containers, **spec}}


def gpu(name: str, **resources: Any) -> dict[str, Any]:
    return pod(name, containers=[{"name": "main", "image": "busybox:1", "resources": resources}])


def claim(name: str, **meta: Any) -> dict[str, Any]:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    return {"metadata": {"name": name, **meta}, "spec": spec}


def service(name: str = "s", **spec: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec}


def widget(name: str = "w", meta: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "example.com/v1",
        "kind": "Widget",
        "metadata": {"name": name, **(meta or {})},
        "spec": spec,
    }


FULL_POD = pod(
    "full",
    initContainers=[{"name": "init", "image": "busybox", "resources": {"limits": {"cpu": 0.5, "memory": "1024Mi"}}}],
    containers=[
        {
            "name": "main",
            "image": "repo.example.com:5000/ray@sha256:" + "a" * 64,
            "ports": [{"containerPort": 80, "name": "web"}],
            "env": [{"name": "X", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}, {"name": "E"}],
            "readinessProbe": {"httpGet": {"port": 80}, "periodSeconds": 5},
            "livenessProbe": {"exec": {"command": ["true"]}},
            "startupProbe": {"grpc": {"port": 1}},
            "resources": {"limits": {"cpu": "2000m"}, "requests": {"memory": "1G"}},
            "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],
            "lifecycle": {"preStop": {"exec": {"command": ["true"]}}},
        }
    ],
    volumes=[
        {"name": "tmp"},
        {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "2048Mi"}},
        {"name": "secret", "secret": {"secretName": "x"}},
        {"name": "config", "configMap": {"name": "x"}},
        {"name": "host", "hostPath": {"path": "/tmp"}},
        {"name": "labels", "downwardAPI": {"items": [{"path": "l", "fieldRef": {"fieldPath": "metadata.labels"}}]}},
    ],
    tolerations=[{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"}],
)
GUARANTEED = {"limits": {"cpu": "1", "memory": "1Gi"}}

STORIES: dict[str, list[Step]] = {
    "a Pod gets its defaults": [("POST", PODS, FULL_POD), ("GET", f"{PODS}/full", None)],
    "a Pod with equal limits and requests is guaranteed": [
        ("POST", PODS, pod("g", containers=[{"name": "a", "image": "b", "resources": GUARANTEED}]))
    ],
    "a Pod is refused by field": [
        ("POST", PODS, pod("x", containers=[])),
        ("POST", PODS, pod("P_1")),
        ("POST", PODS, pod("x", containers=[{"name": "a"}, {"name": "a", "image": "b"}])),
        ("POST", PODS, pod("x", containers=[{"name": "A", "image": "b", "ports": [{"containerPort": 99999}]}])),
        (
            "POST",
            PODS,
            pod("x", containers=[{"name": "a", "image": "b", "volumeMounts": [{"name": "v", "mountPath": "/x"}]}]),
        ),
        ("POST", PODS, {**pod("x"), "metadata": {"name": "x", "labels": {"a b": "c"}}}),
        ("POST", PODS, {**pod("x"), "metadata": {"name": "x", "labels": {"a": "c d"}}}),
        ("POST", PODS, {**pod("x"), "metadata": {}}),
    ],
    "a body that does not fit is refused": [
        ("POST", PODS, pod("x", containers=3)),
        ("POST", PODS, {**pod("x"), "kind": "Service"}),
        ("POST", PODS, pod("x", unknown=1), {"fieldValidation": "Strict"}),
        ("POST", PODS, {**pod("x"), "metadata": {"name": "x", "namespace": "other"}}),
        ("POST", "/api/v1/namespaces/nowhere/pods", pod("x")),
        ("GET", "/api/v1/foos", None),
        ("GET", f"{PODS}/nope", None),
        ("GET", PODS, None, {"fieldSelector": "spec.foo=x"}),
        ("GET", PODS, None, {"labelSelector": "a b"}),
        ("POST", "/api/v1/pods", pod("x")),
        ("DELETE", "/api/v1/namespaces", None),
    ],
    "a Pod hardly changes": [
        ("POST", PODS, pod("fixed")),
        ("PATCH", f"{PODS}/fixed", {"spec": {"containers": [{"name": "main", "image": "busybox:2"}]}}),
        ("PATCH", f"{PODS}/fixed", {"spec": {"restartPolicy": "Never"}}),
        ("PATCH", f"{PODS}/fixed", {"spec": {"nodeName": "n"}}),
        ("PATCH", f"{PODS}/fixed", {"metadata": {"labels": {"a": "b"}}, "status": {"phase": "Running"}}),
        ("PATCH", f"{PODS}/fixed/status", {"status": {"phase": "Running", "podIP": "10.0.0.1"}}),
    ],
    "whole things cannot be shared": [
        ("POST", PODS, gpu("a", limits={"nvidia.com/gpu": "1"})),
        ("POST", PODS, gpu("b", requests={"nvidia.com/gpu": "1"})),
        ("POST", PODS, gpu("b", requests={"nvidia.com/gpu": "1"}, limits={"nvidia.com/gpu": "2"})),
        ("POST", PODS, gpu("b", limits={"nvidia.com/gpu": "500m"})),
        ("POST", PODS, gpu("b", limits={"cpu": "-1"})),
    ],
    "a Pod has the priority of its class": [
        ("POST", PRIORITIES, {"metadata": {"name": "tests-high"}, "value": 1000}),
        ("POST", PRIORITIES, {"metadata": {"name": "tests-meek"}, "value": 5, "preemptionPolicy": "Never"}),
        ("POST", PRIORITIES, {"metadata": {"name": "tests-none"}}),
        ("POST", PODS, pod("important", priorityClassName="tests-high")),
        ("POST", PODS, pod("meek", priorityClassName="tests-meek")),
        ("POST", PODS, pod("x", priorityClassName="nobody-knows")),
        ("DELETE", f"{PRIORITIES}/tests-high", None),
        ("DELETE", f"{PRIORITIES}/tests-meek", None),
        ("DELETE", f"{PRIORITIES}/tests-none", None),
    ],
    "a claim is protected": [
        ("POST", CLAIMS, claim("held", finalizers=["example.com/hold"])),
        ("GET", f"{CLAIMS}/held", None),
    ],
    "a Pod on a node gets time to stop": [
        ("POST", PODS, pod("bound")),
        ("POST", f"{PODS}/bound/binding", {"metadata": {"name": "bound"}, "target": {"kind": "Node", "name": "n"}}),
        ("POST", f"{PODS}/bound/binding", {"metadata": {"name": "bound"}, "target": {"kind": "Node", "name": "n"}}),
        ("DELETE", f"{PODS}/bound", {"preconditions": {"uid": "other"}}),
        ("DELETE", f"{PODS}/bound", {"gracePeriodSeconds": 20}),
        ("GET", f"{PODS}/bound", None),
        ("DELETE", f"{PODS}/bound", {"gracePeriodSeconds": 0}),
        ("GET", f"{PODS}/bound", None),
    ],
    "a Pod without a node goes at once": [
        ("POST", PODS, pod("unbound")),
        ("DELETE", f"{PODS}/unbound", None),
        ("GET", f"{PODS}/unbound", None),
    ],
    "Services get their defaults": [
        ("POST", SERVICES, service("plain", ports=[{"port": 80}], selector={"a": "b"})),
        (
            "POST",
            SERVICES,
            service("headless", clusterIP="None", selector={"a": "b"}, ports=[{"port": 80, "targetPort": "web"}]),
        ),
        ("POST", SERVICES, service("node", type="NodePort", ports=[{"port": 80, "nodePort": 30123}])),
        ("POST", SERVICES, service("load", type="LoadBalancer", ports=[{"port": 80, "nodePort": 30124}])),
        ("POST", SERVICES, service("name", type="ExternalName", externalName="example.com")),
        ("POST", SERVICES, service("sticky", sessionAffinity="ClientIP", ports=[{"port": 80}])),
    ],
    "a Service is refused by field": [
        ("POST", SERVICES, service("x")),
        ("POST", SERVICES, service("x", ports=[{"port": 80}, {"port": 81}])),
        ("POST", SERVICES, service("x", ports=[{"port": 70000, "targetPort": 1}])),
        ("POST", SERVICES, service("x", type="Nope", ports=[{"port": 80}])),
        ("POST", SERVICES, service("x", type="ExternalName")),
    ],
    "a Service can change its ports": [
        ("POST", SERVICES, service("c", clusterIP="None", selector={"a": "b"}, ports=[{"port": 80, "name": "a"}])),
        ("PATCH", f"{SERVICES}/c", {"spec": {"ports": [{"port": 81, "name": "b"}]}}),
        ("PATCH", f"{SERVICES}/c", {"spec": {"clusterIP": "10.96.0.77"}}),
        ("DELETE", f"{SERVICES}/c", None),
    ],
    "bytes may be written with line breaks": [
        ("POST", SECRETS, {"metadata": {"name": "broken"}, "data": {"a": "aGVs\nbG8=\r\n", "b": ""}}),
        ("POST", CONFIG_MAPS, {"metadata": {"name": "broken"}, "binaryData": {"a": "aGVs\nbG8=\n"}}),
        ("PATCH", f"{SECRETS}/broken", {"data": {"a": "d29y\nbGQ="}}),
    ],
    "Secrets and ConfigMaps": [
        ("POST", SECRETS, {"metadata": {"name": "s"}, "stringData": {"a": "b"}, "data": {"c": "ZA=="}}),
        ("POST", SECRETS, {"metadata": {"name": "x"}, "data": {"bad key": "ZA=="}}),
        ("POST", CONFIG_MAPS, {"metadata": {"name": "c"}, "data": {"a": "b"}, "immutable": True}),
        ("PATCH", f"{CONFIG_MAPS}/c", {"data": {"a": "c"}}),
        ("POST", CONFIG_MAPS, {"metadata": {"name": "c"}}),
        ("DELETE", f"{CONFIG_MAPS}/c", None),
    ],
    "Namespaces, Nodes, Leases, claims and accounts": [
        ("POST", f"{CORE}/serviceaccounts", {"metadata": {"name": "a"}}),
        (
            "POST",
            f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases",
            {"metadata": {"name": "l"}, "spec": {"holderIdentity": "me", "leaseDurationSeconds": 15}},
        ),
        (
            "POST",
            f"/apis/discovery.k8s.io/v1/namespaces/{NAMESPACE}/endpointslices",
            {"metadata": {"name": "e"}, "addressType": "IPv4", "endpoints": [], "ports": [{"port": 80}]},
        ),
        ("DELETE", "/api/v1/namespaces/default", None),
    ],
    "Events have two shapes": [
        (
            "POST",
            f"/apis/events.k8s.io/v1/namespaces/{NAMESPACE}/events",
            {
                "metadata": {"name": "e"},
                "regarding": {"kind": "Pod", "name": "p", "namespace": NAMESPACE},
                "reason": "Made",
                "action": "Make",
                "note": "hello",
                "type": "Normal",
                "reportingController": "ray.io/x",
                "reportingInstance": "x-1",
                "eventTime": "2026-05-01T12:00:00.000000Z",
            },
        ),
        ("GET", f"{CORE}/events/e", None),
    ],
    "custom resources are pruned, defaulted and counted": [
        ("POST", WIDGETS, widget("w", size=1, unknown=2)),
        ("PATCH", f"{WIDGETS}/w", {"metadata": {"labels": {"a": "b"}}}),
        ("PATCH", f"{WIDGETS}/w", {"spec": {"size": 2}, "status": {"x": 1}}),
        (
            "PATCH",
            f"{WIDGETS}/w/status",
            {"spec": {"size": 3}, "status": {"state": "on"}, "metadata": {"labels": {"c": "d"}}},
        ),
        ("PATCH", f"{WIDGETS}/w", {"spec": {"name": "b"}}),
        ("PATCH", f"{WIDGETS}/w", {"spec": {"name": "c"}}),
        ("PATCH", f"{WIDGETS}/w", [{"op": "replace", "path": "/spec/size", "value": 7}], {"as": JSON_PATCH}),
        ("PATCH", f"{WIDGETS}/w", [{"op": "replace", "path": "/spec/tags", "value": ["a"]}], {"as": JSON_PATCH}),
        ("PATCH", f"{WIDGETS}/w", [{"op": "test", "path": "/spec/size", "value": 8}], {"as": JSON_PATCH}),
        ("PATCH", f"{WIDGETS}/w", {"spec": {}}, {"as": "application/strategic-merge-patch+json"}),
        ("PUT", f"{WIDGETS}/w", {**widget("w", size=9), "metadata": {"name": "w", "resourceVersion": "1"}}),
        ("GET", f"{WIDGETS}/w", None),
    ],
    "custom resources are refused by field": [
        ("POST", WIDGETS, widget("x", size="big")),
        ("POST", WIDGETS, widget("x", size=-1)),
        ("POST", WIDGETS, widget("x", mode="sideways")),
        ("POST", WIDGETS, widget("x", env=[{"name": "A"}, {"name": "A"}])),
        ("POST", WIDGETS, widget("x", env=[{}])),
        ("POST", WIDGETS, widget("x", port=1.5)),
        ("POST", WIDGETS, widget("x", unknown=1), {"fieldValidation": "Strict"}),
        ("POST", WIDGETS, widget("Bad_Name")),
    ],
    "finalizers hold an object": [
        ("POST", WIDGETS, widget("f", {"finalizers": ["example.com/hold"]}, size=1)),
        ("DELETE", f"{WIDGETS}/f", None),
        ("PATCH", f"{WIDGETS}/f", {"metadata": {"finalizers": ["example.com/hold", "example.com/more"]}}),
        ("PATCH", f"{WIDGETS}/f", {"metadata": {"finalizers": []}}),
        ("GET", f"{WIDGETS}/f", None),
    ],
    "a delete tells what it deleted": [
        ("POST", WIDGETS, widget("d", size=1)),
        ("DELETE", f"{WIDGETS}/d", {"preconditions": {"resourceVersion": "1"}}),
        ("DELETE", f"{WIDGETS}/d", None),
        ("DELETE", f"{WIDGETS}/d", None),
    ],
    "annotations are checked": [
        ("POST", CONFIG_MAPS, {"metadata": {"name": "o", "annotations": {"a b": "c"}}}),
    ],
    "propagation leaves a mark": [
        ("POST", WIDGETS, widget("prop", size=1)),
        ("DELETE", f"{WIDGETS}/prop", {"propagationPolicy": "Orphan", "dryRun": ["All"]}),
        ("DELETE", f"{WIDGETS}/prop", {"propagationPolicy": "Sideways"}),
        ("DELETE", f"{WIDGETS}/prop", {"propagationPolicy": "Background"}),
    ],
    "a dry run stores nothing": [
        ("POST", CONFIG_MAPS, {"metadata": {"name": "dry"}}, {"dryRun": "All"}),
        ("GET", f"{CONFIG_MAPS}/dry", None),
    ],
}

WIDGET_FIELDS = {
    "size": {"type": "integer", "minimum": 0, "default": 5},
    "mode": {"type": "string", "enum": ["on", "off"], "default": "on"},
    "name": {
        "type": "string",
        "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "the name is immutable"}],
    },
    "port": {"x-kubernetes-int-or-string": True},
    "tags": {"type": "array", "items": {"type": "string"}},
    "env": {
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name"],
        "items": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}},
    },
}


@dataclass
class Real:
    """Requests to the real server."""

    plane: ControlPlane
    context: ssl.SSLContext = field(init=False)

    def __post_init__(self) -> None:
        self.context = ssl.create_default_context(cafile=str(self.plane.ca_file))

    def get(self, path: str, accept: str) -> Any:
        headers = {"Authorization": f"Bearer {self.plane.token}", "Accept": accept}
        request = urllib.request.Request(self.plane.url + path, headers=headers)
        with urllib.request.urlopen(request, context=self.context, timeout=20) as response:
            return orjson.loads(response.read())

    def send(self, method: str, path: str, body: Any, query: dict[str, str]) -> tuple[int, Any]:
        query = dict(query)
        kind = query.pop("as", MERGE_PATCH if method == "PATCH" else "application/json")
        url = self.plane.url + path + ("?" + urlencode(query) if query else "")
        data = orjson.dumps(body) if body is not None else None
        headers = {"Authorization": f"Bearer {self.plane.token}", "Content-Type": kind}
        request = urllib.request.Request(url, data, headers, method=method)
        try:
            with urllib.request.urlopen(request, context=self.context, timeout=20) as response:
                return response.status, orjson.loads(response.read())
        except urllib.error.HTTPError as error:
            with error:
                return error.code, orjson.loads(error.read())


async def ours(api: Api, method: str, path: str, body: Any, query: dict[str, Any]) -> tuple[int, Any]:
    query = dict(query)
    kind = query.pop("as", MERGE_PATCH if method == "PATCH" else "application/json")
    answer = await api.send(method, path, body, content=kind, **query)
    return answer.status, answer.body


def comparable(status: int, body: Any) -> Any:
    """What two servers have to agree on."""
    if body["kind"] == "Status":
        details = body.get("details") or {}
        fields = sorted({cause.get("field", "") for cause in details.get("causes", ())} - {"<nil>"})
        return status, body.get("reason"), fields
    if body["kind"].endswith("List"):
        return status, body["kind"], len(body["items"])
    return status, _plain(body)


def _plain(value: Any, key: str = "") -> Any:
    if key in ("uid", "resourceVersion", "managedFields", "creationTimestamp", "deletionTimestamp", "selfLink"):
        return None
    if key in ("lastTransitionTime", "lastProbeTime"):
        return None
    if key in ("clusterIP", "clusterIPs"):
        return value if value in ("None", ["None"]) else "address"
    if isinstance(value, dict):
        plain = {name: _plain(item, name) for name, item in value.items()}
        return {name: item for name, item in plain.items() if item not in (None, {}, [], "")}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value


@pytest.fixture(scope="module")
def real(kubernetes: ControlPlane) -> Real:
    server = Real(kubernetes)
    body = definition(WIDGET_FIELDS)
    body |= {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}
    definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    assert server.send("POST", definitions, body, {})[0] in (201, 409)
    assert server.send("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}}, {})[0] in (201, 409)
    while server.send("GET", WIDGETS, None, {})[0] != 200:
        pass
    return server


@pytest.fixture
async def embedded() -> Api:
    api = Api(clock=Clock())
    await api.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition(WIDGET_FIELDS))
    await api.create("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    return api


@pytest.mark.kubernetes
@pytest.mark.parametrize("story", STORIES)
async def test_both_servers_answer_alike(real: Real, embedded: Api, story: str) -> None:
    differences = []
    for method, path, body, *rest in STORIES[story]:
        query = rest[0] if rest else {}
        wanted = comparable(*real.send(method, path, body, query))
        found = comparable(*await ours(embedded, method, path, body, query))
        if wanted != found:
            differences += [f"{method} {path} {body}:", *_difference(wanted, found)]
    assert not differences, "\n".join(differences)


def _difference(wanted: Any, found: Any, path: str = "") -> list[str]:
    if isinstance(wanted, dict) and isinstance(found, dict):
        names = sorted({*wanted, *found})
        return [line for name in names for line in _difference(wanted.get(name), found.get(name), f"{path}.{name}")]
    if isinstance(wanted, list | tuple) and isinstance(found, list | tuple) and len(wanted) == len(found):
        pairs = enumerate(zip(wanted, found, strict=True))
        return [line for index, (a, b) in pairs for line in _difference(a, b, f"{path}[{index}]")]
    return [] if wanted == found else [f"  {path}: kubernetes {wanted!r}, ours {found!r}"]


TABLES = (
    f"{PODS}",
    f"{SERVICES}",
    f"{CONFIG_MAPS}",
    f"{SECRETS}",
    f"{CORE}/serviceaccounts",
    CLAIMS,
    f"{CORE}/resourcequotas",
    PRIORITIES,
    f"{CORE}/events",
    "/api/v1/namespaces",
    "/api/v1/nodes",
    f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases",
    f"/apis/discovery.k8s.io/v1/namespaces/{NAMESPACE}/endpointslices",
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    WIDGETS,
)


@pytest.mark.kubernetes
@pytest.mark.parametrize("path", TABLES)
async def test_both_servers_print_the_same_columns(real: Real, embedded: Api, path: str) -> None:
    def columns(table: Any) -> list[tuple[str, ...]]:
        return [(one["name"], one["type"], one["format"], one["priority"]) for one in table["columnDefinitions"]]

    wanted = real.get(path, TABLE)
    found = (await embedded.get(path, accept=TABLE)).body
    assert columns(found) == columns(wanted)


@pytest.mark.kubernetes
async def test_both_servers_describe_the_kinds_they_share_alike(real: Real, embedded: Api) -> None:
    def kinds(root: Any) -> dict[tuple[str, str, str], Any]:
        found = {}
        for group in root["items"]:
            for version in group["versions"]:
                for entry in version["resources"]:
                    key = (group["metadata"].get("name", ""), version["version"], entry["resource"])
                    names = ("scope", "singularResource", "shortNames", "categories")
                    found[key] = {name: entry.get(name) for name in names}
                    found[key] |= {"verbs": sorted(entry["verbs"]), "kind": entry["responseKind"]["kind"]}
        return found

    for root in ("/api", "/apis"):
        wanted = kinds(real.get(root, AGGREGATED))
        for key, entry in kinds((await embedded.get(root, accept=AGGREGATED)).body).items():
            assert entry == wanted[key]
