"""Which names exist inside the Pods' network and what they mean, from Services and EndpointSlices; pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

Object = dict[str, Any]

DOMAIN = "cluster.local"
LABEL_SERVICE = "kubernetes.io/service-name"
_ADDRESS_NAME = re.compile(r"(\d{1,3})-(\d{1,3})-(\d{1,3})-(\d{1,3})")


class Directory(Protocol):
    """The cluster's Services and where they lead."""

    def service(self, namespace: str, name: str) -> Object | None: ...

    def services(self) -> Iterable[Object]: ...

    def slices(self, namespace: str, service: str) -> Iterable[Object]: ...


@dataclass(frozen=True, slots=True)
class Found:
    """What is known about a name; all empty means: it exists, without records of the kind that was asked for."""

    addresses: tuple[str, ...] = ()
    servers: tuple[tuple[int, str], ...] = ()
    """Ports and host names, for SRV."""
    alias: str = ""


def search_list(namespace: str) -> list[str]:
    """The domains a Pod's resolver tries, in order."""
    return [f"{namespace}.svc.{DOMAIN}", f"svc.{DOMAIN}", DOMAIN]


def resolver_configuration(namespace: str, server: str) -> str:
    """A Pod's `/etc/resolv.conf`.

    `ndots:4`, where Kubernetes has 5: the full name of a head Service has four dots, and is then asked for as it is
    instead of behind each search domain first.
    """
    return f"nameserver {server}\nsearch {' '.join(search_list(namespace))}\noptions ndots:4\n"


def hosts_file(address: str, hostname: str, *, namespace: str, subdomain: str = "") -> str:
    """A Pod's `/etc/hosts`: itself and nothing else."""
    own = f"{hostname}.{subdomain}.{namespace}.svc.{DOMAIN}\t{hostname}" if subdomain else hostname
    return f"127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n{address}\t{own}\n"


def look_up(directory: Directory, name: str) -> Found | None:
    """What a name means; `None` when there is no such name."""
    labels = name.lower().rstrip(".").split(".")
    match labels:
        case [*left, namespace, "svc", "cluster", "local"] if left:
            return _service_name(directory, left, namespace)
        case [address, _, "pod", "cluster", "local"]:
            match = _ADDRESS_NAME.fullmatch(address)
            return Found((".".join(match.groups()),)) if match else None
    return None


def name_of_address(directory: Directory, address: str) -> str | None:
    """The name of a Service's address or of one of its endpoints, for reverse look-ups."""
    for service in directory.services():
        domain = _domain(service)
        if service["spec"].get("clusterIP") == address:
            return domain
        for endpoint in _endpoints(directory, service):
            if address in endpoint["addresses"]:
                return f"{_endpoint_name(endpoint)}.{domain}"
    return None


def targets(directory: Directory, service: Object, port: Object) -> list[tuple[str, int]]:
    """The addresses and ports behind one port of a Service, ready ones only."""
    metadata = service["metadata"]
    found = []
    for piece in directory.slices(metadata["namespace"], metadata["name"]):
        numbers = [
            each.get("port")
            for each in piece.get("ports") or ()
            if (each.get("name") or "") == (port.get("name") or "")
        ]
        for endpoint in _usable(service, piece):
            found += [(address, number) for address in endpoint["addresses"] for number in numbers if number]
    return found


def is_headless(service: Object) -> bool:
    return service["spec"].get("clusterIP") in (None, "", "None")


def _service_name(directory: Directory, left: list[str], namespace: str) -> Found | None:
    service = directory.service(namespace, left[-1])
    if service is None:
        return None
    spec = service["spec"]
    if spec.get("type") == "ExternalName":
        return Found(alias=spec.get("externalName", "")) if len(left) == 1 else None
    match left:
        case [_]:
            return _whole_service(directory, service)
        case [host, _]:
            addresses = [a for e in _endpoints(directory, service) if _endpoint_name(e) == host for a in e["addresses"]]
            return Found(tuple(addresses)) if addresses else None
        case [port, protocol, _]:
            return _servers(directory, service, port.removeprefix("_"), protocol.removeprefix("_"))
    return None


def _whole_service(directory: Directory, service: Object) -> Found:
    if not is_headless(service):
        return Found((service["spec"]["clusterIP"],))
    return Found(tuple(address for endpoint in _endpoints(directory, service) for address in endpoint["addresses"]))


def _servers(directory: Directory, service: Object, port: str, protocol: str) -> Found | None:
    for declared in service["spec"].get("ports") or ():
        if declared.get("name") == port and (declared.get("protocol") or "TCP").lower() == protocol:
            break
    else:
        return None
    domain = _domain(service)
    if not is_headless(service):
        return Found(servers=((declared["port"], domain),))
    hosts = [f"{_endpoint_name(endpoint)}.{domain}" for endpoint in _endpoints(directory, service)]
    return Found(servers=tuple((declared["port"], host) for host in hosts))


def _endpoints(directory: Directory, service: Object) -> Iterator[Object]:
    for piece in directory.slices(service["metadata"]["namespace"], service["metadata"]["name"]):
        yield from _usable(service, piece)


def _usable(service: Object, piece: Object) -> Iterator[Object]:
    everybody = service["spec"].get("publishNotReadyAddresses")
    for endpoint in piece.get("endpoints") or ():
        if everybody or (endpoint.get("conditions") or {}).get("ready", True):
            yield endpoint


def _endpoint_name(endpoint: Object) -> str:
    return str(endpoint.get("hostname") or endpoint["addresses"][0].replace(".", "-"))


def _domain(service: Object) -> str:
    return f"{service['metadata']['name']}.{service['metadata']['namespace']}.svc.{DOMAIN}"
