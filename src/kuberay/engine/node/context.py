"""What every Pod of this node shares: the API, the helper, addresses, and the order in which containers start."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kuberay.engine.node import environment, machine
from kuberay.engine.node.environment import References
from kuberay.kube.errors import NotFound
from kuberay.kube.resources import CONFIG_MAPS, SECRETS

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterable, Mapping
    from datetime import datetime
    from pathlib import Path

    from kuberay.engine.node.environment import Object
    from kuberay.engine.node.events import PodEvents
    from kuberay.engine.node.images import RayEnvironment
    from kuberay.engine.node.network import Addresses
    from kuberay.engine.node.remote import Helper
    from kuberay.kube.client import Client
    from kuberay.kube.quantity import Quantity
    from kuberay.kube.resources import Resource


@dataclass(frozen=True, slots=True)
class NodeContext:
    """The node, as its Pods see it."""

    client: Client
    helper: Helper
    folder: Path
    addresses: Addresses
    ray: RayEnvironment
    recorder: PodEvents
    now: Callable[[], datetime]
    turns: asyncio.Semaphore
    """How many containers may be busy starting at once."""
    service_host: str = ""
    service_port: int = 443
    account_files: Callable[[str, str], Mapping[str, bytes]] | None = None
    """The credentials of a service account, by namespace and name; without it Pods get none."""
    cpu: Quantity = field(default_factory=machine.cpu)
    memory: Quantity = field(default_factory=machine.memory)

    async def references(self, pod: Object) -> References:
        """The ConfigMaps and Secrets a Pod refers to, as they are now.

        :raises KubeError: the API server cannot be asked.
        """
        config_maps, secrets = environment.referenced(pod)
        namespace = pod["metadata"]["namespace"]
        return References(
            await self._all(CONFIG_MAPS, namespace, config_maps), await self._all(SECRETS, namespace, secrets)
        )

    async def _all(self, resource: Resource, namespace: str, wanted: Iterable[str]) -> dict[str, Object]:
        found = {}
        for name in sorted(wanted):
            try:
                found[name] = await self.client.get(resource, name, namespace=namespace)
            except NotFound:
                continue
        return found
