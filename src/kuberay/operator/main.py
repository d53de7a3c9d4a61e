"""The operator as a coroutine: everything it does, over any client, until it is told to stop.

`kuberay operator` runs it against a cluster over HTTPS; local mode runs it inside its own process.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING

import structlog

from kuberay import __version__
from kuberay.api.gates import Gate
from kuberay.controllers.networkpolicy import controller as networkpolicy
from kuberay.controllers.networkpolicy.controller import NetworkPolicyController
from kuberay.controllers.raycluster import controller as raycluster
from kuberay.controllers.raycluster.controller import RayClusterController
from kuberay.controllers.running import Crew
from kuberay.kube.election import LeaseLost
from kuberay.kube.lanes import Lanes
from kuberay.kube.metrics import Metrics
from kuberay.kube.probes import ProbeServer
from kuberay.kube.recorder import Recorder
from kuberay.operator.cluster_metrics import ClusterMetrics
from kuberay.operator.settings import listening

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
    from pathlib import Path

    from kuberay.controllers.running import RayController
    from kuberay.kube.client import Client
    from kuberay.kube.leadership import Leadership
    from kuberay.kube.webhook import WebhookServer
    from kuberay.operator.settings import Settings

LEASE = "ray-operator-leader"

_LAST_EVENTS = 5.0
"""Seconds that the events of the last pass may take to be sent."""
_HEAD_START = 0.5
"""Seconds that the election has before caches are filled: caches that are younger than the lease need no proof."""

log = structlog.get_logger(__name__)


class Operator:
    """The controllers of one process and what they share.

    :param client: stays open: it belongs to the caller.
    :param leadership: who leads, when there may be several operators: caches are filled at once, so that a standby is
        warm, and nothing is written before this process leads. Without it, this operator takes itself for the only one.
    :param certificates: a folder with the certificate of the webhooks, if it is not where KubeRay's is.
    """

    def __init__(
        self,
        client: Client,
        settings: Settings,
        *,
        leadership: Leadership | None = None,
        metrics: Metrics | None = None,
        certificates: Path | None = None,
    ) -> None:
        self._settings = settings
        self._leadership = leadership
        self._metrics = metrics or Metrics()
        self._certificates = certificates
        self._recorder = Recorder(client, raycluster.REPORTER)
        self._policy_recorder = Recorder(client, networkpolicy.REPORTER)
        options, namespaces = settings.controllers, settings.watch_namespaces or (None,)
        lanes: Lanes[str] = Lanes(options.writes_in_flight)
        self.controllers = [
            RayClusterController(client, self._recorder, options, namespace=each, lanes=lanes) for each in namespaces
        ]
        crews: dict[str, Sequence[RayController]] = {raycluster.NAME: self.controllers}
        if Gate.RAY_CLUSTER_NETWORK_POLICY in options.gates:
            crews[networkpolicy.NAME] = [
                NetworkPolicyController(
                    client,
                    self._policy_recorder,
                    options,
                    each.cluster_informer,
                    namespace=each.namespace,
                    lanes=lanes,
                )
                for each in self.controllers
            ]
        self._crews = [
            Crew(name, members, workers=settings.reconcile_concurrency, metrics=self._metrics)
            for name, members in crews.items()
        ]
        if leadership is not None:
            self._metrics.follow_leadership(LEASE, lambda: leadership.holds)
        if settings.cluster_metrics:
            ClusterMetrics(self._metrics, (each.clusters for each in self.controllers), leads=lambda: self.leads)

    @property
    def leads(self) -> bool:
        """Whether this process may write."""
        return self._leadership is None or self._leadership.holds

    def not_ready(self) -> list[str]:
        """What the operator still waits for. A standby whose caches are filled is ready: it could take over."""
        waiting = [] if all(crew.is_synced for crew in self._crews) else ["caches are being filled"]
        return waiting + [problem for crew in self._crews for problem in crew.problems]

    async def run(self, stop: asyncio.Event) -> None:
        """Work until `stop` is set; then finish what is under way and return.

        :raises ConfigError: the certificate of the webhooks cannot be used.
        :raises OSError: an address cannot be listened on.
        :raises ValueError: an address cannot be read.
        :raises LeaseLost: another process may lead by now; whatever was under way is abandoned.
        """
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(health(self._settings.health_address, self.not_ready))
            await stack.enter_async_context(exposing(self._metrics, self._settings.metrics_address))
            if self._settings.webhook_address is not None:
                from kuberay.operator import webhooks  # few have them, and aiohttp is a fifth of the process

                server = webhooks.server(self._certificates or webhooks.CERTIFICATES, self._metrics)
                serving = _serving(server, self._settings.webhook_address, "admission webhooks")
                await stack.enter_async_context(serving)
            namespaces = list(self._settings.watch_namespaces) or "all"
            log.info("operator started", version=__version__, namespaces=namespaces)
            if self._leadership is None:
                await self._work(stop)
            else:
                await self._work_while_leading(stop, self._leadership)
            log.info("operator stopped")

    async def _work_while_leading(self, stop: asyncio.Event, leadership: Leadership) -> None:
        async with asyncio.TaskGroup() as group:
            losing = group.create_task(leadership.lost())
            winning, stopping = group.create_task(leadership.won()), group.create_task(stop.wait())
            started = (losing, winning, stopping)
            await asyncio.wait(started, timeout=_HEAD_START, return_when=asyncio.FIRST_COMPLETED)
            working = group.create_task(self._work(stop, leadership.won))
            await asyncio.wait((losing, working), return_when=asyncio.FIRST_COMPLETED)
            for task in (*started, working):
                task.cancel()
        if not losing.cancelled():
            raise LeaseLost(losing.result())

    async def _work(self, stop: asyncio.Event, turn: Callable[[], Awaitable[str]] | None = None) -> None:
        async with asyncio.TaskGroup() as group:
            recorders = (self._recorder, self._policy_recorder)
            recording = [group.create_task(recorder.run()) for recorder in recorders]
            working = [group.create_task(crew.run(stop, turn=turn)) for crew in self._crews]
            await asyncio.wait(working)
            for recorder in recorders:
                recorder.stop()
            _, late = await asyncio.wait(recording, timeout=_LAST_EVENTS)
            for task in late:
                task.cancel()


@asynccontextmanager
async def health(address: str | None, not_ready: Callable[[], Sequence[str]]) -> AsyncIterator[None]:
    """Serve `/healthz` and `/readyz` meanwhile.

    :param address: `None` for nowhere.
    :param not_ready: what is still waited for.
    :raises OSError: the address cannot be listened on.
    """
    # The names of the checks are KubeRay's, and one more that tells something.
    checks = {"readyz": lambda: None, "caches": lambda: "; ".join(not_ready()) or None}
    server = ProbeServer(live={"healthz": lambda: None}, ready=checks)
    async with _serving(server, address, "/healthz /readyz"):
        yield


@asynccontextmanager
async def exposing(metrics: Metrics, address: str | None) -> AsyncIterator[None]:
    """Serve `/metrics` meanwhile.

    :param address: `None` for nowhere.
    :raises OSError: the address cannot be listened on.
    """
    async with _serving(ProbeServer(metrics=metrics), address, "/metrics"):
        yield


@asynccontextmanager
async def _serving(server: ProbeServer | WebhookServer, address: str | None, paths: str) -> AsyncIterator[None]:
    if address is None:
        yield
        return
    host, port = listening(address)
    async with server.serving(host, port) as taken:
        log.info("serving", address=f"{host}:{taken}", paths=paths)
        yield


async def run(client: Client, settings: Settings, *, stop: asyncio.Event) -> None:
    """Run the only operator there is, until `stop` is set; see `Operator`."""
    await Operator(client, settings).run(stop)
