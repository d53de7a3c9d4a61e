"""EndpointSlices: which Pods are behind a Service. DNS and the Service proxy of the node read nothing else."""

# ruff: noqa: RUF012 (a Struct makes a new list or dict for each instance)

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import msgspec
import orjson

from kuberay.api.core import Metadata, Slim
from kuberay.engine.loops.running import run_loop
from kuberay.kube.controller import Controller, itself
from kuberay.kube.errors import AlreadyExists, NotFound
from kuberay.kube.identity import Key
from kuberay.kube.informer import Informer
from kuberay.kube.queue import Queue
from kuberay.kube.resources import ENDPOINT_SLICES, PODS, SERVICES
from kuberay.kube.selectors import LabelSelector
from kuberay.kube.store import Store

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kuberay.kube.client import Client

SERVICE_NAME = "kubernetes.io/service-name"
MANAGED_BY = "endpointslice.kubernetes.io/managed-by"
US = "endpointslice-controller.k8s.io"


class ServicePort(Slim, frozen=True, kw_only=True):
    port: int
    name: str = ""
    protocol: str = "TCP"
    target_port: int | str = 0
    app_protocol: str | None = None


class ServiceSpec(Slim, frozen=True, kw_only=True):
    selector: dict[str, str] = {}
    ports: list[ServicePort] = []
    publish_not_ready_addresses: bool = False


class Service(Slim, frozen=True, kw_only=True):
    metadata: Metadata
    spec: ServiceSpec = ServiceSpec()


class ContainerPort(Slim, frozen=True, kw_only=True):
    container_port: int
    name: str = ""
    protocol: str = "TCP"


class Container(Slim, frozen=True, kw_only=True):
    ports: list[ContainerPort] = []


class PodSpec(Slim, frozen=True, kw_only=True):
    containers: list[Container] = []
    node_name: str = ""
    hostname: str = ""
    subdomain: str = ""


class Condition(Slim, frozen=True, kw_only=True):
    type: str
    status: str


class PodStatus(Slim, frozen=True, kw_only=True):
    phase: str = ""
    pod_ip: str = msgspec.field(default="", name="podIP")
    conditions: list[Condition] = []


class Pod(Slim, frozen=True, kw_only=True):
    metadata: Metadata
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def is_ready(self) -> bool:
        return any(one.type == "Ready" and one.status == "True" for one in self.status.conditions)


def desired_slices(service: Service, pods: Iterable[Pod]) -> dict[str, dict[str, Any]]:
    """The slices of a Service by name: one for each way in which the names of its ports resolve to numbers."""
    by_ports: dict[bytes, tuple[list[dict[str, Any]], list[Pod]]] = {}
    for pod in sorted(pods, key=lambda pod: pod.metadata.name):
        if pod.status.pod_ip and pod.status.phase not in ("Succeeded", "Failed"):
            ports = _ports(service, pod)
            by_ports.setdefault(orjson.dumps(ports), (ports, []))[1].append(pod)
    if not by_ports:
        ports = _ports(service, None)
        by_ports[orjson.dumps(ports)] = (ports, [])
    meta = service.metadata
    owner = {
        "apiVersion": "v1",
        "kind": "Service",
        "name": meta.name,
        "uid": meta.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
    slices: dict[str, dict[str, Any]] = {}
    for digest, (ports, members) in by_ports.items():
        name = f"{meta.name}-{hashlib.sha256(digest).hexdigest()[:5]}"
        slices[name] = {
            "apiVersion": ENDPOINT_SLICES.api_version,
            "kind": ENDPOINT_SLICES.kind,
            "metadata": {
                "name": name,
                "namespace": meta.namespace,
                "labels": {SERVICE_NAME: meta.name, MANAGED_BY: US},
                "ownerReferences": [owner],
            },
            "addressType": "IPv4",
            "endpoints": [_endpoint(service, pod) for pod in members],
            "ports": ports,
        }
    return slices


def _ports(service: Service, pod: Pod | None) -> list[dict[str, Any]]:
    """Ports with their numbers on a Pod; a name that the Pod does not have is left out."""
    found: list[dict[str, Any]] = []
    for port in service.spec.ports:
        number = _number(port, pod)
        if number is not None:
            entry: dict[str, Any] = {"name": port.name, "port": number, "protocol": port.protocol}
            if port.app_protocol:
                entry["appProtocol"] = port.app_protocol
            found.append(entry)
    return found


def _number(port: ServicePort, pod: Pod | None) -> int | None:
    if isinstance(port.target_port, int):
        return port.target_port or port.port
    for container in pod.spec.containers if pod else ():
        for candidate in container.ports:
            if candidate.name == port.target_port and candidate.protocol == port.protocol:
                return candidate.container_port
    return None


def _endpoint(service: Service, pod: Pod) -> dict[str, Any]:
    terminating = pod.metadata.deletion_timestamp is not None
    published = service.spec.publish_not_ready_addresses
    endpoint: dict[str, Any] = {
        "addresses": [pod.status.pod_ip],
        "conditions": {
            "ready": published or (pod.is_ready and not terminating),
            "serving": published or pod.is_ready,
            "terminating": terminating,
        },
        "targetRef": {
            "kind": "Pod",
            "name": pod.metadata.name,
            "namespace": pod.metadata.namespace,
            "uid": pod.metadata.uid,
        },
    }
    if pod.spec.node_name:
        endpoint["nodeName"] = pod.spec.node_name
    if pod.spec.hostname and pod.spec.subdomain == service.metadata.name:
        endpoint["hostname"] = pod.spec.hostname
    return endpoint


class EndpointSlices:
    """Keeps the slices of every Service that selects Pods."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._services: Store[Service] = Store(indexes={"namespace": lambda one: (one.metadata.namespace,)})
        self._pods: Store[Pod] = Store(indexes={"namespace": lambda one: (one.metadata.namespace,)})
        self._slices: Store[dict[str, Any]] = Store(indexes={"service": _service_of_slice})
        self._controller: Controller[Key] = Controller("endpoints", Queue(), self._reconcile, workers=4)
        self._controller.watches(self._services, itself)
        self._controller.watches(self._pods, self._services_of, when=_matters)
        self._controller.watches(self._slices, _service_key)

    async def run(self) -> None:
        """Keep them until cancelled."""
        await run_loop(
            self._controller,
            Informer(self._client, PODS, self._pods, type=Pod),
            Informer(self._client, SERVICES, self._services, type=Service),
            Informer(self._client, ENDPOINT_SLICES, self._slices, labels=f"{MANAGED_BY}={US}"),
        )

    def _services_of(self, pod: Pod) -> list[Key]:
        return [
            Key(service.metadata.namespace, service.metadata.name)
            for service in self._services.by("namespace", pod.metadata.namespace)
            if _selects(service, pod)
        ]

    async def _reconcile(self, key: Key) -> None:
        service = self._services.get(*key)
        if service is None or service.metadata.deletion_timestamp or not service.spec.selector:
            return  # slices of a Service that is gone are garbage; those of one without selector are its user's
        members = [pod for pod in self._pods.by("namespace", key.namespace) if _selects(service, pod)]
        wanted = desired_slices(service, members)
        existing = {one["metadata"]["name"]: one for one in self._slices.by("service", str(key))}
        for name, desired in wanted.items():
            current = existing.pop(name, None)
            if current is None:
                await self._create(key, desired)
            elif any(current.get(part, []) != desired[part] for part in ("endpoints", "ports")):
                patch = {part: desired[part] for part in ("endpoints", "ports")}
                self._slices.wrote(await self._client.patch(ENDPOINT_SLICES, name, patch, namespace=key.namespace))
        for name, stale in existing.items():
            await self._delete(key, name, stale)

    async def _create(self, key: Key, desired: dict[str, Any]) -> None:
        try:
            self._slices.wrote(await self._client.create(ENDPOINT_SLICES, desired, namespace=key.namespace))
        except AlreadyExists:
            # Left by an earlier Service of this name: taken over before the garbage collector finds it.
            name = desired["metadata"]["name"]
            patch = {"metadata": desired["metadata"], "endpoints": desired["endpoints"], "ports": desired["ports"]}
            self._slices.wrote(await self._client.patch(ENDPOINT_SLICES, name, patch, namespace=key.namespace))

    async def _delete(self, key: Key, name: str, stale: dict[str, Any]) -> None:
        try:
            await self._client.delete(ENDPOINT_SLICES, name, namespace=key.namespace, uid=stale["metadata"]["uid"])
        except NotFound:
            return
        self._slices.deleted(stale)


def _selects(service: Service, pod: Pod) -> bool:
    selector = service.spec.selector
    return bool(selector) and LabelSelector.of(selector).matches(pod.metadata.labels)


def _service_key(one: dict[str, Any]) -> list[Key]:
    name = one["metadata"].get("labels", {}).get(SERVICE_NAME)
    return [Key(one["metadata"]["namespace"], name)] if name else []


def _service_of_slice(one: dict[str, Any]) -> list[str]:
    return [str(key) for key in _service_key(one)]


def _matters(old: Pod | None, new: Pod | None) -> bool:
    """Whether a Pod's change can change a slice."""
    if old is None or new is None:
        return True
    return _seen(old) != _seen(new)


def _seen(pod: Pod) -> tuple[Any, ...]:
    meta = pod.metadata
    is_gone = pod.status.phase in ("Succeeded", "Failed")
    return meta.labels, meta.deletion_timestamp, pod.spec, pod.status.pod_ip, pod.is_ready, is_gone
