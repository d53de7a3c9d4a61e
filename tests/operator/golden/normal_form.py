"""What stands in a namespace, in the form of KubeRay's records: no identities, times or addresses.

The form is that of `../shared/upstream/README.md`, but for one thing: generated ends of names are not numbered, and
equal Pods are not put together; `expanded` brings a record to the same.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from kuberay.build import names
from kuberay.controllers.kinds import RAY_CLUSTERS
from kuberay.kube import resources
from kuberay.kube.resources import EVENTS, Resource

if TYPE_CHECKING:
    from kuberay.kube.client import Client

Json = dict[str, Any]

ROUTES = Resource("route.openshift.io", "v1", "routes", "Route")
MADE = (
    resources.PODS,
    resources.SERVICES,
    resources.SECRETS,
    resources.SERVICE_ACCOUNTS,
    resources.PERSISTENT_VOLUME_CLAIMS,
    resources.JOBS,
    resources.INGRESSES,
    resources.NETWORK_POLICIES,
    resources.ROLES,
    resources.ROLE_BINDINGS,
    ROUTES,
)
"""What the operator may make."""

_DROPPED = ("uid", "resourceVersion", "creationTimestamp", "managedFields", "generation", "selfLink")
_STATUS_DROPPED = ("Pod", "Service", "Job", "PersistentVolumeClaim", "Ingress", "Route")
_TIME = re.compile(r'"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z"')
_GENERATED = re.compile(r"(-(?:head|worker))-[bcdfghjklmnpqrstvwxz2456789]{5}\b")
_REPLICA = "ray.io/worker-group-replica-name"
_RANDOM = re.compile(r"<rand-\d+>")


async def taken(client: Client, namespace: str, given: set[tuple[str, str]]) -> Json:
    """The record of a namespace.

    :param given: kind and name of the objects that the manifest itself brings.
    """
    objects = []
    for resource in MADE:
        for obj in (await client.list(resource, namespace=namespace)).items:
            obj |= {"apiVersion": resource.api_version, "kind": resource.kind}
            name = obj["metadata"]["name"]
            is_servers = resource == resources.SERVICE_ACCOUNTS and name == "default"
            owners = {each["kind"] for each in obj["metadata"].get("ownerReferences", ())}
            is_others = bool(owners & {"Job", "ReplicaSet"})
            if (resource.kind, name) not in given and not is_servers and not is_others:
                objects.append(obj)
    clusters = (await client.list(RAY_CLUSTERS, namespace=namespace)).items
    events = (await client.list(EVENTS, namespace=namespace)).items
    return normal(namespace, objects, clusters, events)


def normal(namespace: str, objects: list[Json], clusters: list[Json], events: list[Json]) -> Json:
    """The same in normal form."""
    words = {
        f'"{address}"': '"<pod-ip>"'
        for obj in objects
        if obj["kind"] == "Pod" and (address := obj.get("status", {}).get("podIP"))
    }
    for obj in (*objects, *clusters):
        kind = obj.get("kind", "RayCluster")
        words[obj["metadata"]["uid"]] = f"<uid:{kind}/{obj['metadata']['name']}>"
    allocated = {address for obj in objects if (address := _cluster_ip(obj))}
    words |= {f'"{address}"': '"<cluster-ip>"' for address in allocated}
    words[namespace] = "default"
    heads = dict(_head_names(each["metadata"]["name"]) for each in clusters)
    ports = {str(port) for obj in objects for port in _node_ports(obj)}

    text = json.dumps({"objects": objects, "clusters": clusters, "events": events})
    for word, replacement in words.items():
        text = text.replace(word, replacement)
    text = _GENERATED.sub(r"\1-<rand>", _TIME.sub('"<time>"', text))
    found: Json = json.loads(text)
    return {
        "objects": sorted(map(_object, found["objects"]), key=_place),
        "ray": {
            f"RayCluster/{each['metadata']['name']}": {
                "metadata": {
                    key: value
                    for key, value in each["metadata"].items()
                    if key
                    in ("annotations", "labels", "finalizers", "deletionTimestamp", "ownerReferences", "generation")
                },
                "status": _status(each.get("status", {}), ports, heads),
            }
            for each in found["clusters"]
        },
        "events": [
            {
                "type": each["type"],
                "reason": each["reason"],
                "action": each["action"],
                "note": _note(each["note"], heads),
                "regarding": f"{each['regarding']['kind']}/{each['regarding']['name']}",
                "reporter": each["reportingController"],
            }
            for each in found["events"]
            if each["regarding"]["kind"] == "RayCluster"
        ],
    }


def expanded(record: Json) -> Json:
    """A record with its equal Pods apart, and its generated names not numbered."""
    plain: Json = json.loads(_RANDOM.sub("<rand>", json.dumps(record)))
    objects = [
        {key: value for key, value in obj.items() if key != "x-count"}
        for obj in plain["objects"]
        for _ in range(obj.get("x-count", 1))
    ]
    return {**plain, "objects": sorted(objects, key=_place)}


def _object(obj: Json) -> Json:
    metadata = {key: value for key, value in obj["metadata"].items() if key not in _DROPPED}
    kept = {**obj, "metadata": metadata}
    if obj["kind"] in _STATUS_DROPPED:
        kept.pop("status", None)
    spec = kept.get("spec", {})
    match obj["kind"]:
        case "Pod":
            spec.pop("nodeName", None)
            if labels := metadata.get("labels"):
                replica = labels.get(_REPLICA, "")
                if replica:
                    labels[_REPLICA] = re.sub(r"-\w{5}$", "-<rand>", replica)
                ours, kuberays = _head_names(labels.get("ray.io/cluster", ""))
                if metadata["name"] == ours:
                    metadata["name"] = kuberays
        case "Service":
            for port in spec.get("ports", ()):
                if "nodePort" in port:
                    port["nodePort"] = "<node-port>"
            spec["ports"] = sorted(spec.get("ports", ()), key=lambda port: port.get("name", ""))
            if not spec["ports"]:
                del spec["ports"]
        case "Job":
            spec["selector"] = {"matchLabels": {}}
            labels = spec["template"]["metadata"]["labels"]
            for key in ("controller-uid", "batch.kubernetes.io/controller-uid"):
                labels.pop(key, None)
        case "Secret":
            kept["data"] = dict.fromkeys(kept.get("data", {}), "<random>")
    return kept


def _head_names(cluster: str) -> tuple[str, str]:
    """The name of a cluster's head, and the one that KubeRay would have generated for it."""
    return f"{cluster}-{names.HEAD}", f"{names.pod_prefix(cluster, names.HEAD)}-<rand>"


def _note(note: str, heads: dict[str, str]) -> str:
    """A note with the name that KubeRay would have generated for a head."""
    for ours, kuberays in heads.items() if re.search(r"\bPods?\b", note) else ():
        note = re.sub(rf"default/{re.escape(ours)}(?=$|[;:,. ])", f"default/{kuberays}", note)
    return note


def _status(status: Json, ports: set[str], heads: dict[str, str]) -> Json:
    endpoints = status.get("endpoints", {})
    status = {**status}
    if endpoints:
        status["endpoints"] = {name: "<node-port>" if port in ports else port for name, port in endpoints.items()}
    head = status.get("head", {})
    if head.get("podName") in heads:
        status["head"] = {**head, "podName": heads[head["podName"]]}
    return status


def _place(obj: Json) -> tuple[str, ...]:
    labels = obj["metadata"].get("labels", {})
    index = labels.get("ray.io/worker-group-replica-index", "")
    host = labels.get("ray.io/replica-host-index", "")
    return (obj["kind"], obj["metadata"]["name"], index, host)


def _cluster_ip(obj: Json) -> str | None:
    address = obj.get("spec", {}).get("clusterIP") if obj["kind"] == "Service" else None
    return address if address not in (None, "None", "") else None


def _node_ports(obj: Json) -> list[int]:
    ports = obj.get("spec", {}).get("ports", ()) if obj["kind"] == "Service" else ()
    return [port["nodePort"] for port in ports if "nodePort" in port]
