"""The local engine: API server, controllers, node and operator in one process, started and stopped in order.

Everything that can be refused is tried before anything is started, so a failed start leaves nothing behind. The parts
speak to each other through the Kubernetes API only; that they share a process is known to nobody but this module.
"""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import socket
import sys
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

import structlog
import uvloop

from kuberay.engine.apiserver import ApiServer, InProcessTransport, SqliteStorage, User, certificates, credentials
from kuberay.engine.apiserver.credentials import ServiceAccounts
from kuberay.engine.apiserver.http import HttpFront
from kuberay.engine.crds import register_crds
from kuberay.engine.dashboards import Dashboards
from kuberay.engine.errors import PortTaken, RayMissing
from kuberay.engine.loops import Claims, EndpointSlices, GarbageCollector, Jobs, Namespaces, Scheduler
from kuberay.engine.node import images
from kuberay.engine.node.agent import NodeAgent
from kuberay.engine.node.remote import Helper
from kuberay.engine.node.syscalls import die_with_parent
from kuberay.kube.client import Client
from kuberay.operator import logs
from kuberay.operator import main as operator
from kuberay.operator import settings as operator_settings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping
    from typing import Any

    from kuberay.engine.folder import DataFolder
    from kuberay.engine.streams import LogOptions

log = structlog.get_logger(__name__)

POD_SIDE_PORT = 443


@dataclass(frozen=True, slots=True)
class Settings:
    """What distinguishes one engine from another.

    :param port: of the API server on loopback; 0 takes any that is free.
    :param attached: end when the process that started the engine ends.
    :param open_dashboards: let every user of this machine reach the dashboards, not only the engine's own.
    """

    folder: DataFolder
    port: int
    attached: bool = False
    open_dashboards: bool = False


def run(settings: Settings, *, ready: Callable[[], None]) -> None:
    """Run an engine until SIGTERM or SIGINT.

    :param ready: called once, when clients can connect.
    :raises EngineError: it cannot start, or cannot go on; nothing it started is left.
    """
    if settings.attached:
        die_with_parent()
    settings.folder.create()
    with settings.folder.lock():
        logs.configure()
        _require_ray()
        with _listen(settings.port) as listener:
            try:
                uvloop.run(_run(settings, listener, ready))
            except BaseExceptionGroup as group:
                log.exception("the engine ends because a part of it failed", exc_info=group)
                raise _first(group) from group


async def _run(settings: Settings, listener: socket.socket, ready: Callable[[], None]) -> None:
    folder = settings.folder
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with AsyncExitStack() as stack:
        storage = SqliteStorage(folder.objects)
        stack.push_async_callback(storage.close)
        helper = await Helper.start()
        stack.push_async_callback(helper.close)
        streams = _Streams()
        server = ApiServer(storage, streams=streams)
        front, accounts = await _serve(server, folder, listener, helper)
        stack.push_async_callback(front.stop)
        await _run_parts(server, streams, helper, accounts, settings, ready, stop)


async def _serve(
    server: ApiServer, folder: DataFolder, listener: socket.socket, helper: Helper
) -> tuple[HttpFront, ServiceAccounts]:
    """Answer on loopback, for this machine, and on the bridge, for Pods."""
    pod_side = str(helper.gateway)
    trusted = certificates.ensure(folder.credentials, addresses=[pod_side])
    token = credentials.ensure_token(folder.credentials / "token")
    tokens = credentials.Tokens()
    tokens.add(token, User("kuberay-local", ("system:masters",)))
    front = HttpFront(server, tokens, trusted.server_context())
    await front.serve(listener)
    await front.serve(await helper.listen(pod_side, POD_SIDE_PORT))
    address = f"https://127.0.0.1:{listener.getsockname()[1]}"
    authority = trusted.authority.read_bytes()
    config = credentials.kubeconfig(server=address, authority=authority, token=token)
    credentials.write_kubeconfig(folder.kubeconfig, config)
    return front, ServiceAccounts(tokens, authority)


async def _run_parts(
    server: ApiServer,
    streams: _Streams,
    helper: Helper,
    accounts: ServiceAccounts,
    settings: Settings,
    ready: Callable[[], None],
    stop: asyncio.Event,
) -> None:
    folder = settings.folder

    def client(name: str) -> Client:
        return Client(InProcessTransport(server, user=User(f"system:kuberay:{name}")), user_agent=f"kuberay-{name}")

    await register_crds(client("crds"))
    node = NodeAgent(
        client("node"),
        helper,
        folder.pods,
        api_address=(str(helper.gateway), POD_SIDE_PORT),
        account_files=accounts.files,
    )
    streams.node = node
    loops = (
        GarbageCollector(client("garbage-collector")),
        Namespaces(client("namespaces")),
        Jobs(client("jobs")),
        Claims(client("claims")),
        Scheduler(client("scheduler")),
        EndpointSlices(client("endpoints")),
        Dashboards(client("dashboards"), node.connect, file=folder.addresses, open_to_all=settings.open_dashboards),
    )
    # No operator port: nobody scrapes an engine, and two of them must be able to run side by side.
    of_operator = operator_settings.from_environment(os.environ, health_address=None)
    end_operator = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        running = [group.create_task(loop.run(), name=type(loop).__name__) for loop in loops]
        being_node = group.create_task(node.run(), name="node")
        operating = group.create_task(operator.run(client("operator"), of_operator, stop=end_operator), name="operator")
        await node.ready()
        ready()
        log.info("engine is ready", folder=str(folder.path), pid=os.getpid())
        await stop.wait()
        log.info("engine is stopping")
        # The operator first, or it would replace the Pods that the node then stops.
        end_operator.set()
        await asyncio.wait([operating])
        being_node.cancel()
        await asyncio.wait([being_node])
        for task in running:
            task.cancel()
    log.info("engine has stopped")


class _Streams:
    """The node's logs for the API server; the node itself is made later, because it is a client of that server."""

    node: NodeAgent | None = None

    def logs(self, pod: Mapping[str, Any], container: str, options: LogOptions) -> AsyncIterator[bytes]:
        assert self.node is not None
        return self.node.logs(pod, container, options)


def _require_ray() -> None:
    problem = images.installed().problem("Every image")
    if problem:
        raise RayMissing(f"there is no Ray to run: pip install 'kuberay[local]' with {sys.executable} installs it.")


def _listen(port: int) -> socket.socket:
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(("127.0.0.1", port))
    except OSError as problem:
        listener.close()
        if problem.errno not in (errno.EADDRINUSE, errno.EACCES):
            raise
        why = "another program listens there" if problem.errno == errno.EADDRINUSE else "it needs root"
        raise PortTaken(
            f"cannot listen on 127.0.0.1:{port}: {why}. Choose another port with --port, or --port 0 for any."
        ) from problem
    listener.listen(128)
    return listener


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The first real failure of a group; the others were usually caused by it."""
    first = group.exceptions[0]
    return _first(first) if isinstance(first, BaseExceptionGroup) else first
