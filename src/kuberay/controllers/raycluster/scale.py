"""Bringing one worker group to its size: who goes, who comes, and who is left alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kuberay.build import labels, names
from kuberay.build import pod as pods
from kuberay.controllers.plan import WORKER_POD, Create, Delete
from kuberay.controllers.raycluster.health import beyond_repair, created_at, seconds_until_age
from kuberay.kube.resources import PODS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kuberay.api.core import Pod
    from kuberay.api.v1 import RayCluster, WorkerGroupSpec
    from kuberay.controllers.options import ControllerOptions
    from kuberay.controllers.raycluster.observe import Seen

LARGEST_COUNT = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Scaling:
    """What one group needs now."""

    deletes: tuple[Delete, ...] = ()
    creates: tuple[Create, ...] = ()
    look_again: float | None = None


def scope(group: str) -> str:
    """The name under which failures of a group are kept."""
    return f"group {group}"


def desired_pods(group: WorkerGroupSpec) -> int:
    """How many Pods a group shall have: `replicas` kept between its bounds, times the hosts of each."""
    if group.suspend:
        return 0
    low = group.min_replicas or 0
    high = LARGEST_COUNT if group.max_replicas is None else group.max_replicas
    wanted = low if group.replicas is None else group.replicas
    return _bounded(min(max(wanted, low), high) * _hosts(group))


def min_pods(group: WorkerGroupSpec) -> int:
    """The fewest Pods a group may have."""
    return 0 if group.suspend else _bounded((group.min_replicas or 0) * _hosts(group))


def max_pods(group: WorkerGroupSpec) -> int:
    """The most Pods a group may have."""
    high = LARGEST_COUNT if group.max_replicas is None else group.max_replicas
    return 0 if group.suspend else _bounded(high * _hosts(group))


def total(counts: Iterable[int]) -> int:
    """A sum that stays within what the API can hold."""
    return _bounded(sum(counts))


def scale(seen: Seen, group: WorkerGroupSpec, options: ControllerOptions, now: float) -> Scaling:
    """Bring one group to its size.

    Broken Pods go first, and are replaced in the same breath; Pods that are named go next, because whoever named them
    knows which Ray nodes are idle. A Pod that is on its way out is neither capacity nor surplus. When too many are
    left, the ones that do the least go: not running, then not ready, then the newest.
    """
    live = [pod for pod in seen.of_group(group.group_name) if not pod.is_leaving]
    if group.suspend:
        why = f"worker group {group.group_name} is suspended"
        return Scaling(tuple(delete(pod, scope(group.group_name), why) for pod in live[: options.batch]))

    deletes: list[Delete] = []
    kept: list[Pod] = []
    look_again: float | None = None
    to_delete = frozenset(group.scale_strategy.workers_to_delete if group.scale_strategy else ())
    for pod in live:
        broken = beyond_repair(pod)
        if broken is not None:
            wait = seconds_until_age(pod, options.replace_after, now)
            if wait > 0:
                kept.append(pod)
                look_again = wait if look_again is None else min(look_again, wait)
                continue
            deletes.append(delete(pod, scope(group.group_name), broken))
        elif pod.name in to_delete:
            deletes.append(delete(pod, scope(group.group_name), "it is named in workersToDelete"))
        else:
            kept.append(pod)

    desired = desired_pods(group)
    missing = desired - len(kept)
    creates: list[Create] = []
    if missing > 0:
        why = f"worker group {group.group_name} has {len(kept)} of {desired} Pods"
        creates = list(_new_pods(seen, group, kept, min(missing, options.batch), options, why))
    elif missing < 0 and _may_choose_victims(seen, options):
        why = f"worker group {group.group_name} has {len(kept)} Pods and shall have {desired}"
        victims = _least_useful(kept, min(-missing, options.batch))
        deletes += [delete(pod, scope(group.group_name), why, is_fenced=True) for pod in victims]
    return Scaling(tuple(deletes), tuple(creates), look_again)


def _may_choose_victims(seen: Seen, options: ControllerOptions) -> bool:
    """Where the autoscaler is at work it names the workers that go: only it knows which are idle."""
    return not seen.cluster.spec.is_autoscaling or options.random_pod_delete


def orphans(seen: Seen, options: ControllerOptions) -> Iterator[Delete]:
    """Pods of groups that are no longer in the spec: nobody else would ever remove them."""
    known = {group.group_name for group in seen.cluster.spec.worker_group_specs}
    left = options.batch
    for pod in seen.workers:
        name = pod.metadata.labels.get(labels.GROUP, "")
        if name not in known and not pod.is_leaving and left:
            left -= 1
            yield delete(pod, scope(name), f"its worker group {name!r} is no longer in the spec")


def delete(pod: Pod, scope: str, why: str, *, is_fenced: bool = False) -> Delete:
    """The removal of a worker."""
    return Delete(
        resource=PODS,
        namespace=pod.metadata.namespace,
        name=pod.name,
        uid=pod.metadata.uid,
        subject=WORKER_POD,
        scope=scope,
        why=why,
        is_fenced=is_fenced,
    )


def _new_pods(
    seen: Seen, group: WorkerGroupSpec, kept: list[Pod], count: int, options: ControllerOptions, why: str
) -> Iterator[Create]:
    """Pods under the lowest indices that are free. Names follow from what is known, see `names.unused`."""
    cluster: RayCluster = seen.cluster
    template = pods.worker(cluster, group, options.build)
    prefix = names.worker_generate_name(cluster, group)
    taken = {pod.name for pod in (*seen.pods, *seen.strangers)}
    if group.scale_strategy:
        # Whoever asked for the removal of a Pod must not find its name alive again.
        taken.update(group.scale_strategy.workers_to_delete)
    used = {_index(pod) for pod in kept}
    index = 0
    for _ in range(count):
        while index in used:
            index += 1
        name = names.unused(prefix, f"{cluster.metadata.uid}/{group.group_name}/{index}", taken)
        taken.add(name)
        used.add(index)
        yield Create(
            resource=PODS,
            namespace=cluster.namespace,
            name=name,
            body=template.pod(name, replica_index=index),
            subject=WORKER_POD,
            scope=scope(group.group_name),
            why=why,
        )


def _least_useful(candidates: list[Pod], count: int) -> list[Pod]:
    """Those whose loss costs the least work."""
    newest_first = sorted(candidates, key=lambda pod: (created_at(pod) or 0.0, _index(pod), pod.name), reverse=True)
    return sorted(newest_first, key=lambda pod: (pod.status.phase == "Running", pod.is_ready))[:count]


def _index(pod: Pod) -> int:
    """The replica index of a Pod; a label that cannot be read reserves nothing."""
    text = pod.metadata.labels.get(labels.REPLICA_INDEX, "")
    return int(text) if text.isdecimal() else -1


def _hosts(group: WorkerGroupSpec) -> int:
    return 1 if group.num_of_hosts is None else group.num_of_hosts


def _bounded(count: int) -> int:
    return min(count, LARGEST_COUNT)
