"""Heads that do not go: what is known of their nodes, and when they may be forced away.

A Pod on a node that has stopped answering stays, with its name, long after it should have gone. For a worker that does
not matter: it is no capacity, and was replaced when its deletion was asked for. A head's name is its lock. As long as
its node may still be running it, a second head could write beside it; so it is forced away only when its Node is gone,
or somebody who knows has marked the Node as out of service.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from kuberay.controllers.plan import HEAD_POD, Delete
from kuberay.kube.resources import PODS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kuberay.api.core import Pod
    from kuberay.api.partial import Node

OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"
"""The taint by which an administrator says that a node is down for certain."""


@dataclass(frozen=True, slots=True)
class Look:
    """How a Node was when somebody looked."""

    at: float
    node: Node | None
    """`None` when there is no such Node any more."""
    is_forbidden: bool = False
    """Whether it could not be looked at for want of a right."""

    @property
    def is_down(self) -> bool:
        """Whether nothing runs there any more, for certain."""
        if self.is_forbidden:
            return False
        return self.node is None or any(taint.key == OUT_OF_SERVICE for taint in self.node.spec.taints)


@dataclass(frozen=True, slots=True)
class Lost:
    """What is to be done about heads that do not go."""

    deletes: tuple[Delete, ...] = ()
    nodes: frozenset[str] = frozenset()
    """The Nodes that have to be looked at first."""
    look_again: float | None = None


def lost(heads: tuple[Pod, ...], looks: Mapping[str, Look], scope: str, patience: float, now: float) -> Lost:
    """What is to be done about the heads that should be gone by now.

    :param scope: under which a refusal is kept.
    :param patience: seconds past its grace period after which the Node of a head is looked at, and then each time.
    """
    deletes: list[Delete] = []
    nodes: set[str] = set()
    waits: list[float] = []
    for head in heads:
        node = head.spec.node_name
        if not head.is_leaving or not node or _is_forced(head):
            continue
        look = _look(head, looks)
        since = _deadline(head) if look is None else look.at
        if look is not None and look.is_down:
            deletes.append(_forced(head, look, scope))
        elif now >= since + patience:
            nodes.add(node)
        else:
            waits.append(since + patience - now)
    return Lost(tuple(deletes), frozenset(nodes), min(waits, default=None))


def waiting(head: Pod, looks: Mapping[str, Look]) -> str:
    """What a head that is leaving waits for. It does not change while nothing else does."""
    node = head.spec.node_name
    message = f"waiting for head Pod {head.name} to terminate" + (f" on node {node}" if node else "")
    if _is_forced(head) and head.metadata.finalizers:
        return f"{message}; it is held by finalizers: {', '.join(head.metadata.finalizers)}"
    look = _look(head, looks)
    if look is None or look.is_down:
        return message
    overdue = f"{message}, which it should have done by {head.metadata.deletion_timestamp}"
    if look.is_forbidden:
        return f"{overdue}. The operator may not look at Nodes: if the node is down for good, delete the Pod by force"
    return f"{overdue}. It is forced away when Node {node} is deleted, or tainted {OUT_OF_SERVICE}"


def _look(head: Pod, looks: Mapping[str, Look]) -> Look | None:
    """How its node was when it should have been gone; what was found on an earlier occasion counts no more."""
    look = looks.get(head.spec.node_name)
    return look if look is not None and look.at >= _deadline(head) else None


def _is_forced(head: Pod) -> bool:
    """Whether it was told to go without waiting for its node, and cannot be told any more."""
    return head.metadata.deletion_grace_period_seconds == 0


def _forced(head: Pod, look: Look, scope: str) -> Delete:
    what = "is gone" if look.node is None else "is out of service"
    return Delete(
        resource=PODS,
        namespace=head.metadata.namespace,
        name=head.name,
        uid=head.metadata.uid,
        subject=HEAD_POD,
        scope=scope,
        why=f"its node {head.spec.node_name} {what}",
        is_forced=True,
    )


def _deadline(head: Pod) -> float:
    """When its grace period ended, or will: Kubernetes writes that as the time of deletion."""
    try:
        return datetime.fromisoformat(head.metadata.deletion_timestamp or "").timestamp()
    except ValueError:
        return 0.0
