"""What the server fills in when an object of a built-in kind is written. Pure: the object is changed in place."""

from __future__ import annotations

import base64
import binascii
import contextlib
from typing import TYPE_CHECKING, Any

from kuberay.kube import quantity

if TYPE_CHECKING:
    from kuberay.engine.apiserver.storage import Object

_TOLERATED_SECONDS = 300


def nothing(obj: Object) -> None:
    """A kind without defaults."""


def namespace(obj: Object) -> None:
    """A Namespace carries its name as a label and is kept until its contents are gone."""
    meta = obj["metadata"]
    if "name" in meta:
        meta.setdefault("labels", {})["kubernetes.io/metadata.name"] = meta["name"]
    obj.setdefault("spec", {}).setdefault("finalizers", ["kubernetes"])
    obj.setdefault("status", {}).setdefault("phase", "Active")


def pod(obj: Object) -> None:
    """A Pod's policies, probes and volumes, spelled out."""
    spec = obj.setdefault("spec", {})
    _pod_template(spec)
    for key, value in (("enableServiceLinks", True), ("preemptionPolicy", "PreemptLowerPriority"), ("priority", 0)):
        spec.setdefault(key, value)
    _tolerations(spec)
    status = obj.setdefault("status", {})
    status.setdefault("phase", "Pending")
    status.setdefault("qosClass", quality_of_service(spec))
    address = status.get("podIP")
    if address and [one.get("ip") for one in status.get("podIPs", ())][:1] != [address]:
        status["podIPs"] = [{"ip": address}]


def _pod_template(spec: Object) -> None:
    """What holds for a Pod's spec wherever it stands; the rest is added when it becomes a Pod."""
    for key, value in (
        ("restartPolicy", "Always"),
        ("dnsPolicy", "ClusterFirst"),
        ("schedulerName", "default-scheduler"),
        ("terminationGracePeriodSeconds", 30),
    ):
        spec.setdefault(key, value)
    spec.setdefault("securityContext", {})
    if account := spec.get("serviceAccountName"):
        spec.setdefault("serviceAccount", account)
    for kind in ("initContainers", "containers"):
        for container in spec.get(kind, ()):
            _container(container, is_on_host=bool(spec.get("hostNetwork")))
    for volume in spec.get("volumes", ()):
        _volume(volume)


def _container(container: Object, *, is_on_host: bool) -> None:
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    image = container.get("image", "").rpartition("/")[2]
    is_latest = "@" not in image and image.partition(":")[2] in ("", "latest")
    container.setdefault("imagePullPolicy", "Always" if is_latest else "IfNotPresent")
    for port in container.get("ports", ()):
        port.setdefault("protocol", "TCP")
        if is_on_host and "containerPort" in port:
            port.setdefault("hostPort", port["containerPort"])
    for variable in container.get("env", ()):
        if variable.get("value") == "":
            del variable["value"]
        _field_reference(variable.get("valueFrom", {}))
    for name in ("livenessProbe", "readinessProbe", "startupProbe"):
        if name in container:
            _probe(container[name])
    _resources(container.setdefault("resources", {}))


def _resources(resources: Object) -> None:
    """Quantities in their canonical text; a limit without a request is also the request."""
    for kind in ("limits", "requests"):
        if kind in resources:
            resources[kind] = {name: _amount(value) for name, value in resources[kind].items()}
    if resources.get("limits"):
        resources["requests"] = {**resources["limits"], **resources.get("requests", {})}


def _amount(value: Any) -> Any:
    """A quantity as it is stored; there is no less of anything than a thousandth."""
    text = _canonical(value)
    try:
        smallest = quantity.parse("1m")
        return "1m" if quantity.ZERO < quantity.parse(text) < smallest else text
    except ValueError:
        return value


def _canonical(value: Any) -> Any:
    try:
        return str(quantity.parse(value))
    except ValueError:
        return value


def _probe(probe: Object) -> None:
    for key, value in (("timeoutSeconds", 1), ("periodSeconds", 10), ("successThreshold", 1), ("failureThreshold", 3)):
        if not probe.get(key):
            probe[key] = value
    if "httpGet" in probe:
        probe["httpGet"].setdefault("path", "/")
        probe["httpGet"].setdefault("scheme", "HTTP")
    if "grpc" in probe:
        probe["grpc"].setdefault("service", "")


def _field_reference(source: Object) -> None:
    if "fieldRef" in source:
        source["fieldRef"].setdefault("apiVersion", "v1")


def _volume(volume: Object) -> None:
    for kind in ("secret", "configMap", "downwardAPI", "projected"):
        if kind in volume:
            volume[kind].setdefault("defaultMode", 0o644)
    for source in (volume, *volume.get("projected", {}).get("sources", ())):
        for item in source.get("downwardAPI", {}).get("items", ()):
            _field_reference(item)
        if "serviceAccountToken" in source:
            source["serviceAccountToken"].setdefault("expirationSeconds", 3600)
    if "hostPath" in volume:
        volume["hostPath"].setdefault("type", "")
    if len(volume) == 1:
        volume["emptyDir"] = {}
    if "sizeLimit" in volume.get("emptyDir", {}):
        volume["emptyDir"]["sizeLimit"] = _canonical(volume["emptyDir"]["sizeLimit"])


def _tolerations(spec: Object) -> None:
    tolerations = spec.setdefault("tolerations", [])
    for key in ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"):
        if not any(_tolerates(toleration, key) for toleration in tolerations):
            tolerations.append(
                {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": _TOLERATED_SECONDS}
            )


def _tolerates(toleration: Object, key: str) -> bool:
    return bool(toleration.get("key", key) == key and toleration.get("effect", "NoExecute") == "NoExecute")


def quality_of_service(spec: Object) -> str:
    """Guaranteed, Burstable or BestEffort, by the cpu and memory that all containers ask for."""
    resources = [
        container.get("resources", {}) for kind in ("initContainers", "containers") for container in spec.get(kind, ())
    ]
    asked = [
        {name: amount for name, amount in part.get(kind, {}).items() if name in ("cpu", "memory")}
        for part in resources
        for kind in ("requests", "limits")
    ]
    if not any(asked):
        return "BestEffort"
    pairs = zip(asked[::2], asked[1::2], strict=True)
    return "Guaranteed" if all(len(limits) == 2 and requests == limits for requests, limits in pairs) else "Burstable"


def service(obj: Object) -> None:
    """A Service's policies and ports; addresses and node ports are given by `services.Allocator`."""
    spec = obj.setdefault("spec", {})
    spec.setdefault("type", "ClusterIP")
    spec.setdefault("sessionAffinity", "None")
    for port in spec.get("ports", ()):
        port.setdefault("protocol", "TCP")
        if port.get("targetPort") in (None, 0, "") and "port" in port:
            port["targetPort"] = port["port"]
    if spec["sessionAffinity"] == "ClientIP":
        spec.setdefault("sessionAffinityConfig", {}).setdefault("clientIP", {}).setdefault("timeoutSeconds", 10800)
    if spec["type"] != "ExternalName":
        spec.setdefault("internalTrafficPolicy", "Cluster")
        spec.setdefault("ipFamilies", ["IPv4"])
        spec.setdefault("ipFamilyPolicy", "SingleStack")
    if spec["type"] in ("NodePort", "LoadBalancer"):
        spec.setdefault("externalTrafficPolicy", "Cluster")
    if spec["type"] == "LoadBalancer":
        spec.setdefault("allocateLoadBalancerNodePorts", True)
    obj.setdefault("status", {}).setdefault("loadBalancer", {})


def secret(obj: Object) -> None:
    """`stringData` is a convenience for writers: it is stored as base64 under `data`."""
    obj.setdefault("type", "Opaque")
    _store_bytes(obj, "data")
    for key, value in obj.pop("stringData", {}).items():
        obj.setdefault("data", {})[key] = base64.b64encode(value.encode()).decode()


def config_map(obj: Object) -> None:
    """Binary data is stored in one form."""
    _store_bytes(obj, "binaryData")


def _store_bytes(obj: Object, field: str) -> None:
    """Bytes may be written with line breaks, and are stored without; what is not base64 is left for validation."""
    for key, value in (obj.get(field) or {}).items():
        with contextlib.suppress(binascii.Error):
            obj[field][key] = base64.b64encode(decode_bytes(value)).decode()


def decode_bytes(text: str) -> bytes:
    """What base64 says, with or without line breaks, as Kubernetes reads it.

    :raises binascii.Error: it is not base64.
    """
    return base64.b64decode(text.replace("\r", "").replace("\n", ""), validate=True)


def persistent_volume_claim(obj: Object) -> None:
    """A claim waits until somebody binds it."""
    obj.setdefault("spec", {}).setdefault("volumeMode", "Filesystem")
    obj.setdefault("status", {}).setdefault("phase", "Pending")


def job(obj: Object) -> None:
    """A Job runs one Pod once, and finds it by labels that carry the Job's own uid."""
    spec = obj.setdefault("spec", {})
    for key, value in (
        ("completionMode", "NonIndexed"),
        ("completions", 1),
        ("parallelism", 1),
        ("backoffLimit", 6),
        ("suspend", False),
        ("manualSelector", False),
        ("podReplacementPolicy", "TerminatingOrFailed"),
    ):
        spec.setdefault(key, value)
    template = spec.setdefault("template", {})
    _pod_template(template.setdefault("spec", {}))
    uid = obj["metadata"].get("uid")
    if uid and not spec["manualSelector"]:
        name = obj["metadata"]["name"]
        labels = template.setdefault("metadata", {}).setdefault("labels", {})
        labels |= {"batch.kubernetes.io/controller-uid": uid, "controller-uid": uid}
        labels |= {"batch.kubernetes.io/job-name": name, "job-name": name}
        spec["selector"] = {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}


def network_policy(obj: Object) -> None:
    """Ports are TCP unless told otherwise; a policy is about incoming traffic, and outgoing if it has such rules."""
    spec = obj.setdefault("spec", {})
    for rule in (*spec.get("ingress", ()), *spec.get("egress", ())):
        for port in rule.get("ports", ()):
            port.setdefault("protocol", "TCP")
    if not spec.get("policyTypes"):
        spec["policyTypes"] = ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"]


def role_binding(obj: Object) -> None:
    """Users and groups belong to the group of RBAC itself, service accounts to none."""
    obj.setdefault("roleRef", {}).setdefault("apiGroup", "rbac.authorization.k8s.io")
    for subject in obj.get("subjects", ()):
        if subject.get("kind") in ("User", "Group"):
            subject.setdefault("apiGroup", "rbac.authorization.k8s.io")


def endpoint_slice(obj: Object) -> None:
    """Ports of an EndpointSlice have a name, perhaps an empty one, and a protocol."""
    for port in obj.get("ports", ()):
        port.setdefault("name", "")
        port.setdefault("protocol", "TCP")


def event(obj: Object) -> None:
    """Old and new style Events carry each other's fields, empty."""
    for key, value in (
        ("source", {}),
        ("firstTimestamp", None),
        ("lastTimestamp", None),
        ("eventTime", None),
        ("type", "Normal"),
        ("reportingComponent", ""),
        ("reportingInstance", ""),
    ):
        obj.setdefault(key, value)
