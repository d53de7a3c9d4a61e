"""What `kubectl get` prints for each built-in kind: columns, and the cells of an object."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson

from kuberay.engine.apiserver.ages import age
from kuberay.engine.apiserver.jsonpath import compile_path
from kuberay.engine.apiserver.pod_columns import pod_cells

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from kuberay.engine.apiserver.storage import Object

    Cells = Callable[[Object, datetime], list[Any]]


@dataclass(frozen=True, slots=True)
class Column:
    """One column; a `priority` above 0 shows with `-o wide` only."""

    name: str
    type: str = "string"
    format: str = ""
    description: str = ""
    priority: int = 0


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns of a kind and how an object fills them."""

    definitions: tuple[Column, ...]
    cells: Cells


NAME = Column("Name", format="name")


def _columns(cells: Cells, *names: str, wide: tuple[str, ...] = ()) -> Columns:
    definitions = (NAME, *(Column(name) for name in names), *(Column(name, priority=1) for name in wide))
    return Columns(definitions, cells)


def _name(obj: Object) -> str:
    return str(obj["metadata"]["name"])


def _age(obj: Object, now: datetime) -> str:
    return age(obj["metadata"].get("creationTimestamp"), now)


def _labels(labels: Object | None) -> str:
    return ",".join(f"{key}={value}" for key, value in sorted(labels.items())) if labels else "<none>"


def _some(texts: list[str], limit: int = 3) -> str:
    """The first few of many."""
    if not texts:
        return "<none>"
    more = f" + {len(texts) - limit} more..." if len(texts) > limit else ""
    return ",".join(texts[:limit]) + more


def _service(obj: Object, now: datetime) -> list[Any]:
    spec = obj.get("spec", {})
    kind = spec.get("type", "ClusterIP")
    ports = [
        f"{port['port']}{':' + str(port['nodePort']) if port.get('nodePort') else ''}/{port.get('protocol', 'TCP')}"
        for port in spec.get("ports", ())
    ]
    return [
        _name(obj),
        kind,
        spec.get("clusterIP") or "<none>",
        _external_address(obj, kind),
        ",".join(ports) or "<none>",
        _age(obj, now),
        _labels(spec.get("selector")),
    ]


def _external_address(obj: Object, kind: str) -> str:
    spec = obj.get("spec", {})
    if kind == "ExternalName":
        return str(spec.get("externalName", ""))
    given = list(spec.get("externalIPs", ()))
    if kind == "LoadBalancer":
        ingress = obj.get("status", {}).get("loadBalancer", {}).get("ingress", ())
        given = [one.get("ip") or one.get("hostname", "") for one in ingress] + given
        return ",".join(given) or "<pending>"
    return ",".join(given) or "<none>"


def _node(obj: Object, now: datetime) -> list[Any]:
    status = obj.get("status", {})
    ready = [condition.get("status") for condition in status.get("conditions", ()) if condition.get("type") == "Ready"]
    state = "Unknown" if not ready else "Ready" if ready[0] == "True" else "NotReady"
    if obj.get("spec", {}).get("unschedulable"):
        state += ",SchedulingDisabled"
    prefix = "node-role.kubernetes.io/"
    roles = sorted(key.removeprefix(prefix) for key in obj["metadata"].get("labels", {}) if key.startswith(prefix))
    addresses = {one.get("type"): one.get("address") for one in status.get("addresses", ())}
    info = status.get("nodeInfo", {})
    return [
        _name(obj),
        state,
        ",".join(roles) or "<none>",
        _age(obj, now),
        info.get("kubeletVersion", ""),
        addresses.get("InternalIP") or "<none>",
        addresses.get("ExternalIP") or "<none>",
        info.get("osImage") or "<unknown>",
        info.get("kernelVersion") or "<unknown>",
        info.get("containerRuntimeVersion") or "<unknown>",
    ]


def _event(obj: Object, now: datetime) -> list[Any]:
    first = obj.get("firstTimestamp") or obj.get("eventTime")
    last, count = obj.get("lastTimestamp") or first, obj.get("count") or 1
    if series := obj.get("series"):
        last, count = series.get("lastObservedTime"), series.get("count", 1)
    about = obj.get("involvedObject", {})
    source = obj.get("source", {})
    origin = [source.get("component") or obj.get("reportingComponent", "")]
    origin.append(source.get("host") or obj.get("reportingInstance", ""))
    return [
        age(last, now),
        obj.get("type", ""),
        obj.get("reason", ""),
        f"{about.get('kind', '').lower()}/{about.get('name', '')}",
        about.get("fieldPath", ""),
        ", ".join(part for part in origin if part),
        obj.get("message", "").strip(),
        age(first, now),
        str(count),
        _name(obj),
    ]


def _endpoint_slice(obj: Object, now: datetime) -> list[Any]:
    ports = [str(port.get("port", "*")) for port in obj.get("ports", ())]
    addresses = [address for endpoint in obj.get("endpoints", ()) for address in endpoint.get("addresses", ())]
    shown = [_some(ports) if ports else "<unset>", _some(addresses) if addresses else "<unset>"]
    return [_name(obj), obj.get("addressType", ""), *shown, _age(obj, now)]


_ACCESS_MODES = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}


def _persistent_volume_claim(obj: Object, now: datetime) -> list[Any]:
    spec, status = obj.get("spec", {}), obj.get("status", {})
    phase = "Terminating" if "deletionTimestamp" in obj["metadata"] else status.get("phase", "")
    bound = bool(spec.get("volumeName"))
    return [
        _name(obj),
        phase,
        spec.get("volumeName", ""),
        status.get("capacity", {}).get("storage", "") if bound else "",
        ",".join(_ACCESS_MODES.get(mode, mode) for mode in status.get("accessModes", ())) if bound else "",
        spec.get("storageClassName", ""),
        spec.get("volumeAttributesClassName") or "<unset>",
        _age(obj, now),
        spec.get("volumeMode", "<unset>"),
    ]


def _resource_quota(obj: Object, now: datetime) -> list[Any]:
    status = obj.get("status", {})
    hard, used = status.get("hard", {}), status.get("used", {})
    request = ", ".join(f"{name}: {used.get(name, 0)}/{hard[name]}" for name in sorted(hard))
    return [_name(obj), request, "", _age(obj, now)]


def _job(obj: Object, now: datetime) -> list[Any]:
    spec, status = obj.get("spec", {}), obj.get("status", {})
    held = {each.get("type") for each in status.get("conditions", ()) if each.get("status") == "True"}
    state = next((each for each in ("Complete", "Failed", "Suspended", "FailureTarget") if each in held), "Running")
    completions = f"{status.get('succeeded', 0)}/{spec.get('completions', 1)}"
    pod = spec.get("template", {}).get("spec", {}).get("containers", ())
    return [
        _name(obj),
        state,
        completions,
        _age(obj, now),
        ",".join(each.get("name", "") for each in pod),
        ",".join(each.get("image", "") for each in pod),
        _labels(spec.get("selector", {}).get("matchLabels")),
    ]


def _ingress(obj: Object, now: datetime) -> list[Any]:
    spec = obj.get("spec", {})
    hosts = [rule["host"] for rule in spec.get("rules", ()) if rule.get("host")]
    addresses = obj.get("status", {}).get("loadBalancer", {}).get("ingress", ())
    return [
        _name(obj),
        spec.get("ingressClassName", "<none>"),
        _some(hosts) if hosts else "*",
        ",".join(each.get("ip") or each.get("hostname", "") for each in addresses),
        "80, 443" if spec.get("tls") else "80",
        _age(obj, now),
    ]


NAME_AND_AGE = _columns(lambda obj, now: [_name(obj), _age(obj, now)], "Age")
NAMESPACE = _columns(
    lambda obj, now: [_name(obj), obj.get("status", {}).get("phase", ""), _age(obj, now)], "Status", "Age"
)
CONFIG_MAP = _columns(
    lambda obj, now: [_name(obj), str(len(obj.get("data", ())) + len(obj.get("binaryData", ()))), _age(obj, now)],
    "Data",
    "Age",
)
SECRET = _columns(
    lambda obj, now: [_name(obj), obj.get("type", ""), str(len(obj.get("data", ()))), _age(obj, now)],
    "Type",
    "Data",
    "Age",
)
LEASE = _columns(
    lambda obj, now: [_name(obj), obj.get("spec", {}).get("holderIdentity", ""), _age(obj, now)], "Holder", "Age"
)
POD = _columns(
    pod_cells,
    "Ready",
    "Status",
    "Restarts",
    "Age",
    wide=("IP", "Node", "Nominated Node", "Readiness Gates"),
)
SERVICE = _columns(_service, "Type", "Cluster-IP", "External-IP", "Port(s)", "Age", wide=("Selector",))
NODE = _columns(
    _node,
    "Status",
    "Roles",
    "Age",
    "Version",
    wide=("Internal-IP", "External-IP", "OS-Image", "Kernel-Version", "Container-Runtime"),
)
ENDPOINT_SLICE = _columns(_endpoint_slice, "AddressType", "Ports", "Endpoints", "Age")
PERSISTENT_VOLUME_CLAIM = _columns(
    _persistent_volume_claim,
    *("Status", "Volume", "Capacity", "Access Modes", "StorageClass", "VolumeAttributesClass", "Age"),
    wide=("VolumeMode",),
)
CUSTOM_RESOURCE_DEFINITION = Columns(
    (NAME, Column("Created At", type="date")),
    lambda obj, now: [_name(obj), obj["metadata"].get("creationTimestamp")],
)
PRIORITY_CLASS = Columns(
    (
        NAME,
        Column("Value", type="integer"),
        Column("Global-Default", type="boolean"),
        Column("Age"),
        Column("PreemptionPolicy"),
    ),
    lambda obj, now: [
        _name(obj),
        obj.get("value", 0),
        bool(obj.get("globalDefault")),
        _age(obj, now),
        obj.get("preemptionPolicy", ""),
    ],
)
RESOURCE_QUOTA = _columns(_resource_quota, "Request", "Limit", "Age")
JOB = _columns(_job, "Status", "Completions", "Age", wide=("Containers", "Images", "Selector"))
INGRESS = _columns(_ingress, "Class", "Hosts", "Address", "Ports", "Age")
NETWORK_POLICY = _columns(
    lambda obj, now: [
        _name(obj),
        _labels(obj.get("spec", {}).get("podSelector", {}).get("matchLabels")),
        _age(obj, now),
    ],
    "Pod-Selector",
    "Age",
)
ROLE = Columns(
    (NAME, Column("Created At", type="date")),
    lambda obj, now: [_name(obj), obj["metadata"].get("creationTimestamp")],
)
ROLE_BINDING = _columns(
    lambda obj, now: [
        _name(obj),
        f"{obj.get('roleRef', {}).get('kind', '')}/{obj.get('roleRef', {}).get('name', '')}",
        _age(obj, now),
    ],
    "Role",
    "Age",
)
EVENT = Columns(
    (
        Column("Last Seen"),
        Column("Type"),
        Column("Reason"),
        Column("Object"),
        Column("Subobject", priority=1),
        Column("Source", priority=1),
        Column("Message"),
        Column("First Seen", priority=1),
        Column("Count", priority=1),
        Column("Name", format="name", priority=1),
    ),
    _event,
)


def custom_columns(printed: list[Object]) -> Columns:
    """The columns of a custom resource, from its `additionalPrinterColumns`.

    :raises PathError: a path that is not understood.
    """
    printed = printed or [{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}]
    definitions = tuple(
        Column(
            one["name"],
            one.get("type", "string"),
            one.get("format", ""),
            one.get("description", ""),
            one.get("priority", 0),
        )
        for one in printed
    )
    finders = [(column.type, compile_path(one["jsonPath"])) for column, one in zip(definitions, printed, strict=True)]
    return Columns(
        (NAME, *definitions),
        lambda obj, now: [_name(obj), *(_cell(kind, find(obj), now) for kind, find in finders)],
    )


def _cell(kind: str, found: list[Any], now: datetime) -> Any:
    if not found or found[0] is None:
        return None
    match kind:
        case "date":
            return age(found[0], now)
        case "integer" | "number" | "boolean":
            return found[0]
    return " ".join(one if isinstance(one, str) else orjson.dumps(one).decode() for one in found)
