"""ClusterIP Services: an address on the bridge, and every connection to it carried to one of the ready endpoints."""

from __future__ import annotations

import asyncio
import itertools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import structlog

from kuberay.engine.node import names
from kuberay.engine.node.errors import HelperRefused
from kuberay.engine.node.forward import Forwarder

if TYPE_CHECKING:
    import socket

    from kuberay.engine.node.names import Directory, Object
    from kuberay.engine.node.remote import Helper

log = structlog.get_logger(__name__)
_DIAL_SECONDS = 5.0

Port = tuple[str, int]
"""An address and a port that is listened on."""


@dataclass(slots=True)
class ServiceProxy:
    """Follows the Services of a directory; `sync` after every change of them.

    `reserved` addresses are served by somebody else (the API server) and left alone.
    """

    helper: Helper
    directory: Directory
    reserved: frozenset[str] = frozenset()
    _addresses: set[str] = field(default_factory=set)
    _forwarders: dict[Port, Forwarder] = field(default_factory=dict)
    _turns: itertools.count[int] = field(default_factory=itertools.count)

    async def sync(self) -> None:
        """Listen where Services say, and nowhere else. Endpoints need no sync: they are read per connection."""
        wanted = {
            (service["spec"]["clusterIP"], int(port["port"])): (service, port)
            for service in self.directory.services()
            if not names.is_headless(service) and service["spec"]["clusterIP"] not in self.reserved
            for port in service["spec"].get("ports") or ()
            if (port.get("protocol") or "TCP") == "TCP"
        }
        for place in self._forwarders.keys() - wanted.keys():
            await self._forwarders.pop(place).close()
        addresses = {address for address, _ in wanted}
        for address in self._addresses - addresses:
            self._addresses.discard(address)
            await self.helper.remove_address(address)
        for place, (service, port) in wanted.items():
            if place in self._forwarders:
                continue
            try:
                await self._listen(place, service["metadata"], port.get("name"))
            except HelperRefused as problem:
                log.warning("service cannot be served", service=service["metadata"]["name"], why=str(problem))

    async def close(self) -> None:
        for forwarder in self._forwarders.values():
            await forwarder.close()
        self._forwarders.clear()

    async def _listen(self, place: Port, metadata: Object, port: str | None) -> None:
        namespace, name = metadata["namespace"], metadata["name"]
        if place[0] not in self._addresses:
            await self.helper.add_address(place[0])
            self._addresses.add(place[0])
        listener = await self.helper.listen(*place)
        self._forwarders[place] = Forwarder(listener, lambda: self._dial(namespace, name, port))

    async def _dial(self, namespace: str, name: str, port: str | None) -> socket.socket:
        service = self.directory.service(namespace, name)
        behind = names.targets(self.directory, service, {"name": port}) if service else []
        start = next(self._turns)
        for offset in range(len(behind)):
            address, number = behind[(start + offset) % len(behind)]
            try:
                async with asyncio.timeout(_DIAL_SECONDS):
                    return await self.helper.connect(address, number)
            except (OSError, TimeoutError):
                continue
        raise ConnectionRefusedError(f"Service {namespace}/{name} has no endpoint that answers")
