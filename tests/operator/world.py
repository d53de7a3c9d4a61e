"""A namespace with an operator and a kubelet at work in it, on whatever API server there is."""

from __future__ import annotations

import asyncio
import uuid
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

from kuberay.api.core import Pod
from kuberay.api.crd import crd
from kuberay.api.v1 import RayCluster
from kuberay.build import labels
from kuberay.controllers.kinds import RAY_CLUSTERS
from kuberay.controllers.options import ControllerOptions
from kuberay.kube.client import Client
from kuberay.kube.errors import AlreadyExists, Conflict, NotFound
from kuberay.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, EVENTS, NAMESPACES, PODS
from kuberay.operator.install import Installation, objects
from kuberay.operator.main import run
from kuberay.operator.settings import Settings
from kuberay.sim.kubelet import FakeKubelet
from tests.build.clusters import cluster, group
from tests.operator.calls import Restricted, bound

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from kuberay.api.v1 import Condition
    from kuberay.kube.resources import Resource

OPTIONS = ControllerOptions(replace_after=0.0, status_delay=0.05)
DEADLINE = 60.0
"""A real garbage collector looks for new kinds only every half minute."""


class World:
    """One namespace, and what a user does and sees in it.

    :param pace: seconds between two looks at what is waited for.
    """

    def __init__(self, client: Client, namespace: str, kubelet: FakeKubelet, *, pace: float = 0.02) -> None:
        self.client = client
        self.namespace = namespace
        self.kubelet = kubelet
        self._pace = pace

    # What a user does.

    async def apply(self, name: str = "rc", **fields: Any) -> RayCluster:
        """Make a cluster; see `tests.build.clusters`."""
        rc = cluster(name=name, **fields).to_dict()
        rc["metadata"] = {**rc["metadata"], "namespace": self.namespace}
        del rc["metadata"]["uid"]
        return await self.client.create(RAY_CLUSTERS, rc, namespace=self.namespace, type=RayCluster)

    async def patch(self, patch: dict[str, Any], name: str = "rc") -> None:
        await self.client.patch(RAY_CLUSTERS, name, patch, namespace=self.namespace)

    async def scale(self, replicas: int) -> None:
        await self.patch({"spec": {"workerGroupSpecs": [group(replicas=replicas)]}})

    async def delete(self, resource: Resource, name: str) -> None:
        await self.client.delete(resource, name, namespace=self.namespace)

    # What a user sees.

    async def cluster(self, name: str = "rc") -> RayCluster:
        return await self.client.get(RAY_CLUSTERS, name, namespace=self.namespace, type=RayCluster)

    async def uid(self, resource: Resource, name: str) -> str | None:
        """The identity of an object, if there is one of this name that is not leaving."""
        try:
            found = await self.client.get(resource, name, namespace=self.namespace)
        except NotFound:
            return None
        return None if found["metadata"].get("deletionTimestamp") else str(found["metadata"]["uid"])

    async def pods(self, node_type: str | None = None, *, of: str | None = None) -> list[Pod]:
        """The Pods of a cluster (or of all), by name."""
        page = await self.client.list(PODS, namespace=self.namespace, type=Pod)
        return sorted(
            (
                pod
                for pod in page.items
                if node_type in (None, pod.metadata.labels.get(labels.NODE_TYPE))
                and of in (None, pod.metadata.labels.get(labels.CLUSTER))
            ),
            key=lambda pod: pod.name,
        )

    async def events(self) -> list[tuple[str, str]]:
        """Reasons and notes."""
        page = await self.client.list(EVENTS, namespace=self.namespace)
        return [(each["reason"], each["note"]) for each in page.items]

    # What a user waits for.

    async def becomes(self, holds: Callable[[], Awaitable[bool]]) -> None:
        """Wait until something is so."""
        async with asyncio.timeout(DEADLINE):
            while not await holds():  # noqa: ASYNC110 (what is waited for happens on a server)
                await asyncio.sleep(self._pace)

    async def is_ready(self, workers: int, name: str = "rc") -> bool:
        status = (await self.cluster(name)).status
        return status.state == "ready" and (status.ready_worker_replicas or 0) == workers

    async def ready(self, workers: int, name: str = "rc") -> None:
        """Wait until a cluster says that it is ready, and has so many workers."""

        async def holds() -> bool:
            return await self.is_ready(workers, name) and len(await self.pods("worker", of=name)) == workers

        await self.becomes(holds)

    async def has_event(self, reason: str) -> str:
        """Wait for an event, and return its note."""
        notes: list[str] = []

        async def holds() -> bool:
            notes[:] = [note for found, note in await self.events() if found == reason]
            return bool(notes)

        await self.becomes(holds)
        return notes[0]

    async def condition(self, kind: str, status: str = "True", name: str = "rc") -> Condition:
        """Wait until a condition is so, and return it."""
        found: list[Condition] = []

        async def holds() -> bool:
            conditions = (await self.cluster(name)).status.conditions
            found[:] = [each for each in conditions if each.type == kind and each.status == status]
            return bool(found)

        await self.becomes(holds)
        return found[0]

    async def is_replaced(self, resource: Resource, name: str, old_uid: str) -> None:
        """Wait until another object has the name."""

        async def holds() -> bool:
            return await self.uid(resource, name) not in (None, old_uid)

        await self.becomes(holds)


@asynccontextmanager
async def operating(client: Client, namespace: str | None, options: ControllerOptions = OPTIONS) -> AsyncIterator[None]:
    """An operator at work meanwhile, with the rights that it is installed with and no others.

    :param namespace: where it works; everywhere if none is named.
    """
    stop, refused = asyncio.Event(), asyncio.Queue[str]()
    namespaces = () if namespace is None else (namespace,)
    settings = Settings(health_address=None, watch_namespaces=namespaces, controllers=options)
    installed = objects(Installation(image="kuberay", namespace="operators", watch_namespaces=namespaces))
    transport = Restricted(client.transport, bound(installed), refused.put_nowait)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(run(Client(transport), settings, stop=stop))
        failing = tasks.create_task(_fail(refused))
        try:
            yield
        finally:
            stop.set()
            failing.cancel()


async def _fail(reasons: asyncio.Queue[str]) -> None:
    raise AssertionError(await reasons.get())


@asynccontextmanager
async def living(client: Client, *, pace: float = 0.02, node: str = "fake-node") -> AsyncIterator[World]:
    """A new namespace with a kubelet at work, and no operator.

    :param node: of the kubelet; one of its own, for who takes it away.
    """
    await serve_rayclusters(client)
    namespace = await new_namespace(client)
    kubelet = FakeKubelet(client, node=node, namespace=namespace)
    async with asyncio.TaskGroup() as tasks:
        serving = tasks.create_task(kubelet.run())
        try:
            yield World(client, namespace, kubelet, pace=pace)
        finally:
            serving.cancel()
    with suppress(NotFound, Conflict):  # a test may have deleted it itself
        await client.delete(NAMESPACES, namespace)


async def new_namespace(client: Client) -> str:
    """A namespace that nobody else has."""
    namespace = f"t-{uuid.uuid4().hex[:8]}"
    await client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
    return namespace


async def serve_rayclusters(client: Client) -> None:
    """Make the server serve RayClusters, and wait until it does: for a moment it only knows that it shall."""
    try:
        await client.create(CUSTOM_RESOURCE_DEFINITIONS, crd("RayCluster"))
    except AlreadyExists:
        return
    async with asyncio.timeout(DEADLINE):
        while True:
            try:
                await client.list(RAY_CLUSTERS, namespace="default")
            except NotFound:
                await asyncio.sleep(0.05)
            else:
                return
