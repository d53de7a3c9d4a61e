"""What is to be done about the NetworkPolicies of a RayCluster. Pure.

Whether the rest of the spec is valid does not matter here: a cluster that shall be closed is closed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from kuberay.api.cel import MANAGED_BY_OPERATOR
from kuberay.build.network_policy import policies
from kuberay.controllers.drift import drift
from kuberay.controllers.failures import hold_back
from kuberay.controllers.plan import Create, Delete, EmitEvent, Patch, Plan, Subject
from kuberay.kube.resources import NETWORK_POLICIES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kuberay.api.partial import NetworkPolicy
    from kuberay.api.v1 import RayCluster
    from kuberay.controllers.failures import Failure

Json = dict[str, Any]

POLICY = Subject("NetworkPolicy", "NetworkPolicy")


def decide(cluster: RayCluster, found: Iterable[NetworkPolicy], failures: Mapping[str, Failure], now: float) -> Plan:
    """Make what is missing, mend what differs, remove what is no longer wanted. Policies of others are left alone.

    :param found: all policies under the names we want, and all that carry the cluster's label.
    """
    if cluster.metadata.deletion_timestamp is not None or cluster.spec.managed_by not in (None, MANAGED_BY_OPERATOR):
        return Plan()
    there = {policy.metadata.name: policy for policy in found}
    wanted = {policy["metadata"]["name"]: policy for policy in policies(cluster)}
    actions: list[Create | Patch | Delete] = []
    events: list[EmitEvent] = []
    for name, policy in wanted.items():
        existing = there.get(name)
        if existing is None:
            actions.append(_create(cluster, name, policy))
        elif not _is_ours(existing, cluster):
            events.append(_collision(cluster, name))
        elif changes := drift(existing, policy):
            actions.append(_patch(cluster, existing, changes))
    for name, existing in there.items():
        if name not in wanted and _is_ours(existing, cluster) and existing.metadata.deletion_timestamp is None:
            actions.append(_delete(cluster, existing))
    plan = Plan(stages=(tuple(actions),) if actions else (), events=tuple(events))
    return hold_back(plan, failures, generation=cluster.metadata.generation or 0, now=now)


def _is_ours(policy: NetworkPolicy, cluster: RayCluster) -> bool:
    owner = policy.metadata.controller
    return owner is not None and owner.uid == cluster.metadata.uid


def _create(cluster: RayCluster, name: str, policy: Json) -> Create:
    return Create(
        resource=NETWORK_POLICIES,
        namespace=cluster.namespace,
        name=name,
        body=orjson.dumps(policy),
        subject=POLICY,
        scope=name,
        why="the cluster shall be closed but for its own traffic",
    )


def _patch(cluster: RayCluster, existing: NetworkPolicy, changes: Json) -> Patch:
    return Patch(
        resource=NETWORK_POLICIES,
        namespace=cluster.namespace,
        name=existing.metadata.name,
        uid=existing.metadata.uid,
        patch=changes,
        subject=POLICY,
        scope=existing.metadata.name,
        why="it differs from what the cluster asks for",
        is_update=True,
    )


def _delete(cluster: RayCluster, existing: NetworkPolicy) -> Delete:
    return Delete(
        resource=NETWORK_POLICIES,
        namespace=cluster.namespace,
        name=existing.metadata.name,
        uid=existing.metadata.uid,
        subject=POLICY,
        scope=existing.metadata.name,
        why="the cluster no longer asks for it",
    )


def _collision(cluster: RayCluster, name: str) -> EmitEvent:
    note = f"NetworkPolicy {cluster.namespace}/{name} belongs to somebody else and is left alone; delete or rename it"
    return EmitEvent(type="Warning", reason="NetworkPolicyNameCollision", action="Validate", note=note, once=name)
