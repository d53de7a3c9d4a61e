"""The node agent: this machine as a Node of the cluster, and every Pod that is bound to it.

It speaks to the API server like a kubelet would, and to the kernel through the helper process. When it starts after
an earlier engine has ended, no process of that life exists any more: Pods that ran then are started again in place.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import structlog

from kuberay.engine.node import images
from kuberay.engine.node.context import NodeContext
from kuberay.engine.node.directory import CachedDirectory
from kuberay.engine.node.dns import DnsServer
from kuberay.engine.node.errors import HelperGone
from kuberay.engine.node.events import REPORTER, PodEvents
from kuberay.engine.node.heartbeat import Heartbeat
from kuberay.engine.node.network import Addresses
from kuberay.engine.node.pod import Waiting
from kuberay.engine.node.proxy import ServiceProxy
from kuberay.engine.node.runner import PodRunner
from kuberay.kube.errors import BadRequest, NotFound
from kuberay.kube.informer import Informer
from kuberay.kube.recorder import Recorder
from kuberay.kube.resources import ENDPOINT_SLICES, PODS, SERVICES
from kuberay.kube.store import Store

if TYPE_CHECKING:
    import socket
    from collections.abc import AsyncIterator, Callable, Mapping
    from pathlib import Path

    from kuberay.engine.node.images import RayEnvironment
    from kuberay.engine.node.remote import Helper
    from kuberay.engine.streams import LogOptions
    from kuberay.kube.client import Client

Object = dict[str, Any]

log = structlog.get_logger(__name__)

NODE_NAME = "local"
STOP_SECONDS = 10.0


class NodeAgent:
    """Runs the Pods of one node. Implements `engine.streams.PodStreams`.

    :param folder: where Pods keep volumes and logs; readable by the engine's user alone.
    :param stop_seconds: how long containers have to finish, at the most, when the node stops.
    :param account_files: the credentials of a service account, by namespace and name.
    :param api_address: where Pods find the API server (`KUBERNETES_SERVICE_HOST` and port); the engine listens there.
    """

    def __init__(
        self,
        client: Client,
        helper: Helper,
        folder: Path,
        *,
        name: str = NODE_NAME,
        ray: RayEnvironment | None = None,
        api_address: tuple[str, int] = ("", 443),
        account_files: Callable[[str, str], Mapping[str, bytes]] | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        stop_seconds: float = STOP_SECONDS,
    ) -> None:
        self.name = name
        self._stop_seconds = stop_seconds
        self._client = client
        self._helper = helper
        self._folder = folder
        self._api_host = api_address[0]
        self._recorder = Recorder(client, REPORTER, instance=name, now=now)
        self._context = NodeContext(
            client=client,
            helper=helper,
            folder=folder,
            addresses=Addresses(helper.pods),
            ray=ray or images.installed(),
            recorder=PodEvents(self._recorder),
            now=now,
            turns=asyncio.Semaphore(max(4, 2 * (os.cpu_count() or 1))),
            service_host=api_address[0],
            service_port=api_address[1],
            account_files=account_files,
        )
        self._directory = CachedDirectory()
        self._pods: Store[Object] = Store()
        self._runners: dict[str, PodRunner] = {}
        self._running: dict[str, asyncio.Task[None]] = {}
        self._latest: dict[str, asyncio.Task[None]] = {}
        self._services_changed = asyncio.Event()
        self._ready = asyncio.Event()

    async def ready(self) -> None:
        """Wait until Pods can be run and find each other, and those of an earlier engine are told to be down."""
        await self._ready.wait()

    async def run(self) -> None:
        """Be a node until cancelled; then end every Pod in good order.

        :raises HelperGone: the helper process ended, and every Pod with it.
        """
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        try:
            async with asyncio.TaskGroup() as parts:
                await self._run_parts(parts)
        except ExceptionGroup as group:
            raise group.exceptions[0] from group
        finally:
            await asyncio.shield(self._stop())

    async def dial(self, address: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A connection to an address of the Pods' network.

        :raises OSError: nobody answers there.
        """
        return await asyncio.open_connection(sock=await self.connect(address, port))

    async def connect(self, address: str, port: int) -> socket.socket:
        """A connected socket, for a `forward.Forwarder`.

        :raises OSError: nobody answers there.
        """
        return await self._helper.connect(address, port)

    async def logs(self, pod: Mapping[str, Any], container: str, options: LogOptions) -> AsyncIterator[bytes]:
        """What a container printed; see `PodStreams.logs`."""
        name = pod["metadata"]["name"]
        runner = self._runners.get(pod["metadata"]["uid"])
        if runner is None:
            raise NotFound(f'pod "{name}" is not on this node')
        history = runner.histories.get(container)
        if history is None:
            raise BadRequest(f"container {container} is not valid for pod {name}")
        attempt = history.attempt - 1 if options.previous else history.attempt
        if options.previous and attempt < 0:
            raise BadRequest(f'previous terminated container "{container}" in pod "{name}" not found')
        if not runner.logs.file(container, attempt).exists():
            reason = history.state.reason if isinstance(history.state, Waiting) else ""
            why = reason or "ContainerCreating"
            raise BadRequest(f'container "{container}" in pod "{name}" is waiting to start: {why}')
        async for chunk in runner.logs.read(container, attempt, options, self._context.now):
            yield chunk

    async def _run_parts(self, parts: asyncio.TaskGroup) -> None:
        informers = [
            Informer(self._client, SERVICES, self._directory.service_store),
            Informer(self._client, ENDPOINT_SLICES, self._directory.slice_store),
            Informer(self._client, PODS, self._pods, fields=f"spec.nodeName={self.name}"),
        ]
        self._directory.service_store.on_change(lambda *_: self._services_changed.set())
        self._pods.on_change(self._pod_changed)
        heartbeat = Heartbeat(self._client, self.name, self._context.now)
        await heartbeat.register(str(self._helper.gateway), self._folder)
        parts.create_task(self._recorder.run())
        parts.create_task(heartbeat.run())
        parts.create_task(self._watch_helper())
        for informer in informers[:2]:
            parts.create_task(informer.run())
            await informer.synced()
        dns = await DnsServer.open(self._helper, self._directory)
        parts.create_task(self._serve_names_and_services(dns))
        parts.create_task(informers[2].run())
        await informers[2].synced()
        await asyncio.to_thread(self._sweep, {pod["metadata"]["uid"] for pod in self._pods})
        await asyncio.gather(*(runner.reported() for runner in self._runners.values()))
        self._ready.set()

    def _sweep(self, known: set[str]) -> None:
        """Remove the folders of Pods that went away while no engine ran, or while one was killed."""
        for folder in self._folder.iterdir():
            if folder.name not in known:
                shutil.rmtree(folder, ignore_errors=True)

    async def _watch_helper(self) -> None:
        await self._helper.wait_gone()
        raise HelperGone("the helper process has ended, and every Pod with it")

    async def _serve_names_and_services(self, dns: DnsServer) -> None:
        proxy = ServiceProxy(self._helper, self._directory, frozenset({self._api_host} - {""}))
        try:
            while True:
                self._services_changed.clear()
                await proxy.sync()
                await self._services_changed.wait()
        finally:
            with contextlib.suppress(HelperGone):
                await proxy.close()
            await dns.close()

    def _pod_changed(self, old: Object | None, new: Object | None) -> None:
        if old and (new is None or new["metadata"]["uid"] != old["metadata"]["uid"]):
            uid = old["metadata"]["uid"]
            if uid in self._running:
                self._runners[uid].gone()
            else:
                self._runners.pop(uid, None)
        if new:
            uid = new["metadata"]["uid"]
            if uid in self._runners:
                self._runners[uid].update(new)
            else:
                self._begin(uid, new)

    def _begin(self, uid: str, pod: Object) -> None:
        runner = self._runners[uid] = PodRunner(self._context, pod)
        before = self._latest.get(runner.sandbox.key)
        task = asyncio.create_task(self._run_pod(runner, before), name=f"pod {runner.sandbox.key}")
        self._running[uid] = self._latest[runner.sandbox.key] = task
        task.add_done_callback(lambda _: self._ended(uid, runner, task))

    async def _run_pod(self, runner: PodRunner, before: asyncio.Task[None] | None) -> None:
        if before:  # a Pod of this name is still being taken down, and has the address
            await asyncio.wait([before])
        await runner.run()

    def _ended(self, uid: str, runner: PodRunner, task: asyncio.Task[None]) -> None:
        del self._running[uid]
        if runner.is_gone:
            self._runners.pop(uid, None)
        if self._latest.get(runner.sandbox.key) is task:
            del self._latest[runner.sandbox.key]
        if not task.cancelled() and (problem := task.exception()):
            log.error("a pod was given up", pod=runner.sandbox.key, exc_info=problem)

    async def _stop(self) -> None:
        """Ask every container to finish, all at once, for a bounded time. The objects stay: `up` starts them again."""
        runners, tasks = list(self._runners.values()), list(self._running.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.gather(*(runner.shut_down(self._stop_seconds) for runner in runners), return_exceptions=True)
