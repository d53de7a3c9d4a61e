"""Groups whose replicas span several hosts: a replica comes as one and goes as one.

The hosts of a replica run one program together, such as the slices of a TPU. One that is lost cannot be replaced under
the others: they all start again. So what is counted, chosen and named here is the replica and not the Pod.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kuberay.build import labels, names
from kuberay.controllers.plan import WORKER_POD, Create
from kuberay.controllers.raycluster.census import Workers
from kuberay.controllers.raycluster.health import beyond_repair, created_at, seconds_until_age
from kuberay.controllers.raycluster.scaling import (
    Scaling,
    delete,
    desired_pods,
    hosts,
    is_single,
    label_number,
    may_choose_victims,
    named_workers,
    scope,
    taken_names,
)
from kuberay.kube.resources import PODS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kuberay.api.core import Pod
    from kuberay.api.v1 import WorkerGroupSpec
    from kuberay.controllers.options import ControllerOptions
    from kuberay.controllers.plan import Delete
    from kuberay.controllers.raycluster.observe import Seen


@dataclass(frozen=True, slots=True)
class Replica:
    """The Pods of one replica that are not leaving."""

    name: str
    """Empty for Pods that were made without one: before replicas had names, or with the gate closed."""
    index: int
    """Negative for Pods that were made without one."""
    pods: tuple[Pod, ...]
    is_leaving: bool
    """Whether some host of it is already on its way out."""
    is_surplus: bool = False
    """Whether these are hosts that another replica has too many; as many as make a replica serve as one."""

    @property
    def is_makeshift(self) -> bool:
        """Whether it is made up of Pods without a replica's name, each of which comes and goes by itself."""
        return not self.name and self.index < 0 and not self.is_surplus


def scale(
    seen: Seen, group: WorkerGroupSpec, options: ControllerOptions, now: float, *, may_grow: bool = True
) -> Scaling:
    """Bring one group to its number of replicas.

    A replica with a Pod that is broken, named, or missing goes as a whole, and is replaced in the same breath; but one
    of which nothing runs yet is only completed, for it was cut short while it was made. So is one that waits for hosts
    which were refused; no other is begun before. Pods without a replica's name go and are replaced one by one, as by
    the operators that made them.

    :param may_grow: whether Pods may be made at the moment.
    """
    size = hosts(group)
    named = named_workers(group)
    if not named and _is_settled(seen.flock.groups.get(group.group_name, Workers()), desired_pods(group), size):
        return Scaling()
    deletes: list[Delete] = []
    creates: list[Create] = []
    kept: list[Replica] = []
    waits: list[float] = []
    found = _replicas(seen.of_group(group.group_name), size)
    held_up = _held_up(found, size) if scope(group.group_name) in seen.failures else None
    for replica in found:
        why, wait = _trouble(replica, size, named, options, now, is_held_up=replica is held_up)
        if wait is not None:
            waits.append(wait)
        if why is not None:
            # Which hosts are too many is told by counting.
            deletes += [delete(pod, group.group_name, why, is_fenced=replica.is_surplus) for pod in replica.pods]
        else:
            kept.append(replica)
    kept = _gathered(kept, size)

    desired = desired_pods(group) // size
    missing = desired - len(kept)
    most = max(options.batch // size, 1)
    counts = f"worker group {group.group_name} has {len(kept)}"
    if missing < 0 and may_choose_victims(seen, options):
        why = f"{counts} replicas and shall have {desired}"
        victims = _least_useful(kept, size, min(-missing, most))
        deletes += [delete(pod, group.group_name, why, is_fenced=True) for each in victims for pod in each.pods]
        going = {id(replica) for replica in victims}
        kept = [replica for replica in kept if id(replica) not in going]
    if not may_grow:
        return Scaling(tuple(deletes), (), min(waits, default=None))
    makers = _Maker(seen, group, options)
    room = desired * size - sum(len(replica.pods) for replica in kept)
    for replica in kept:
        lacking = size - len(replica.pods)
        if 0 < lacking <= room:
            what = f"replica {replica.name}" if replica.name else "a replica"
            creates += makers.complete(replica, f"{what} has {len(replica.pods)} of {size} hosts")
            room -= lacking
    if missing > 0 and held_up not in kept:
        why = f"{counts} of {desired} replicas"
        creates += makers.replicas(min(missing, most), {replica.index for replica in kept}, why)
    return Scaling(tuple(deletes), tuple(creates), min(waits, default=None))


def _is_settled(workers: Workers, desired: int, size: int) -> bool:
    """Whether all replicas are there and whole, told by counting: a large group is not looked at Pod by Pod."""
    return (
        not workers.others
        and len(workers.steady) == sum(workers.hosts.values()) == desired
        and all(count == size if name else count % size == 0 for name, count in workers.hosts.items())
    )


def _replicas(found: list[Pod], size: int) -> list[Replica]:
    """The replicas of a group that have a Pod which is not leaving, in the order of their first Pod.

    A Pod without a replica's name stands for itself: nothing tells whose mate it is.
    """
    by_name: dict[str, list[Pod]] = {}
    for pod in found:
        by_name.setdefault(pod.metadata.labels.get(labels.REPLICA_NAME, ""), []).append(pod)
    nameless = [pod for pod in by_name.pop("", []) if not pod.is_leaving]
    replicas = [Replica("", label_number(pod, labels.REPLICA_INDEX), (pod,), is_leaving=False) for pod in nameless]
    for name, members in by_name.items():
        live = [pod for pod in members if not pod.is_leaving]
        live.sort(key=lambda pod: (label_number(pod, labels.HOST_INDEX), created_at(pod) or 0.0, pod.name))
        if live:
            index = label_number(live[0], labels.REPLICA_INDEX)
            replicas.append(Replica(name, index, tuple(live[:size]), is_leaving=len(live) < len(members)))
        replicas += [
            Replica("", -1, tuple(live[start : start + size]), is_leaving=False, is_surplus=True)
            for start in range(size, len(live), size)
        ]
    return replicas


def _gathered(replicas: list[Replica], size: int) -> list[Replica]:
    """Pods without a replica's name serve all the same: taken together, oldest first, as many as make a replica."""
    nameless = [pod for each in replicas if each.is_makeshift for pod in each.pods]
    nameless.sort(key=lambda pod: (created_at(pod) or 0.0, pod.name))
    return [
        *(each for each in replicas if not each.is_makeshift),
        *(
            Replica("", -1, tuple(nameless[start : start + size]), is_leaving=False)
            for start in range(0, len(nameless), size)
        ),
    ]


def _held_up(replicas: list[Replica], size: int) -> Replica | None:
    """The replica that waits for hosts which were refused: only one, to which the others make room."""
    begun = [each for each in replicas if each.name and not each.is_leaving and len(each.pods) < size]
    return min(begun, key=lambda replica: (-len(replica.pods), replica.index, replica.name), default=None)


def _trouble(
    replica: Replica, size: int, named: frozenset[str], options: ControllerOptions, now: float, *, is_held_up: bool
) -> tuple[str | None, float | None]:
    """Why a replica has to go, if it has to; or after how many seconds it will."""
    what = f"replica {replica.name}" if replica.name else "its replica"
    wait: float | None = None
    for pod in replica.pods:
        broken = beyond_repair(pod)
        if broken is not None:
            left = seconds_until_age(pod, options.replace_after, now)
            if left <= 0:
                return broken if replica.is_makeshift else f"{what} cannot go on without {pod.name}: {broken}", None
            wait = left if wait is None else min(wait, left)
        elif pod.name in named:
            why = "it is named in workersToDelete"
            return why if replica.is_makeshift else f"{what} goes with {pod.name}: {why}", None
    if len(replica.pods) < size and replica.is_surplus:
        return f"its replica has more than the {size} hosts that it shall have", None
    if len(replica.pods) < size and is_single(replica.pods[0]):
        return f"each was a replica by itself, and replicas have {size} hosts now", None
    is_excused = replica.is_makeshift or is_held_up or _is_in_the_making(replica)
    if len(replica.pods) < size and not is_excused:
        return f"{what} has lost {size - len(replica.pods)} of its {size} hosts", None
    return None, wait


def _is_in_the_making(replica: Replica) -> bool:
    """Whether nothing of it has run yet, and nothing was taken away."""
    return (
        replica.name != ""
        and not replica.is_leaving
        and all(pod.status.phase in ("", "Pending") for pod in replica.pods)
    )


def _least_useful(candidates: list[Replica], size: int, count: int) -> list[Replica]:
    """Those whose loss costs the least work: hosts too many, then not running, then not ready, then the newest."""

    def age(replica: Replica) -> tuple[float, int, str]:
        return max(created_at(pod) or 0.0 for pod in replica.pods), replica.index, replica.name

    def use(replica: Replica) -> tuple[bool, bool, bool]:
        runs = len(replica.pods) == size and all(pod.status.phase == "Running" for pod in replica.pods)
        return not replica.is_surplus, runs, all(pod.is_ready for pod in replica.pods)

    return sorted(sorted(candidates, key=age, reverse=True), key=use)[:count]


class _Maker:
    """Makes Pods of replicas. Names follow from what is known, see `names.unused`."""

    def __init__(self, seen: Seen, group: WorkerGroupSpec, options: ControllerOptions) -> None:
        self._cluster = seen.cluster
        self._blueprint = seen.blueprint
        self._group = group
        self._options = options
        self._seed = f"{seen.cluster.metadata.uid}/{group.group_name}"
        self._taken = taken_names(seen, group)
        self._replica_names = {
            pod.metadata.labels.get(labels.REPLICA_NAME, "") for pod in seen.of_group(group.group_name)
        }

    def replicas(self, count: int, used: set[int], why: str) -> Iterator[Create]:
        """New replicas under the lowest indices that are free."""
        index = 0
        for _ in range(count):
            while index in used:
                index += 1
            used.add(index)
            name = names.unused(f"{self._group.group_name}-", f"{self._seed}/{index}", self._replica_names)
            self._replica_names.add(name)
            for host in range(hosts(self._group)):
                yield self._host(name, index, host, why)

    def complete(self, replica: Replica, why: str) -> Iterator[Create]:
        """The hosts that a replica lacks."""
        present = {label_number(pod, labels.HOST_INDEX) for pod in replica.pods}
        absent = [host for host in range(hosts(self._group)) if host not in present]
        for host in absent[: hosts(self._group) - len(replica.pods)]:
            yield self._host(replica.name, replica.index, host, why)

    def _host(self, replica: str, index: int, host: int, why: str) -> Create:
        template = self._blueprint.worker(self._group, self._options.build)
        prefix = names.worker_generate_name(self._cluster, self._group)
        name = names.unused(prefix, f"{self._seed}/{replica}/{host}", self._taken)
        self._taken.add(name)
        if replica:
            body = template.pod(name, replica_index=index, replica_name=replica, host_index=host)
        else:
            body = template.pod(name)
        return Create(
            resource=PODS,
            namespace=self._cluster.namespace,
            name=name,
            body=body,
            subject=WORKER_POD,
            scope=scope(self._group.group_name),
            why=why,
            takes_another_name=True,
        )
