"""Says that the node is there: a Node object written once, and a Lease renewed beside it.

A Lease, because renewing one wakes nobody: the Node object, which others watch, stays as it is.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import structlog

from kuberay.engine.node import machine
from kuberay.kube.errors import AlreadyExists, KubeError, NotFound
from kuberay.kube.resources import LEASES, NAMESPACES, NODES

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime
    from pathlib import Path

    from kuberay.kube.client import Client

log = structlog.get_logger(__name__)

LEASE_NAMESPACE = "kube-node-lease"
_LEASE_SECONDS = 40
_RENEW_SECONDS = 10.0


class Heartbeat:
    """Registers one node and keeps its Lease fresh."""

    def __init__(self, client: Client, name: str, now: Callable[[], datetime]) -> None:
        self._client = client
        self._name = name
        self._now = now

    async def register(self, address: str, folder: Path) -> None:
        """Write the Node and its status, over what an earlier engine left."""
        await self._ensure(machine.node(self._name))
        status = machine.node_status(self._name, address, folder, self._now())
        await self._client.patch(NODES, self._name, {"status": status}, subresource="status")
        try:
            namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": LEASE_NAMESPACE}}
            await self._client.create(NAMESPACES, namespace)
        except AlreadyExists:
            pass
        await self._renew()

    async def run(self) -> None:
        """Renew the Lease until cancelled."""
        while True:
            await asyncio.sleep(_RENEW_SECONDS)
            try:
                await self._renew()
            except KubeError as problem:
                log.warning("lease not renewed", why=str(problem))

    async def _ensure(self, node: dict[str, object]) -> None:
        try:
            await self._client.create(NODES, node)
        except AlreadyExists:
            await self._client.patch(NODES, self._name, {"metadata": node["metadata"]})

    async def _renew(self) -> None:
        spec = {
            "holderIdentity": self._name,
            "leaseDurationSeconds": _LEASE_SECONDS,
            "renewTime": self._now().strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        }
        try:
            await self._client.patch(LEASES, self._name, {"spec": spec}, namespace=LEASE_NAMESPACE)
        except NotFound:
            metadata = {"name": self._name, "namespace": LEASE_NAMESPACE}
            lease = {"apiVersion": LEASES.api_version, "kind": LEASES.kind, "metadata": metadata, "spec": spec}
            await self._client.create(LEASES, lease, namespace=LEASE_NAMESPACE)
