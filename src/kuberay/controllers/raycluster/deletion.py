"""The end of a cluster whose state is in Redis: its Pods go, a Job removes the state, and then the cluster may go.

A finalizer keeps the cluster there until that is done. It never keeps it for good: whatever makes the cleanup
impossible ends in a warning that names what is left in Redis, and the cluster goes. Nothing here asks whether the spec
is valid: whoever deletes a broken cluster means it.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING

import msgspec

from kuberay.api.meta import find_condition
from kuberay.api.problems import errors
from kuberay.api.templates import ray_container
from kuberay.build import labels, names
from kuberay.build.fault_tolerance import is_embedded, is_in_redis, used_namespace
from kuberay.controllers.conditions import Conditions
from kuberay.controllers.failures import hold_back
from kuberay.controllers.kinds import RAY_CLUSTERS
from kuberay.controllers.plan import ANY_POD, Create, Delete, EmitEvent, Patch, Plan, Subject
from kuberay.controllers.raycluster import status as statuses
from kuberay.controllers.raycluster.lost import lost, waiting
from kuberay.kube.resources import JOBS, PODS

if TYPE_CHECKING:
    from kuberay.api.core import Job
    from kuberay.api.v1 import RayCluster
    from kuberay.controllers.options import ControllerOptions
    from kuberay.controllers.plan import PatchStatus
    from kuberay.controllers.raycluster.observe import Seen

FINALIZER = "ray.io/gcs-ft-redis-cleanup-finalizer"
TIMEOUT = "ray.io/gcs-ft-deletion-timeout"
"""An annotation: for how many seconds the cleanup may take, from when it can start."""
DEFAULT_TIMEOUT = 300
_LONGEST_TIMEOUT = 2**63 // 10**9
FOREGROUND = "foregroundDeletion"
"""The garbage collector's finalizer: as long as it is there, everything that the cluster owns is removed."""
FOREGROUND_SECONDS = 1.0
"""How often it is looked whether it is still there. A change of finalizers wakes nobody."""

_ORPHAN = "orphan"
"""The same for who wants that to stay (`kubectl delete --cascade=orphan`)."""

FINALIZER_SCOPE = "finalizer"
PODS_SCOPE = "deletion"
JOB_SCOPE = "redis cleanup"

CLEANUP_JOB = Subject("Redis cleanup Job", "RedisCleanupJob")
_FINALIZER = Subject("finalizer of RayCluster", "Finalizer", is_announced=False)


def needs_finalizer(cluster: RayCluster, options: ControllerOptions) -> bool:
    """Whether a cluster must not go before its state in Redis has gone."""
    return options.redis_cleanup and is_in_redis(cluster) and FINALIZER not in cluster.metadata.finalizers


def add_finalizer(cluster: RayCluster) -> Patch:
    """Keep a cluster from going unnoticed. To be done before anything can write to Redis."""
    return _finalizers(
        cluster, [*cluster.metadata.finalizers, FINALIZER], "its state in Redis has to be removed when it goes"
    )


def deletion(seen: Seen, options: ControllerOptions, now: float) -> Plan:
    """The plan for a cluster that goes, by itself or with its namespace.

    Without the finalizer nothing: what it owns follows it. What was refused a moment ago waits, and nothing for it.
    """
    plan = _whole(seen, options, now)
    events = tuple(event for event in plan.events if event.once not in seen.reported)
    told = frozenset(event.once for event in plan.events)
    generation = seen.cluster.metadata.generation or 0
    return hold_back(replace(plan, events=events, told=told), seen.failures, generation=generation, now=now)


def _whole(seen: Seen, options: ControllerOptions, now: float) -> Plan:
    cluster = seen.cluster
    if FINALIZER not in cluster.metadata.finalizers:
        return Plan()
    if is_embedded(cluster):
        return _release(cluster, "its state is on a volume and not in Redis")
    obstacle = _obstacle(seen, options)
    if obstacle is not None:
        return _release(cluster, obstacle, _skipped(seen, obstacle))
    live = sorted((pod for pod in seen.pods if not pod.is_leaving), key=lambda pod: pod not in seen.heads)
    deletes = tuple(
        Delete(
            resource=PODS,
            namespace=cluster.namespace,
            name=pod.name,
            uid=pod.metadata.uid,
            subject=ANY_POD,
            scope=PODS_SCOPE,
            why="the cluster is being deleted",
        )
        for pod in live[: options.batch]
    )
    if seen.heads:
        message = "; ".join(waiting(pod, seen.nodes) for pod in seen.heads)
        told = _told(seen, options, False, "HeadPodTerminating", message, now)
        stuck = lost(seen.heads, seen.nodes, PODS_SCOPE, options.lost_after, now)
        deletes += stuck.deletes
        stages = (deletes,) if deletes else ()
        return Plan(stages=stages, status=told, nodes=stuck.nodes, look_again=stuck.look_again)
    return _clean(seen, options, deletes, now)


def _obstacle(seen: Seen, options: ControllerOptions) -> str | None:
    """Why no cleanup can be made, if so."""
    cluster = seen.cluster
    if not cluster.is_fault_tolerant:
        return "fault tolerance was switched off after the cluster was made"
    if _ORPHAN in cluster.metadata.finalizers:
        return "its Pods are to stay, as whoever deletes it asks"
    for pod in seen.strangers:
        if pod.metadata.controller is None and pod.metadata.labels.get(labels.NODE_TYPE) == names.HEAD:
            return f"head Pod {pod.name} was left to run on without the cluster, and may use it"
    if not options.redis_cleanup:
        return "the operator is told to leave Redis alone"
    if seen.is_namespace_closing:
        return f"namespace {cluster.namespace} is being deleted, and no Job can be made in it"
    if not ray_container(cluster.spec.head_group_spec.template):
        return "the head has no container from which a Job could be made"
    return None


def _clean(seen: Seen, options: ControllerOptions, deletes: tuple[Delete, ...], now: float) -> Plan:
    """No head is left that could write: make the Job when it can last, and wait for its end, but not for ever."""
    cluster = seen.cluster
    job = next(iter(seen.cleanup_jobs), None)
    if job is not None and job.end is not None:
        return _ended(cluster, job)
    body = seen.blueprint.cleanup_job(options.build) if job is None else None
    if job is None and body is None:
        obstacle = "; ".join(("no Job can be made from the head's template", *_first_problem(seen)))
        return _release(cluster, obstacle, _skipped(seen, obstacle))
    if job is None and FOREGROUND in cluster.metadata.finalizers:
        message = "a Job would be removed at once, together with everything else that the cluster owns"
        told = _told(seen, options, False, "ForegroundDeletion", message, now)
        return Plan(stages=(deletes,) if deletes else (), status=told, look_again=FOREGROUND_SECONDS)
    begun = _begun(cluster, options)
    timeout = _timeout(cluster)
    if begun is not None and now >= begun + timeout:
        elapsed = f"Redis cleanup did not end within {timeout} seconds"
        late = _warning(cluster, "ForceDeletedStuckCluster", f"{elapsed}; {_left(cluster)}")
        return _release(cluster, elapsed, late)
    failure = seen.failures.get(JOB_SCOPE)
    if job is None and failure is not None:
        told = _told(seen, options, True, failure.reason, failure.message, now)
    else:
        name = names.redis_cleanup_job(cluster)
        told = _told(seen, options, True, "CleanupJobRunning", f"waiting for Job {name} to end", now)
    # At once: workers have nothing to write, and one that does not go must not keep the Job from starting.
    actions = (*deletes, *(() if body is None else (_create(cluster, body),)))
    left = timeout if begun is None else begun + timeout - now
    return Plan(stages=(actions,) if actions else (), status=told, look_again=left)


def _first_problem(seen: Seen) -> list[str]:
    """What is wrong with the head's template, and no more of it than leaves room to tell what is left in Redis."""
    found = errors(seen.blueprint.shape_problems)
    return [str(each) for each in found if each.path.startswith("spec.headGroupSpec.template")][:1]


def _create(cluster: RayCluster, job: bytes) -> Create:
    return Create(
        resource=JOBS,
        namespace=cluster.namespace,
        name=names.redis_cleanup_job(cluster),
        body=job,
        subject=CLEANUP_JOB,
        scope=JOB_SCOPE,
        why="the head is gone, and its state is still in Redis",
    )


def _ended(cluster: RayCluster, job: Job) -> Plan:
    end = job.end
    if end is None or end.type == "Complete":
        return _release(cluster, f"Job {job.name} has removed its state from Redis")
    why = f"Job {job.name} has failed" + (f" ({end.reason}: {end.message})" if end.reason else "")
    failed = _warning(cluster, "RedisCleanupFailed", f"{why}; {_left(cluster)}")
    return _release(cluster, why, failed)


def _release(cluster: RayCluster, why: str, *events: EmitEvent) -> Plan:
    """Let the cluster go."""
    kept = [each for each in cluster.metadata.finalizers if each != FINALIZER]
    return Plan(stages=((_finalizers(cluster, kept, why),),), events=events)


def _finalizers(cluster: RayCluster, finalizers: list[str], why: str) -> Patch:
    """A change of the list as it is known; if somebody else has changed it meanwhile, it has to be read again."""
    metadata = {"finalizers": finalizers, "resourceVersion": cluster.metadata.resource_version}
    return Patch(
        resource=RAY_CLUSTERS,
        namespace=cluster.namespace,
        name=cluster.name,
        uid=cluster.metadata.uid or "",
        patch={"metadata": metadata},
        subject=_FINALIZER,
        scope=FINALIZER_SCOPE,
        why=why,
    )


def _skipped(seen: Seen, obstacle: str) -> EmitEvent:
    note = f"Redis is not cleaned up: {obstacle}; {_left(seen.cluster)}"
    return _warning(seen.cluster, "SkippedRedisCleanup", note, is_about_namespace=seen.is_namespace_closing)


def _warning(cluster: RayCluster, reason: str, note: str, *, is_about_namespace: bool = False) -> EmitEvent:
    return EmitEvent(
        type="Warning",
        reason=reason,
        action="Cleanup",
        note=f"RayCluster {cluster.namespace}/{cluster.name}: {note}",
        once=reason,
        is_about_namespace=is_about_namespace,
    )


def _left(cluster: RayCluster) -> str:
    return f"what it has stored in Redis under the storage namespace {used_namespace(cluster)} is left there"


def _told(
    seen: Seen, options: ControllerOptions, has_begun: bool, reason: str, message: str, now: float
) -> PatchStatus | None:
    """The status, with a condition that tells how far the cleanup is. Since when it is true is when it could begin."""
    new = statuses.status(seen, None, now, has_conditions=options.has_conditions)
    if not options.has_conditions:
        return statuses.status_patch(seen.cluster, new, now)
    conditions = Conditions(new.conditions, statuses.timestamp(now))
    conditions.set(statuses.REDIS_CLEANUP, has_begun, reason, message)
    return statuses.status_patch(seen.cluster, msgspec.structs.replace(new, conditions=conditions.list()), now)


def _begun(cluster: RayCluster, options: ControllerOptions) -> float | None:
    """When the cleanup could begin, in seconds since 1970; where no condition remembers it, when it was asked for."""
    condition = find_condition(cluster.status.conditions, statuses.REDIS_CLEANUP)
    time = condition.last_transition_time if condition is not None and condition.status == "True" else ""
    if not options.has_conditions:
        time = cluster.metadata.deletion_timestamp or ""
    try:
        return datetime.fromisoformat(time).timestamp()
    except ValueError:
        return None


def _timeout(cluster: RayCluster) -> int:
    text = cluster.metadata.annotations.get(TIMEOUT, "").removeprefix("+")
    seconds = int(text) if text.isdecimal() and len(text) < 20 else 0
    return seconds if 0 < seconds <= _LONGEST_TIMEOUT else DEFAULT_TIMEOUT
