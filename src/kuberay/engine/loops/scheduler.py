"""Puts Pods on nodes: the first ready node that a Pod may run on. A Pod that fits nowhere is told why.

Resources are not counted: a laptop is asked to run what its owner asks for.
"""

# ruff: noqa: RUF012 (a Struct makes a new list or dict for each instance)

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import msgspec

from kuberay.api.core import Metadata, Slim
from kuberay.engine.loops.running import run_loop
from kuberay.kube.controller import Controller, itself
from kuberay.kube.errors import Conflict, NotFound
from kuberay.kube.informer import Informer
from kuberay.kube.queue import Queue
from kuberay.kube.resources import NODES, PODS
from kuberay.kube.store import Store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kuberay.kube.client import Client
    from kuberay.kube.identity import Key

OURS = "default-scheduler"


class NodeSpec(Slim, frozen=True, kw_only=True):
    unschedulable: bool = False


class Condition(Slim, frozen=True, kw_only=True):
    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None


class NodeStatus(Slim, frozen=True, kw_only=True):
    conditions: list[Condition] = []


class Node(Slim, frozen=True, kw_only=True):
    metadata: Metadata
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()

    @property
    def is_ready(self) -> bool:
        return any(one.type == "Ready" and one.status == "True" for one in self.status.conditions)


class PodSpec(Slim, frozen=True, kw_only=True):
    node_name: str = ""
    scheduler_name: str = OURS
    node_selector: dict[str, str] = {}


class PodStatus(Slim, frozen=True, kw_only=True):
    conditions: list[Condition] = []


class Pod(Slim, frozen=True, kw_only=True):
    metadata: Metadata
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


def choose(pod: Pod, nodes: Iterable[Node]) -> tuple[str | None, str]:
    """The node for a Pod, or `None` and the reason in words."""
    known = sorted(nodes, key=lambda node: node.metadata.name)
    reasons: dict[str, int] = {}
    for node in known:
        obstacle = _obstacle(pod, node)
        if obstacle is None:
            return node.metadata.name, ""
        reasons[obstacle] = reasons.get(obstacle, 0) + 1
    if not known:
        return None, "no nodes available to schedule pods"
    listed = ", ".join(f"{count} node(s) {reason}" for reason, count in sorted(reasons.items()))
    return None, f"0/{len(known)} nodes are available: {listed}."


def _obstacle(pod: Pod, node: Node) -> str | None:
    if node.spec.unschedulable:
        return "were unschedulable"
    if not node.is_ready:
        return "were not ready"
    labels = node.metadata.labels
    if any(labels.get(key) != value for key, value in pod.spec.node_selector.items()):
        return "didn't match Pod's node affinity/selector"
    return None


class Scheduler:
    """Binds the Pods that have no node."""

    def __init__(self, client: Client, *, clock: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._client = client
        self._clock = clock
        self._pods: Store[Pod] = Store()
        self._nodes: Store[Node] = Store()
        self._controller: Controller[Key] = Controller("scheduler", Queue(), self._reconcile, workers=4)
        self._controller.watches(self._pods, itself)
        self._controller.watches(self._nodes, lambda node: list(self._pods.keys()), when=_matters)

    async def run(self) -> None:
        """Schedule until cancelled."""
        unbound = Informer(self._client, PODS, self._pods, type=Pod, fields="spec.nodeName=")
        await run_loop(self._controller, Informer(self._client, NODES, self._nodes, type=Node), unbound)

    async def _reconcile(self, key: Key) -> None:
        pod = self._pods.get(*key)
        if pod is None or pod.metadata.deletion_timestamp or pod.spec.node_name or pod.spec.scheduler_name != OURS:
            return
        node, why = choose(pod, self._nodes)
        try:
            if node is None:
                await self._report(pod, why)
            else:
                await self._bind(pod, node)
        except (Conflict, NotFound):
            return  # bound, changed or gone meanwhile: its event is on the way

    async def _bind(self, pod: Pod, node: str) -> None:
        meta = pod.metadata
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": meta.name, "namespace": meta.namespace, "uid": meta.uid},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        await self._client.create(PODS, binding, namespace=meta.namespace, name=meta.name, subresource="binding")

    async def _report(self, pod: Pod, why: str) -> None:
        """Say on the Pod why it waits; once, not again and again."""
        wanted: dict[str, Any] = {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": why,
            "lastTransitionTime": self._clock().strftime("%Y-%m-%dT%H:%M:%SZ"),
        }
        others: list[dict[str, Any]] = []
        for condition in pod.status.conditions:
            if condition.type != "PodScheduled":
                others.append(msgspec.to_builtins(condition))
            elif (condition.reason, condition.message) == ("Unschedulable", why):
                return
            elif condition.status == "False" and condition.last_transition_time:
                wanted["lastTransitionTime"] = condition.last_transition_time
        meta = pod.metadata
        patch = {"metadata": {"resourceVersion": meta.resource_version}, "status": {"conditions": [*others, wanted]}}
        await self._client.patch(PODS, meta.name, patch, namespace=meta.namespace, subresource="status")


def _matters(old: Node | None, new: Node | None) -> bool:
    """Whether a node's change can change a decision: not its heartbeat."""
    if old is None or new is None:
        return True
    return (old.is_ready, old.spec, old.metadata.labels) != (new.is_ready, new.spec, new.metadata.labels)
