"""A kubelet that runs nothing: it binds Pods to a Node and moves them through their phases.

It speaks only the Kubernetes API, so an operator cannot tell it from a real one. By default every Pod is Running and
Ready with an address of its own as soon as it is seen, and gone as soon as its deletion is asked for.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from enum import Enum
from typing import TYPE_CHECKING, Any

from kuberay.api.core import Pod
from kuberay.kube.controller import Controller, Result, itself
from kuberay.kube.errors import AlreadyExists, Conflict, NotFound
from kuberay.kube.identity import Key
from kuberay.kube.informer import Informer
from kuberay.kube.queue import Queue
from kuberay.kube.resources import NODES, PODS
from kuberay.kube.store import Store

if TYPE_CHECKING:
    from collections.abc import Callable

    from kuberay.kube.client import Client


class Fate(Enum):
    """What becomes of a Pod when the kubelet sees it."""

    UNSEEN = "never bound to a Node"
    PENDING = "bound, never started"
    WAITING = "bound, but its image cannot be had"
    UNREADY = "running, never ready"
    RUNNING = "running and ready"
    SUCCEEDED = "ended well"
    FAILED = "ended in failure"


_PHASES = {Fate.WAITING: "Pending", Fate.SUCCEEDED: "Succeeded", Fate.FAILED: "Failed"}


class FakeKubelet:
    """One Node and the Pods on it.

    :param fate: decides over each Pod; the same Pod may get another fate later (see `look_again`).
    :param removes: whether a Pod goes when it is told to; one on a node that is lost does not.
    :param workers: how many Pods it writes about at a time.
    """

    def __init__(
        self,
        client: Client,
        *,
        node: str = "fake-node",
        namespace: str | None = None,
        fate: Callable[[Pod], Fate] = lambda _: Fate.RUNNING,
        removes: Callable[[Pod], bool] = lambda _: True,
        workers: int = 8,
    ) -> None:
        self.fate = fate
        self.removes = removes
        self._client = client
        self._node = node
        self._store: Store[Pod] = Store()
        self._informer = Informer(client, PODS, self._store, type=Pod, namespace=namespace)
        self._controller = Controller("fake-kubelet", Queue[Key](), self._reconcile, workers=workers)
        self._controller.watches(self._store, itself)
        self._addresses = (
            f"10.{a}.{b}.{c}" for a, b, c in itertools.product(range(128, 255), range(256), range(1, 255))
        )

    async def run(self) -> None:
        """Serve until cancelled."""
        with contextlib.suppress(AlreadyExists):
            await self._client.create(NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": self._node}})
        async with asyncio.TaskGroup() as group:
            group.create_task(self._informer.run())
            group.create_task(self._controller.run())

    def look_again(self) -> None:
        """Ask `fate` about every Pod once more."""
        for pod in self._store:
            self._controller.queue.add(Key(pod.metadata.namespace, pod.name))

    async def _reconcile(self, key: Key) -> Result | None:
        pod = self._store.get(*key)
        if pod is not None:
            # A Pod that is gone or has changed meanwhile is no failure: its next event brings us back.
            with contextlib.suppress(NotFound, Conflict):
                await (self._remove(pod) if pod.is_leaving else self._advance(pod))
        return None

    async def _remove(self, pod: Pod) -> None:
        meta = pod.metadata
        if not self.removes(pod):
            return
        await self._client.delete(PODS, meta.name, namespace=meta.namespace, uid=meta.uid, grace_period_seconds=0)

    async def _advance(self, pod: Pod) -> None:
        fate = self.fate(pod)
        if fate is Fate.UNSEEN:
            return
        if not pod.spec.node_name:
            # The news of it brings us back, as it brings a real kubelet. A server that is asked for more before its own
            # cache has heard the news does the work twice.
            await self._bind(pod)
            return
        if fate is Fate.PENDING or _has_met(pod, fate):
            return
        address = pod.status.pod_ip or next(self._addresses)
        patch = {"metadata": {"uid": pod.metadata.uid}, "status": _status(pod, fate, address)}
        written = await self._client.patch(
            PODS, pod.name, patch, namespace=pod.metadata.namespace, subresource="status", type=Pod
        )
        self._store.wrote(written)  # or older news would have it written again, with another address

    async def _bind(self, pod: Pod) -> None:
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": pod.name, "namespace": pod.metadata.namespace, "uid": pod.metadata.uid},
            "target": {"apiVersion": "v1", "kind": "Node", "name": self._node},
        }
        await self._client.create(PODS, binding, namespace=pod.metadata.namespace, name=pod.name, subresource="binding")


def _has_met(pod: Pod, fate: Fate) -> bool:
    phase = _PHASES.get(fate, "Running")
    has_status = bool(pod.status.container_statuses)
    return has_status and pod.status.phase == phase and pod.is_ready == (fate is Fate.RUNNING)


def _status(pod: Pod, fate: Fate, address: str) -> dict[str, Any]:
    """The status a kubelet writes; times are fixed, because nobody may depend on them."""
    ready = fate is Fate.RUNNING
    truth = "True" if ready else "False"
    then = "2026-01-01T00:00:00Z"
    state: dict[str, Any] = {"running": {"startedAt": then}}
    if fate in (Fate.SUCCEEDED, Fate.FAILED):
        code, word = (0, "Completed") if fate is Fate.SUCCEEDED else (1, "Error")
        state = {"terminated": {"exitCode": code, "reason": word, "startedAt": then, "finishedAt": then}}
    if fate is Fate.WAITING:
        state = {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}
    unready = f"containers with unready status: [{' '.join(container.name for container in pod.spec.containers)}]"
    reason = {} if ready else {"reason": "ContainersNotReady", "message": unready}
    return {
        "phase": _PHASES.get(fate, "Running"),
        "hostIP": "10.127.0.1",
        **({} if fate is Fate.WAITING else {"podIP": address, "podIPs": [{"ip": address}]}),
        "startTime": then,
        "conditions": [
            {"type": "Initialized", "status": "True", "lastTransitionTime": then},
            {"type": "Ready", "status": truth, "lastTransitionTime": then, **reason},
            {"type": "ContainersReady", "status": truth, "lastTransitionTime": then, **reason},
            {"type": "PodScheduled", "status": "True", "lastTransitionTime": then},
        ],
        "containerStatuses": [
            {
                "name": container.name,
                "image": "fake",
                "imageID": "",
                "ready": ready,
                "started": ready,
                "restartCount": 0,
                "state": state,
            }
            for container in pod.spec.containers
        ],
    }
