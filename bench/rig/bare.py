"""A client that sends the necessary writes and nothing else: what no operator can be faster than.

It makes the same Services and Pods, sixteen requests at a time, and writes two statuses for each cluster. It does so
under the account that an operator has: what a server does to know, admit and log a caller is the same for both.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from bench.rig import manifests
from bench.rig.rig import ClusterState, at_once
from kuberay.api.core import Pod
from kuberay.api.v1 import RayCluster
from kuberay.build import labels, pod, services
from kuberay.build.options import BuildOptions
from kuberay.controllers.kinds import RAY_CLUSTERS
from kuberay.kube.client import Client
from kuberay.kube.http import HttpTransport
from kuberay.kube.informer import Informer
from kuberay.kube.kubeconfig import load
from kuberay.kube.resources import PODS, SERVICES
from kuberay.kube.store import Store

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from bench.rig.rig import Rig
    from kuberay.kube.request import Body
    from kuberay.kube.resources import Resource

_OPTIONS = BuildOptions()


class BareClient:
    """Does for clusters what an operator would do, without looking."""

    def __init__(self, rig: Rig) -> None:
        self._rig = rig
        self._client = Client(HttpTransport(load(rig.account)))
        self._ready: dict[tuple[str, str], int] = {}
        self._settled = asyncio.Event()
        self._pods: Store[Pod] = Store()
        self._pods.on_change(self._count)
        self._informer = Informer(self._client, PODS, self._pods, type=Pod, labels=labels.CLUSTER)

    async def follow(self) -> None:
        """Watch Pods until cancelled."""
        try:
            await self._informer.run()
        finally:
            await self._client.close()

    async def bring_up(self, names: list[tuple[str, str]], workers: int, *, until_ready: bool) -> None:
        """Create clusters and everything of theirs; with a kubelet at work, until all Pods are ready and it is told."""
        if len(names) == 1:
            await self._create(names[0], workers, in_flight=16)
        else:
            await at_once(lambda key: self._create(key, workers, in_flight=1), names)
        if until_ready:
            await self._until_ready(dict.fromkeys(names, workers + 1))

    async def grow(self, names: list[tuple[str, str]], before: int, after: int) -> None:
        """Add workers to clusters until they are ready, or remove some."""
        clusters = {key: await self._get(*key) for key in names}
        await self._rig.scale_clusters(names, after)
        if after > before:
            for key, cluster in clusters.items():
                await at_once(self._making(PODS, key[0]), _workers(cluster, before, after))
            await self._until_ready(dict.fromkeys(names, after + 1))
            return
        victims = [
            each
            for each in self._pods
            if (index := each.metadata.labels.get(labels.REPLICA_INDEX, "")).isdecimal() and int(index) >= after
        ]

        async def remove(victim: Pod) -> None:
            meta = victim.metadata
            await self._client.delete(PODS, meta.name, namespace=meta.namespace, uid=meta.uid)

        await at_once(remove, victims)
        await self._write_statuses(names, after)

    async def add_workers(self, key: tuple[str, str], before: int, after: int) -> None:
        """Make the workers that a cluster has too few."""
        await at_once(self._making(PODS, key[0]), _workers(await self._get(*key), before, after))

    async def _create(self, key: tuple[str, str], workers: int, *, in_flight: int) -> None:
        namespace, name = key
        manifest = manifests.raycluster(name, namespace, workers)
        cluster = await self._rig.client.create(RAY_CLUSTERS, manifest, namespace=namespace, type=RayCluster)
        await self._making(SERVICES, namespace)(services.head(cluster, _OPTIONS))
        head = pod.head(cluster, _OPTIONS).pod(f"{name}-head")
        await at_once(self._making(PODS, namespace), [head, *_workers(cluster, 0, workers)], in_flight)

    def _making(self, resource: Resource, namespace: str) -> Callable[[Body], Awaitable[object]]:
        async def make(body: Body) -> None:
            await self._client.create(resource, body, namespace=namespace, type=ClusterState)

        return make

    async def _until_ready(self, waiting: dict[tuple[str, str], int]) -> None:
        left = dict(waiting)
        while left:
            self._settled.clear()
            done = [key for key, count in left.items() if self._ready.get(key, 0) >= count]
            for key in done:
                del left[key]
            await self._write_statuses(done, next(iter(waiting.values())) - 1)
            if not done:
                await self._settled.wait()

    async def _write_statuses(self, names: Iterable[tuple[str, str]], workers: int) -> None:
        async def write(key: tuple[str, str]) -> None:
            namespace, name = key
            for state in ("", "ready"):
                await self._client.patch(
                    RAY_CLUSTERS,
                    name,
                    {"status": _status(state, workers)},
                    namespace=namespace,
                    subresource="status",
                    type=ClusterState,
                )

        await at_once(write, names)

    async def _get(self, namespace: str, name: str) -> RayCluster:
        return await self._client.get(RAY_CLUSTERS, name, namespace=namespace, type=RayCluster)

    def _count(self, old: Pod | None, new: Pod | None) -> None:
        for each, change in ((old, -1), (new, 1)):
            if each is not None and each.is_ready:
                key = (each.metadata.namespace, each.metadata.labels.get(labels.CLUSTER, ""))
                self._ready[key] = self._ready.get(key, 0) + change
                self._settled.set()


def _workers(cluster: RayCluster, start: int, end: int) -> list[bytes]:
    group = cluster.spec.worker_group_specs[0]
    template = pod.worker(cluster, group, _OPTIONS)
    return [template.pod(f"{cluster.name}-worker-{index}", replica_index=index) for index in range(start, end)]


def _status(state: str, workers: int) -> dict[str, Any]:
    """A status of the usual size."""
    then = "2026-01-01T00:00:00Z"
    conditions = [
        {
            "type": kind,
            "status": "True" if state else "False",
            "reason": "Measured",
            "message": "as large as usual, so that it costs what it costs",
            "lastTransitionTime": then,
        }
        for kind in ("HeadPodReady", "RayClusterProvisioned", "RayClusterSuspended", "RayClusterSuspending")
    ]
    return {
        "state": state,
        "conditions": conditions,
        "desiredWorkerReplicas": workers,
        "availableWorkerReplicas": workers,
        "readyWorkerReplicas": workers,
        "minWorkerReplicas": 0,
        "maxWorkerReplicas": 10_000,
        "desiredCPU": "8",
        "desiredMemory": "32Gi",
        "desiredGPU": "0",
        "desiredTPU": "0",
        "endpoints": {"client": "10001", "dashboard": "8265", "gcs-server": "6379", "metrics": "8080"},
        "head": {"podIP": "10.0.0.1", "podName": "head", "serviceIP": "10.0.0.1", "serviceName": "head-svc"},
        "observedGeneration": 1,
        "lastUpdateTime": then,
    }
