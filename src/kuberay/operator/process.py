"""The operator as a process of its own: connections, election, signals, exit code."""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import socket
import uuid
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import structlog

from kuberay import __version__
from kuberay.kube.client import Client, Retry
from kuberay.kube.election import Elector, LeaderOnly, LeaseLost
from kuberay.kube.http import HttpTransport
from kuberay.kube.leadership import Leadership
from kuberay.kube.limits import LimitedTransport
from kuberay.kube.metrics import Metrics
from kuberay.kube.request_metrics import MeasuredTransport, RequestMetrics
from kuberay.operator.main import LEASE, Operator, exposing, health
from kuberay.operator.memory import keep_small, spare_the_collector
from kuberay.operator.platform import await_openshift

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from kuberay.kube.access import Access
    from kuberay.kube.transport import Transport
    from kuberay.operator.startup import Startup

USER_AGENT = f"kuberay-operator/{__version__}"

log = structlog.get_logger(__name__)


async def serve(startup: Startup, access: Access) -> int:
    """Run the operator until it is told to stop, or until another one leads; the exit code of the process.

    :raises OSError: an address cannot be listened on.
    :raises ValueError: a setting asks for what this version cannot do.
    """
    _allow_many_connections()
    for notice in startup.notices:
        log.warning(notice)
    log.info("feature gates", gates=str(startup.settings.controllers.gates))
    log.info("RayJobs, RayServices and RayCronJobs are not worked on yet")
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, _stop_or_exit, stop)
    metrics = Metrics()
    operator: Operator | None = None

    def not_ready() -> list[str]:
        return ["the API server has not said what it serves"] if operator is None else operator.not_ready()

    async with AsyncExitStack() as stack:
        # Before any server is asked: a kubelet ends whoever does not answer, and that brings back no API server. The
        # probes of KubeRay's chart go to /metrics.
        await stack.enter_async_context(health(startup.settings.health_address, not_ready))
        await stack.enter_async_context(exposing(metrics, startup.settings.metrics_address))
        leadership = None
        if startup.leader_election:
            namespace = startup.leader_election_namespace or access.namespace
            leadership = await stack.enter_async_context(Leadership(lambda: _elector(access, namespace)))
        measured = RequestMetrics(metrics, urlsplit(access.server).netloc)
        wire = MeasuredTransport(HttpTransport(access, resolve=measured.resolve), measured)
        leads = None if leadership is None else lambda: leadership.holds
        transport = restrained(wire, startup, measured, leads)
        client = Client(transport, user_agent=USER_AGENT, retry=Retry(told=measured.retried))
        stack.push_async_callback(client.close)
        settings = replace(startup.settings, health_address=None, metrics_address=None)
        if await await_openshift(client, stop, server=access.server):
            log.info("this is an OpenShift")
            settings = replace(settings, controllers=replace(settings.controllers, is_openshift=True))
        spare_the_collector()
        tidying = asyncio.create_task(keep_small())
        stack.callback(tidying.cancel)
        operator = Operator(client, settings, leadership=leadership, metrics=metrics)
        try:
            await operator.run(stop)
        except LeaseLost as lost:
            log.error("exiting, for another operator may lead by now", reason=str(lost))
            return 1
    return 0


def _allow_many_connections() -> None:
    """Raise the limit on open files as far as this process may.

    Each watched namespace has nine watches, each with a connection: a bit over a hundred namespaces need more than the
    usual 1024, which is kept so low for programs that use select().
    """
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(OSError, ValueError):  # some systems name a limit that they do not grant
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def restrained(
    wire: Transport, startup: Startup, metrics: RequestMetrics, leads: Callable[[], bool] | None
) -> Transport:
    """A transport that sends no faster than was asked for, and writes only while this process leads.

    Who leads is asked last: a write that waited for its turn may have lost the lease meanwhile.
    """
    transport = wire if leads is None else LeaderOnly(wire, leads)
    if startup.qps > 0:
        transport = LimitedTransport(transport, qps=startup.qps, burst=startup.burst, metrics=metrics)
    return transport


@asynccontextmanager
async def _elector(access: Access, namespace: str) -> AsyncIterator[Elector]:
    """Takes part in the election over a connection of its own."""
    client = Client(HttpTransport(access), user_agent=f"{USER_AGENT} leader-election", retry=Retry(attempts=0))
    try:
        yield Elector(client, namespace=namespace, name=LEASE, identity=f"{socket.gethostname()}_{uuid.uuid4()}")
    finally:
        await client.close()


def _stop_or_exit(stop: asyncio.Event, exit: Callable[[int], object] = os._exit) -> None:
    """The first signal asks for a clean end; whoever sends a second one has waited long enough."""
    if stop.is_set():
        log.error("told twice to stop: exiting without finishing what is under way")
        exit(1)
    log.info("stopping")
    stop.set()
