"""Bringing one worker group to its size: who goes, who comes, and who is left alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kuberay.api.gates import Gate
from kuberay.build import labels, names
from kuberay.controllers.plan import WORKER_POD, Create
from kuberay.controllers.raycluster import replicas
from kuberay.controllers.raycluster.census import Workers
from kuberay.controllers.raycluster.health import beyond_repair, created_at, seconds_until_age
from kuberay.controllers.raycluster.scaling import (
    Scaling,
    delete,
    desired_pods,
    hosts,
    label_number,
    may_choose_victims,
    named_workers,
    scope,
    taken_names,
)
from kuberay.kube.resources import PODS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kuberay.api.core import Pod
    from kuberay.api.v1 import RayCluster, WorkerGroupSpec
    from kuberay.controllers.options import ControllerOptions
    from kuberay.controllers.plan import Delete
    from kuberay.controllers.raycluster.observe import Seen

_NAMED = "it is named in workersToDelete"


def scale(
    seen: Seen, group: WorkerGroupSpec, options: ControllerOptions, now: float, *, may_grow: bool = True
) -> Scaling:
    """Bring one group to its size.

    Broken Pods go first, and are replaced in the same breath; Pods that are named go next, because whoever named them
    knows which Ray nodes are idle. A Pod that is on its way out is neither capacity nor surplus. When too many are
    left, the ones that do the least go: not running, then not ready, then the newest.

    :param may_grow: whether Pods may be made at the moment.
    """
    workers = seen.flock.groups.get(group.group_name, Workers())
    arriving = [pod for pod in workers.others if not pod.is_leaving]
    if group.suspend:
        why = f"worker group {group.group_name} is suspended"
        live = [*arriving, *workers.steady]
        return Scaling(tuple(delete(pod, group.group_name, why) for pod in live[: options.batch]))
    if hosts(group) > 1 and Gate.RAY_MULTI_HOST_INDEXING in options.gates:
        return replicas.scale(seen, group, options, now, may_grow=may_grow)

    deletes: list[Delete] = []
    kept: list[Pod] = []
    look_again: float | None = None
    named = named_workers(group)
    for pod in arriving:
        broken = beyond_repair(pod)
        if broken is not None:
            wait = seconds_until_age(pod, options.replace_after, now)
            if wait > 0:
                kept.append(pod)
                look_again = wait if look_again is None else min(look_again, wait)
                continue
            deletes.append(delete(pod, group.group_name, broken))
        elif pod.name in named:
            deletes.append(delete(pod, group.group_name, _NAMED))
        else:
            kept.append(pod)
    # Nothing can be wrong with these, and there may be thousands of them: only names have to be looked for.
    steady: Sequence[Pod] = workers.steady
    if named:
        deletes += [delete(pod, group.group_name, _NAMED) for pod in steady if pod.name in named]
        steady = [pod for pod in steady if pod.name not in named]

    count = len(steady) + len(kept)
    desired = desired_pods(group)
    missing = desired - count
    creates: list[Create] = []
    if missing > 0 and may_grow:
        why = f"worker group {group.group_name} has {count} of {desired} Pods"
        creates = list(_new_pods(seen, group, [*steady, *kept], min(missing, options.batch), options, why))
    elif missing < 0 and may_choose_victims(seen, options):
        why = f"worker group {group.group_name} has {count} Pods and shall have {desired}"
        victims = _least_useful([*steady, *kept], min(-missing, options.batch))
        deletes += [delete(pod, group.group_name, why, is_fenced=True) for pod in victims]
    return Scaling(tuple(deletes), tuple(creates), look_again)


def orphans(seen: Seen, options: ControllerOptions) -> Iterator[Delete]:
    """Pods of groups that are no longer in the spec: nobody else would ever remove them."""
    known = {group.group_name for group in seen.cluster.spec.worker_group_specs}
    left = options.batch
    for name in seen.flock.groups:
        if name in known:
            continue
        for pod in seen.of_group(name):
            if not pod.is_leaving and left:
                left -= 1
                yield delete(pod, name, f"its worker group {name!r} is no longer in the spec")


def _new_pods(
    seen: Seen, group: WorkerGroupSpec, kept: list[Pod], count: int, options: ControllerOptions, why: str
) -> Iterator[Create]:
    """Pods under the lowest indices that are free. Names follow from what is known, see `names.unused`."""
    cluster: RayCluster = seen.cluster
    template = seen.blueprint.worker(group, options.build)
    prefix = names.worker_generate_name(cluster, group)
    taken = taken_names(seen, group)
    used = {label_number(pod, labels.REPLICA_INDEX) for pod in kept}
    has_indices = Gate.RAY_MULTI_HOST_INDEXING in options.gates
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
            body=template.pod(name, replica_index=index if has_indices else None),
            subject=WORKER_POD,
            scope=scope(group.group_name),
            why=why,
            takes_another_name=True,
        )


def _least_useful(candidates: list[Pod], count: int) -> list[Pod]:
    """Those whose loss costs the least work."""
    newest_first = sorted(
        candidates,
        key=lambda pod: (created_at(pod) or 0.0, label_number(pod, labels.REPLICA_INDEX), pod.name),
        reverse=True,
    )
    return sorted(newest_first, key=lambda pod: (pod.status.phase == "Running", pod.is_ready))[:count]
