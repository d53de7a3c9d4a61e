"""The dashboards of local clusters, reachable from this machine: one port on loopback each.

Pods live in a network of their own that the host cannot see. For every head Service with a port named `dashboard` the
engine listens on loopback, at 8265 or the next free port, and carries each connection to the head's Pod. Whoever
reaches a dashboard can run programs as the engine's user, so that nobody but this user and root is let in. The
addresses are written to a file, because they are facts of this machine and not of the cluster.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import pwd
import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING

import orjson
import structlog

from kuberay.api.core import Pod, Service
from kuberay.build.labels import CLUSTER
from kuberay.engine.node.forward import Forwarder
from kuberay.engine.peers import uid_of_peer
from kuberay.kube.informer import Informer
from kuberay.kube.resources import PODS, SERVICES
from kuberay.kube.store import Store

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from kuberay.kube.client import Client

log = structlog.get_logger(__name__)

FIRST_PORT = 8265
PORTS = 200
HEADS = "ray.io/node-type=head"


@dataclass(frozen=True, slots=True)
class _Dashboard:
    forwarder: Forwarder
    address: str


class Dashboards:
    """Keeps one forwarder a cluster.

    :param connect: makes a connection to an address of the Pods' network.
    :param file: where the addresses are written: `namespace/cluster` to URL.
    :param open_to_all: every user of this machine is let in.
    """

    def __init__(
        self,
        client: Client,
        connect: Callable[[str, int], Awaitable[socket.socket]],
        *,
        file: Path,
        open_to_all: bool = False,
    ) -> None:
        self._services: Store[Service] = Store()
        self._pods: Store[Pod] = Store()
        self._informers = (
            Informer(client, SERVICES, self._services, type=Service, labels=HEADS),
            Informer(client, PODS, self._pods, type=Pod, labels=HEADS),
        )
        self._connect = connect
        self._file = file
        self._refusal = None if open_to_all else refusal
        self._open: dict[str, _Dashboard] = {}
        self._changed = asyncio.Event()
        self._services.on_change(lambda _old, _new: self._changed.set())

    async def run(self) -> None:
        """Follow the head Services until cancelled."""
        self._write()
        try:
            async with asyncio.TaskGroup() as group:
                for informer in self._informers:
                    group.create_task(informer.run())
                while True:
                    await self._changed.wait()
                    self._changed.clear()
                    await self._align()
        finally:
            for dashboard in self._open.values():
                await dashboard.forwarder.close()
            self._file.unlink(missing_ok=True)

    async def _align(self) -> None:
        wanted = {_cluster(each): each for each in self._services if _port(each) is not None}
        for cluster in self._open.keys() - wanted.keys():
            await self._open.pop(cluster).forwarder.close()
        for cluster in sorted(wanted.keys() - self._open.keys()):
            listener = _listen()
            if listener is None:
                log.warning("no free port for a dashboard", cluster=cluster, first=FIRST_PORT, tried=PORTS)
                continue
            forwarder = Forwarder(listener, self._dialler(wanted[cluster]), refusal=self._refusal)
            self._open[cluster] = _Dashboard(forwarder, f"http://127.0.0.1:{listener.getsockname()[1]}")
        self._write()

    def _dialler(self, service: Service) -> Callable[[], Awaitable[socket.socket]]:
        cluster, port = _cluster(service), _port(service)
        assert port is not None

        async def dial() -> socket.socket:
            for pod in self._pods:
                if f"{pod.metadata.namespace}/{pod.metadata.labels.get(CLUSTER)}" == cluster and pod.status.pod_ip:
                    return await self._connect(pod.status.pod_ip, port)
            raise ConnectionRefusedError(f"cluster {cluster} has no head Pod with an address")

        return dial

    def _write(self) -> None:
        """Write the file anew, so that a reader sees either the old or the new one whole."""
        beside = self._file.with_suffix(".new")
        beside.write_bytes(orjson.dumps({name: each.address for name, each in sorted(self._open.items())}))
        os.replace(beside, self._file)


def refusal(connection: socket.socket) -> bytes | None:
    """What a client is told that is neither the user of this process nor root; `None` for those."""
    if uid_of_peer(connection) in (os.geteuid(), 0):
        return None
    text = (
        f"This dashboard is for user {_user()} only: whoever reaches it can run programs as that user.\n"
        "To open it to everybody on this machine, start with: kuberay local up --open-dashboards\n"
    ).encode()
    head = "HTTP/1.1 403 Forbidden\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n"
    return f"{head}Content-Length: {len(text)}\r\n\r\n".encode() + text


def _user() -> str:
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())


def _cluster(service: Service) -> str:
    return f"{service.metadata.namespace}/{service.metadata.labels.get(CLUSTER, service.name)}"


def _port(service: Service) -> int | None:
    for each in service.spec.ports:
        if each.name == "dashboard":
            return each.target_port if isinstance(each.target_port, int) else each.port
    return None


def _listen() -> socket.socket | None:
    for port in range(FIRST_PORT, FIRST_PORT + PORTS):
        listener = socket.socket()
        with contextlib.suppress(OSError):
            listener.bind(("127.0.0.1", port))
            listener.listen(128)
            return listener
        listener.close()
    return None
