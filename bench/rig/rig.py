"""One control plane with an operator, a kubelet and a load, and a view of what becomes of clusters."""

from __future__ import annotations

import asyncio
import contextlib
import os
import site
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
import yaml
from tests import control_plane

import kuberay
from bench.rig import manifests
from bench.rig.audit import Audit
from bench.rig.process import Measured, running
from kuberay.api.crd import DEFINITIONS, crd
from kuberay.build import labels
from kuberay.controllers.kinds import RAY_CLUSTERS
from kuberay.kube import request as prepare
from kuberay.kube.client import Client
from kuberay.kube.errors import NotFound
from kuberay.kube.http import HttpTransport
from kuberay.kube.informer import Informer
from kuberay.kube.kubeconfig import load
from kuberay.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, NAMESPACES, PODS, SERVICE_ACCOUNTS, Resource
from kuberay.kube.store import Store

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator

    from tests.control_plane import ControlPlane

T = TypeVar("T")

_ACCOUNT = "measured-operator"
_AS_IN_THE_IMAGE = """\
import sys
sys.modules["rich"] = None
from kuberay.cli import main
main(prog_name="kuberay")
"""
"""The operator without a package that only developers have, and that structlog would load for colours."""
_POD: dict[str, Any] = {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [{"name": "c", "image": "i"}]}}
_IN_FLIGHT = 16
_BINDINGS = Resource("rbac.authorization.k8s.io", "v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False)


class _Meta(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    deletion_timestamp: str | None = None


class _Status(msgspec.Struct, frozen=True, rename="camel"):
    state: str = ""
    ready_worker_replicas: int = 0
    desired_worker_replicas: int = 0


class _Seen(msgspec.Struct, frozen=True):
    """That there is a Pod."""

    metadata: _Meta


class ClusterState(msgspec.Struct, frozen=True):
    """What the load wants to know of a cluster."""

    metadata: _Meta
    status: _Status = _Status()


@dataclass(frozen=True, slots=True)
class Candidate:
    """An operator to be measured."""

    name: str
    command: tuple[str, ...]

    @staticmethod
    def all() -> list[Candidate]:
        """Ours, and the Go operator as it comes and tuned if `KUBERAY_GO_OPERATOR` names it."""
        python = os.environ.get("KUBERAY_BENCH_PYTHON") or sys.executable
        ours = Candidate("ours", (python, "-c", _AS_IN_THE_IMAGE, "operator"))
        go = os.environ.get("KUBERAY_GO_OPERATOR")
        if not go:
            return [ours]
        tuned = ("--reconcile-concurrency=10", "--qps=500", "--burst=1000")
        return [ours, Candidate("Go", (go,)), Candidate("Go, tuned", (go, *tuned))]


class Rig:
    """A control plane under load."""

    def __init__(self, plane: ControlPlane, folder: Path, audit: Audit) -> None:
        self.plane = plane
        self.audit = audit
        self.client = Client(HttpTransport(load(plane.kubeconfig)))
        self.clusters: Store[ClusterState] = Store()
        self.account = folder / "operator.kubeconfig"
        """Of the ServiceAccount that is measured."""
        self._folder = folder
        self._changed = asyncio.Event()
        self.clusters.on_change(lambda *_: self._changed.set())
        self._pods_by_namespace: Counter[str] = Counter()
        self._pods: Store[_Seen] = Store()
        self._pods.on_change(self._count)

    # What runs.

    @contextlib.contextmanager
    def operator(self, candidate: Candidate) -> Iterator[Measured]:
        """An operator at work meanwhile, under an account of its own."""
        flags = ("--enable-leader-election=false", "--enable-metrics", "--metrics-addr=127.0.0.1:0")
        health = "--health-probe-bind-address=127.0.0.1:0"
        command = [*candidate.command, *flags, health, f"--kubeconfig={self.account}"]
        # Another interpreter than this one has these packages as well.
        packages = os.pathsep.join((str(Path(kuberay.__file__).parents[1]), *site.getsitepackages()))
        with running(command, self._folder / "operator.log", {"PYTHONPATH": packages}) as process:
            yield process

    @contextlib.asynccontextmanager
    async def kubelet(self) -> AsyncIterator[Measured]:
        """A kubelet at work meanwhile; it has started a Pod already."""
        command = [sys.executable, "-m", "bench.rig.kubelet", str(self.plane.kubeconfig)]
        with running(command, self._folder / "kubelet.log") as process:
            await self.client.create(PODS, _POD | {"metadata": {"name": "first"}}, namespace="default")
            while (await self.client.get(PODS, "first", namespace="default"))["status"].get("phase") != "Running":
                process.check()
                await asyncio.sleep(0.05)
            await self.client.delete(PODS, "first", namespace="default", grace_period_seconds=0)
            yield process

    # What is done.

    async def create_clusters(self, names: Iterable[tuple[str, str]], workers: int) -> None:
        """Create clusters by namespace and name."""

        async def create(key: tuple[str, str]) -> None:
            manifest = manifests.raycluster(key[1], key[0], workers)
            await self.client.create(RAY_CLUSTERS, manifest, namespace=key[0], type=ClusterState)

        await at_once(create, names)

    async def delete_clusters(self, namespaces: Iterable[str], *processes: Measured) -> None:
        """Delete all clusters of some namespaces, and wait until their Pods are gone too."""
        for namespace in namespaces:
            await self.client.delete_all(RAY_CLUSTERS, namespace=namespace)
        for namespace in namespaces:
            while await self.count_pods(namespace):
                for process in processes:
                    process.check()
                await asyncio.sleep(0.2)

    async def scale_clusters(self, names: Iterable[tuple[str, str]], workers: int) -> None:
        """Change the number of workers of clusters."""
        patch = {"spec": {"workerGroupSpecs": manifests.raycluster("", "", workers)["spec"]["workerGroupSpecs"]}}

        async def scale(key: tuple[str, str]) -> None:
            await self.client.patch(RAY_CLUSTERS, key[1], patch, namespace=key[0], type=ClusterState)

        await at_once(scale, names)

    async def namespaces(self, count: int, prefix: str) -> list[str]:
        """Make namespaces."""
        names = [f"{prefix}-{number}" for number in range(count)]
        for name in names:
            await self.client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        return names

    # What is seen.

    async def count_pods(self, namespace: str) -> int:
        """How many Pods a namespace has, without reading them."""
        body = await self.client.send(prepare.list_(PODS, namespace=namespace, limit=1))
        answer: dict[str, Any] = msgspec.json.decode(body)
        return len(answer["items"]) + int(answer["metadata"].get("remainingItemCount") or 0)

    @contextlib.asynccontextmanager
    async def watching_pods(self) -> AsyncIterator[None]:
        """Know how many Pods of clusters there are: `has_pods` needs it.

        By a watch. A list is dearer, and waits until the server's cache has caught up with all writes.
        """
        informer = Informer(self.client, PODS, self._pods, type=_Seen, labels=labels.CLUSTER)
        async with _following(informer):
            yield

    async def has_pods(self, namespace: str, count: int, *processes: Measured) -> None:
        """Wait until a namespace has so many Pods of clusters."""
        await self._until(lambda: self.has_now(namespace, count), processes)

    def has_now(self, namespace: str, count: int) -> bool:
        """Whether a namespace has so many Pods of clusters."""
        return self._pods_by_namespace[namespace] >= count

    async def are_ready(self, names: Iterable[tuple[str, str]], workers: int, *processes: Measured) -> None:
        """Wait until clusters say that they are ready with so many workers."""
        waiting = set(names)

        def none_is_left() -> bool:
            for namespace, name in list(waiting):
                seen = self.clusters.get(namespace, name)
                if seen is not None and seen.status.state == "ready" and seen.status.ready_worker_replicas == workers:
                    waiting.discard((namespace, name))
            return not waiting

        await self._until(none_is_left, processes, pause=0.02)

    async def _until(self, holds: Callable[[], bool], processes: Iterable[Measured], pause: float = 0.0) -> None:
        """Wait for what the watches show. A pause keeps a dear question from being asked at every event."""
        while True:
            self._changed.clear()
            if holds():
                return
            for process in processes:
                process.check()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(5):
                    await self._changed.wait()
            await asyncio.sleep(pause)

    def _count(self, old: _Seen | None, new: _Seen | None) -> None:
        for each, change in ((old, -1), (new, 1)):
            if each is not None:
                self._pods_by_namespace[each.metadata.namespace] += change
        self._changed.set()

    async def is_quiet(self, seconds: float = 2.0) -> None:
        """Wait until the operator has asked nothing for a while."""
        mark = self.audit.mark()
        while True:
            await asyncio.sleep(seconds)
            now = self.audit.mark()
            if now == mark:
                return
            mark = now


async def at_once(write: Callable[[T], Awaitable[object]], items: Iterable[T], in_flight: int = _IN_FLIGHT) -> None:
    """Make a request for each item, so many at a time."""
    waiting = iter(items)

    async def work() -> None:
        for item in waiting:
            await write(item)

    async with asyncio.TaskGroup() as group:
        for _ in range(in_flight):
            group.create_task(work())


@contextlib.asynccontextmanager
async def rig() -> AsyncIterator[Rig]:
    """A fresh control plane with the CRDs, warmed by some writes."""
    with tempfile.TemporaryDirectory(prefix="kuberay-bench-") as name:
        folder = Path(name)
        audit = Audit(folder, f"system:serviceaccount:default:{_ACCOUNT}")
        with control_plane.control_plane(folder, controllers=True, flags=audit.flags) as plane:
            made = Rig(plane, folder, audit)
            try:
                await _prepare(made, plane)
                async with _following(Informer(made.client, RAY_CLUSTERS, made.clusters, type=ClusterState)):
                    yield made
            finally:
                await made.client.close()


@contextlib.asynccontextmanager
async def _following(informer: Informer[Any]) -> AsyncIterator[None]:
    following = asyncio.create_task(informer.run())
    try:
        await informer.synced()
        yield
    finally:
        following.cancel()
        await asyncio.wait((following,))


async def _prepare(made: Rig, plane: ControlPlane) -> None:
    client = made.client
    for kind in DEFINITIONS:
        await client.create(CUSTOM_RESOURCE_DEFINITIONS, crd(kind))
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": _ACCOUNT}}
    await client.create(SERVICE_ACCOUNTS, account, namespace="default")
    binding = {
        "apiVersion": _BINDINGS.api_version,
        "kind": _BINDINGS.kind,
        "metadata": {"name": _ACCOUNT},
        "roleRef": {"apiGroup": _BINDINGS.group, "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "name": _ACCOUNT, "namespace": "default"}],
    }
    await client.create(_BINDINGS, binding)
    asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 36000}}
    token = await client.create(SERVICE_ACCOUNTS, asked, namespace="default", name=_ACCOUNT, subresource="token")
    config = yaml.safe_load(plane.kubeconfig.read_text())
    config["users"][0]["user"] = {"token": token["status"]["token"]}
    made.account.write_text(yaml.safe_dump(config))
    deadline = time.monotonic() + 60
    while True:
        try:
            await client.list(RAY_CLUSTERS, namespace="default")
            break
        except NotFound:
            if time.monotonic() > deadline:
                raise
            await asyncio.sleep(0.1)

    async def warm(number: int) -> None:
        name = f"warm-{number}"
        await client.create(PODS, _POD | {"metadata": {"name": name}}, namespace="default")
        await client.delete(PODS, name, namespace="default", grace_period_seconds=0)

    await at_once(warm, range(150))
