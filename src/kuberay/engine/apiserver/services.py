"""Addresses and node ports of Services, given out so that no two Services share one."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network
from typing import TYPE_CHECKING

from kuberay.engine.apiserver import problems

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator

    from kuberay.engine.apiserver.problems import Problem
    from kuberay.engine.apiserver.storage import MemoryStorage, Object

CLUSTER_ADDRESSES = IPv4Network("10.96.0.0/16")
NODE_PORTS = range(30000, 32768)
_RESERVED = 256
"""Addresses at the start of the range are given on request only: 10.96.0.1 is the API server's, 10.96.0.10 DNS's."""


class Allocator:
    """Reads what is taken from the stored Services, so there is nothing to keep in step."""

    def __init__(self, storage: MemoryStorage, rng: random.Random) -> None:
        self._storage = storage
        self._rng = rng

    def allocate(self, service: Object, old: Object | None) -> list[Problem]:
        """Give a Service what its type needs and it does not have yet, in place."""
        spec = service["spec"]
        before = old["spec"] if old else {}
        if spec["type"] == "ExternalName":
            for key in ("clusterIP", "clusterIPs"):
                spec.pop(key, None)
            return []
        if not spec.get("clusterIP"):
            spec["clusterIP"] = (spec.get("clusterIPs") or [before.get("clusterIP") or self._free_address()])[0]
        found = list(self._check_address(service, before))
        spec["clusterIPs"] = [spec["clusterIP"]]
        if spec["type"] in ("NodePort", "LoadBalancer") and spec.get("allocateLoadBalancerNodePorts", True):
            found += self._node_ports(service, before)
        elif spec["type"] == "ClusterIP":
            for port in spec.get("ports", ()):
                port.pop("nodePort", None)
        return found

    def _others(self, service: Object) -> Iterator[Object]:
        meta = service["metadata"]
        for entry in self._storage.entries("services"):
            if (entry.namespace, entry.name) != (meta.get("namespace"), meta.get("name")):
                yield entry.obj["spec"]

    def _free_address(self) -> str:
        taken = {entry.obj["spec"].get("clusterIP") for entry in self._storage.entries("services")}
        while True:
            offset = self._rng.randrange(_RESERVED, CLUSTER_ADDRESSES.num_addresses - 1)
            address = str(CLUSTER_ADDRESSES[offset])
            if address not in taken:
                return address

    def _check_address(self, service: Object, before: Object) -> Iterator[Problem]:
        address = service["spec"]["clusterIP"]
        if address in ("None", before.get("clusterIP")):
            return
        try:
            inside = IPv4Address(address) in CLUSTER_ADDRESSES
        except ValueError:
            inside = False
        if not inside:
            detail = f"must be None or an IPv4 address of {CLUSTER_ADDRESSES}"
            yield problems.invalid("spec.clusterIP", address, detail)
        elif any(other.get("clusterIP") == address for other in self._others(service)):
            yield problems.invalid("spec.clusterIPs", address, "provided IP is already allocated")

    def _node_ports(self, service: Object, before: Object) -> Iterator[Problem]:
        taken = {port.get("nodePort") for other in self._others(service) for port in other.get("ports", ())}
        had = {port.get("port"): port.get("nodePort") for port in before.get("ports", ())}
        ports = service["spec"].get("ports", [])
        for index, port in enumerate(ports):
            number = port.get("nodePort")
            if number and (number not in NODE_PORTS or number in taken):
                detail = "provided port is already allocated"
                if number not in NODE_PORTS:
                    detail = f"the range of valid ports is {NODE_PORTS.start}-{NODE_PORTS.stop - 1}"
                yield problems.invalid(f"spec.ports[{index}].nodePort", number, detail)
        own = {port.get("nodePort") for port in ports}
        for port in ports:
            if not port.get("nodePort"):
                kept = had.get(port.get("port"))
                free = kept if kept and kept not in own else self._rng.choice(sorted({*NODE_PORTS} - taken - own))
                port["nodePort"] = free
                own.add(free)
