"""How a cluster is doing, from what is seen of it. Compared by value: what has not changed is not written."""

from __future__ import annotations

import re
from collections import Counter
from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING

import msgspec

from kuberay.api.meta import find_condition, is_true
from kuberay.api.v1 import HeadInfo, RayClusterStatus
from kuberay.build.labels import NODE_TYPE
from kuberay.build.names import HEAD
from kuberay.controllers.conditions import Conditions
from kuberay.controllers.failures import LONGEST_WAIT
from kuberay.controllers.kinds import RAY_CLUSTERS
from kuberay.controllers.merging import merge_patch_between
from kuberay.controllers.plan import PatchStatus
from kuberay.controllers.raycluster import following, resources, scaling, upgrade
from kuberay.controllers.raycluster.health import is_running_and_ready
from kuberay.controllers.raycluster.lost import waiting
from kuberay.controllers.raycluster.trouble import Trouble, is_told_by, trouble, worth_telling
from kuberay.kube import quantity

if TYPE_CHECKING:
    from kuberay.api.core import Pod, Service
    from kuberay.api.meta import Condition
    from kuberay.api.v1 import RayCluster
    from kuberay.controllers.raycluster.observe import Seen
    from kuberay.kube.quantity import Quantity

BLOCKED = "Blocked"
"""True while something in the spec keeps the operator from working on the cluster. Absent otherwise."""
HEAD_POD_READY = "HeadPodReady"
PODS_BLOCKED = "PodsBlocked"
"""True while something that will not pass by itself keeps a Pod from its work: no room, no image. Absent otherwise."""
PROVISIONED = "RayClusterProvisioned"
REDIS_CLEANUP = "RedisCleanup"
"""Of a cluster that is being deleted: whether what it has stored in Redis is being removed, or why not yet."""
REPLICA_FAILURE = "ReplicaFailure"
SPEC_PENDING = "SpecChangesPending"
"""True while Pods or Services were made from an older spec, and keep it until they are replaced. Absent otherwise."""
SUSPENDED = "RayClusterSuspended"
SUSPENDING = "RayClusterSuspending"

READY_STATE = "ready"
SUSPENDED_STATE = "suspended"

# Somebody may be waiting for these; the other conditions follow Pods, and Pods come in flocks.
_URGENT = (BLOCKED, REDIS_CLEANUP, REPLICA_FAILURE, SUSPENDED, SUSPENDING)
_STEPS = frozenset((REDIS_CLEANUP, SUSPENDED, SUSPENDING))
"""What is remembered in conditions to go on from, even by an operator that was started only then."""
_MOST_PATHS = 20
_NUMBERS = re.compile(r"\d+")
_REASON = re.compile(r"[A-Za-z]([A-Za-z0-9_,:]{0,1022}[A-Za-z0-9_])?")
"""A reason of a condition that the API takes. Those of Pods are anybody's words."""


class Blocked(msgspec.Struct, frozen=True):
    """Why the operator leaves a cluster as it is."""

    reason: str
    message: str


def timestamp(now: float) -> str:
    """A time as Kubernetes writes it."""
    return _written(int(now))


@lru_cache(maxsize=16)
def _written(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def status(seen: Seen, blocked: Blocked | None, now: float, *, has_conditions: bool = True) -> RayClusterStatus:
    """The status that a cluster should have, times included; only `last_update_time` is left as it was.

    :param has_conditions: whether conditions are kept at all; without them, they are left as they are.
    """
    cluster = seen.cluster
    old = cluster.status
    groups = cluster.spec.worker_group_specs
    groups_seen = seen.flock.groups.values()
    steady = sum(len(workers.steady) for workers in groups_seen)
    others = [pod for workers in groups_seen for pod in workers.others if not pod.is_leaving]
    heads = [pod for pod in seen.heads if not pod.is_leaving]
    desired = scaling.total(map(scaling.desired_pods, groups))
    total = seen.blueprint.resources
    is_settled = len(heads) == 1 and _is_complete(seen) and all(map(is_running_and_ready, (*heads, *others)))

    conditions = Conditions(old.conditions, timestamp(now))
    if has_conditions:
        _set_conditions(conditions, seen, blocked, is_settled=is_settled)
        _set_pods_blocked(conditions, seen, now)

    state, reason = old.state, old.reason
    if is_settled and blocked is None and not seen.failures and not cluster.spec.suspend:
        state, reason = READY_STATE, None
    if cluster.spec.suspend and not seen.pods and (conditions.is_true(SUSPENDED) or not has_conditions):
        state = SUSPENDED_STATE
    transitions = old.state_transition_times
    if state != old.state and state:
        transitions = {**transitions, state: timestamp(now)}

    return msgspec.structs.replace(
        old,
        state=state,
        reason=reason,
        state_transition_times=transitions,
        conditions=conditions.list(),
        ready_worker_replicas=_count(steady + sum(pod.status.phase == "Running" and pod.is_ready for pod in others)),
        available_worker_replicas=_count(steady + sum(pod.status.phase == "Running" for pod in others)),
        desired_worker_replicas=_count(desired),
        min_worker_replicas=_count(scaling.total(map(scaling.min_pods, groups))),
        max_worker_replicas=_count(scaling.total(map(scaling.max_pods, groups))),
        desired_cpu=_amount(old.desired_cpu, total.get("cpu", quantity.ZERO)),
        desired_memory=_amount(old.desired_memory, total.get("memory", quantity.ZERO)),
        desired_gpu=_amount(old.desired_gpu, resources.gpus(total)),
        desired_tpu=_amount(old.desired_tpu, total.get(resources.TPU, quantity.ZERO)),
        endpoints={**old.endpoints, **_endpoints(seen.head_service)},
        head=_head_info(seen),
        observed_generation=cluster.metadata.generation,
    )


def status_patch(cluster: RayCluster, new: RayClusterStatus, now: float) -> PatchStatus | None:
    """The write that brings a cluster's status up to date; `None` when it is."""
    old = cluster.status
    if new == old:
        return None
    changes = merge_patch_between(old.to_dict(), new.to_dict())
    if not changes:
        return None
    turned = {kind for kind in _URGENT if is_true(old.conditions, kind) != is_true(new.conditions, kind)}
    return PatchStatus(
        resource=RAY_CLUSTERS,
        namespace=cluster.namespace,
        name=cluster.name,
        uid=cluster.metadata.uid or "",
        patch={**changes, "lastUpdateTime": timestamp(now)},
        is_urgent=bool(turned) or new.state != old.state or _has_settled(new),
        leads_on=not turned.isdisjoint(_STEPS),
        why="changed: " + ", ".join(sorted(changes)),
    )


def at_a_loss(cluster: RayCluster, error: Exception, now: float) -> PatchStatus | None:
    """The write that tells of a cluster on which the operator itself has failed; `None` when it was told.

    Nothing else is told with it: it may be just what cannot be worked out.
    """
    message = f"the operator failed on this RayCluster ({type(error).__name__}) and tries again; its log tells more"
    conditions = Conditions(cluster.status.conditions, timestamp(now))
    conditions.set(BLOCKED, True, "InternalError", message)
    return status_patch(cluster, msgspec.structs.replace(cluster.status, conditions=conditions.list()), now)


def _is_complete(seen: Seen) -> bool:
    """Whether each group has the Pods that it shall have: one too many here does not make up for one missing there."""
    surplus: Counter[str] = Counter()
    for name, workers in seen.flock.groups.items():
        surplus[name] = len(workers.steady) + sum(not pod.is_leaving for pod in workers.others)
    for group in seen.cluster.spec.worker_group_specs:
        surplus[group.group_name] -= scaling.desired_pods(group)
    return not any(surplus.values())


def _has_settled(new: RayClusterStatus) -> bool:
    """Whether all Pods that shall be there are ready: nothing more is to come that one write could tell of as well."""
    return (new.ready_worker_replicas or 0) >= (new.desired_worker_replicas or 0) and is_true(
        new.conditions, HEAD_POD_READY
    )


def _set_conditions(conditions: Conditions, seen: Seen, blocked: Blocked | None, *, is_settled: bool) -> None:
    _set_replica_failure(conditions, seen)
    was_suspending, was_suspended = conditions.is_true(SUSPENDING), conditions.is_true(SUSPENDED)
    _set_head_pod_ready(conditions, seen)
    if not conditions.is_true(PROVISIONED) and not was_suspended:
        if is_settled:
            message = "All Ray Pods are ready for the first time"
            conditions.set(PROVISIONED, True, "AllPodRunningAndReadyFirstTime", message)
        else:
            message = "RayCluster Pods are being provisioned for first time"
            conditions.set(PROVISIONED, False, "RayClusterPodsProvisioning", message)

    of_pods = upgrade.waiting_fields(seen) + following.fields_that_wait_for_a_head(seen)
    of_services = following.waiting_fields(seen)
    left_over = following.left_over(seen)
    if of_pods or of_services or left_over:
        reason = "PodsOfOlderSpec" if of_pods else "ServiceOfOlderSpec" if of_services else "LeftOver"
        conditions.set(SPEC_PENDING, True, reason, _waiting_message(seen, of_pods, of_services, left_over))
    else:
        conditions.remove(SPEC_PENDING)

    # A blocked cluster is neither suspended nor resumed.
    if blocked is not None:
        conditions.set(BLOCKED, True, blocked.reason, blocked.message)
        return
    conditions.remove(BLOCKED)
    if was_suspending:
        if not seen.pods:
            _set_suspended(conditions)
    elif was_suspended:
        if is_resumed(seen.cluster):
            conditions.set(SUSPENDED, False, SUSPENDED)
    elif seen.cluster.spec.suspend and not seen.pods:
        _set_suspended(conditions)
    else:
        conditions.set(SUSPENDED, False, SUSPENDED)
        conditions.set(SUSPENDING, bool(seen.cluster.spec.suspend), SUSPENDING)


def is_resumed(cluster: RayCluster) -> bool:
    """Whether a cluster that was suspended shall run again. One that is ready was resumed while nobody kept conditions;
    it is not to be taken down for one that is left from before."""
    return cluster.spec.suspend is False or (cluster.spec.suspend is None and cluster.status.state == READY_STATE)


def _set_replica_failure(conditions: Conditions, seen: Seen) -> None:
    """What was refused, of several the one that the others wait for. How much of a quota others use is no news."""
    told_of = [failure for failure in seen.failures.values() if failure.is_worth_telling]
    if not told_of:
        conditions.remove(REPLICA_FAILURE)
        return
    worst = min(told_of, key=lambda failure: (_SCOPES.get(failure.scope, 2), failure.scope))
    again = f"It is tried again at least every {LONGEST_WAIT:.0f} seconds, and when the spec changes"
    message = f"{worst.message}. {again}"
    known = find_condition(seen.cluster.status.conditions, REPLICA_FAILURE)
    told = None if known is None else (known.status, known.reason, _NUMBERS.sub("", known.message))
    if told != ("True", worst.reason, _NUMBERS.sub("", message)):
        conditions.set(REPLICA_FAILURE, True, worst.reason, message)


def _set_suspended(conditions: Conditions) -> None:
    conditions.set(PROVISIONED, False, "RayClusterPodsProvisioning", "RayCluster has been suspended")
    conditions.set(SUSPENDED, True, SUSPENDED)
    conditions.set(SUSPENDING, False, SUSPENDING)


def _set_pods_blocked(conditions: Conditions, seen: Seen, now: float) -> None:
    """The trouble that the others may follow from: the head's, or else that of the first worker by name."""
    heads = {pod.name for pod in seen.heads}
    found = sorted(worth_telling(seen.flock.troubles, now), key=lambda each: (each.pod not in heads, each.pod))
    if not found:
        conditions.remove(PODS_BLOCKED)
        return
    known = find_condition(seen.cluster.status.conditions, PODS_BLOCKED)
    alike = [each for each in found if (each.pod in heads) == (found[0].pod in heads)]
    if known is None or not any(_tells(seen, known, each) and is_told_by(known.message, each) for each in alike):
        conditions.set(PODS_BLOCKED, True, found[0].reason, found[0].message)


def _tells(seen: Seen, known: Condition, found: Trouble) -> bool:
    """Whether a status already tells of a trouble, and not of that of an earlier Pod."""
    return known.reason == found.reason and timestamp(found.made_at) < (seen.cluster.status.last_update_time or "")


def _waiting_message(seen: Seen, of_pods: list[str], of_services: dict[str, list[str]], left_over: list[str]) -> str:
    sentences = [
        f"{', '.join(paths)}: Service {name} keeps the old value until it is deleted and made anew"
        for name, paths in of_services.items()
    ]
    sentences += left_over
    if of_pods:
        listed = ", ".join(of_pods[:_MOST_PATHS])
        more = f" and {len(of_pods) - _MOST_PATHS} more" if len(of_pods) > _MOST_PATHS else ""
        way_out = ", or upgradeStrategy.type is Recreate" if upgrade.would_recreate(seen) else ""
        sentences.insert(0, f"{listed}{more}: running Pods keep the old value until they are deleted{way_out}")
    return ". ".join(sentences)


# Which failure a status tells when there are several: the one that the others wait for.
_SCOPES = {"service account": 0, "role": 0, "role binding": 0, "secret": 0, "service": 0, "head": 1}


def _set_head_pod_ready(conditions: Conditions, seen: Seen) -> None:
    """Copied from the head Pod's own condition, with the container's word for it where that says more."""
    heads = seen.heads
    live = [pod for pod in heads if not pod.is_leaving]
    if not heads:
        others = ", ".join(pod.name for pod in seen.strangers if pod.metadata.labels[NODE_TYPE] == HEAD)
        message = "Head Pod not found" + (f"; waiting for {others}, which belongs to somebody else" if others else "")
        if seen.left_behind:
            message += f"; waiting for {', '.join(seen.left_behind)} of an earlier cluster to go"
        conditions.set(HEAD_POD_READY, False, "HeadPodNotFound", message)
        return
    if len(live) > 1:
        listed = ", ".join(sorted(pod.name for pod in live))
        message = f"{len(live)} head Pods exist: {listed}. Delete all but one"
        conditions.set(HEAD_POD_READY, False, "MultipleHeadPods", message)
        return
    if not live:
        conditions.set(HEAD_POD_READY, False, "HeadPodTerminating", waiting(heads[0], seen.nodes))
        return
    ready = next((each for each in live[0].status.conditions if each.type == "Ready"), None)
    if ready is None:
        conditions.set(HEAD_POD_READY, False, "Unknown")
        return
    is_ready = ready.status == "True"
    reason, message = ready.reason, ready.message
    if not _REASON.fullmatch(reason):
        reason = "HeadPodRunningAndReady" if is_ready else "Unknown"
    if reason == "ContainersNotReady":
        reason, message = _container_trouble(live[0], reason, message)
    known = find_condition(seen.cluster.status.conditions, HEAD_POD_READY)
    found = trouble(live[0])
    if not is_ready and known is not None and found is not None and _tells(seen, known, found):
        return  # the kubelet tries again, and counts how often
    conditions.set(HEAD_POD_READY, is_ready, reason, message)


def _container_trouble(pod: Pod, reason: str, message: str) -> tuple[str, str]:
    """The first container that waits or has ended, in place of the word that some container is not ready."""
    for container in pod.status.container_statuses:
        trouble = container.state.waiting or container.state.terminated
        if trouble is not None:
            if _REASON.fullmatch(trouble.reason):
                reason = trouble.reason
            return reason, "; ".join(filter(None, (message, f"{container.name}: {trouble.message}")))
    return reason, message


def _endpoints(service: Service | None) -> dict[str, str]:
    """Where each named port of the head Service can be reached."""
    found: dict[str, str] = {}
    for port in service.spec.ports if service is not None else ():
        target = port.node_port or port.target_port
        if port.name and target:
            found[port.name] = str(target)
    return found


def _head_info(seen: Seen) -> HeadInfo | None:
    live = [pod for pod in seen.heads if not pod.is_leaving]
    pod = live[0] if len(live) == 1 else None
    service = seen.head_service
    pod_ip = (pod.status.pod_ip if pod else "") or None
    cluster_ip = service.spec.cluster_ip if service else ""
    info = HeadInfo(
        pod_name=pod.name if pod else None,
        pod_ip=pod_ip,
        service_name=service.name if service else None,
        service_ip=pod_ip if cluster_ip == "None" else cluster_ip or None,
    )
    return info if info.to_dict() else None


def _count(number: int) -> int | None:
    """Zero is written by leaving it away, as KubeRay does."""
    return number or None


def _amount(old: int | str | None, new: Quantity) -> int | str:
    """The new amount, in the old writing when that means the same."""
    try:
        if old is not None and quantity.parse(old) == new:
            return old
    except ValueError:
        pass
    return str(new)
