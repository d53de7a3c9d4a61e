"""What the two ways of scaling a worker group have in common: how large it shall be, and how its Pods go."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kuberay.build import labels
from kuberay.controllers.plan import WORKER_POD, Create, Delete
from kuberay.kube.resources import PODS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kuberay.api.core import Pod
    from kuberay.api.v1 import WorkerGroupSpec
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
    """The name under which failures to make Pods of a group are kept."""
    return f"group {group}"


def removal_scope(group: str) -> str:
    """The name under which failures to remove Pods of a group are kept: one that has to stay keeps none from coming."""
    return f"removal from group {group}"


def desired_pods(group: WorkerGroupSpec) -> int:
    """How many Pods a group shall have: `replicas` kept between its bounds, times the hosts of each."""
    if group.suspend:
        return 0
    low = group.min_replicas or 0
    high = LARGEST_COUNT if group.max_replicas is None else group.max_replicas
    wanted = low if group.replicas is None else group.replicas
    return _bounded(min(max(wanted, low), high) * hosts(group))


def min_pods(group: WorkerGroupSpec) -> int:
    """The fewest Pods a group may have."""
    return 0 if group.suspend else _bounded((group.min_replicas or 0) * hosts(group))


def max_pods(group: WorkerGroupSpec) -> int:
    """The most Pods a group may have."""
    high = LARGEST_COUNT if group.max_replicas is None else group.max_replicas
    return 0 if group.suspend else _bounded(high * hosts(group))


def total(counts: Iterable[int]) -> int:
    """A sum that stays within what the API can hold."""
    return _bounded(sum(counts))


def named_workers(group: WorkerGroupSpec) -> frozenset[str]:
    """The Pods that the autoscaler wants removed, by name."""
    return frozenset(group.scale_strategy.workers_to_delete if group.scale_strategy else ())


def may_choose_victims(seen: Seen, options: ControllerOptions) -> bool:
    """Where the autoscaler is at work it names the workers that go: only it knows which are idle."""
    return not seen.cluster.spec.is_autoscaling or options.random_pod_delete


def delete(pod: Pod, group: str, why: str, *, is_fenced: bool = False) -> Delete:
    """The removal of a worker from its group."""
    return Delete(
        resource=PODS,
        namespace=pod.metadata.namespace,
        name=pod.name,
        uid=pod.metadata.uid,
        subject=WORKER_POD,
        scope=removal_scope(group),
        why=why,
        is_fenced=is_fenced,
    )


def taken_names(seen: Seen, group: WorkerGroupSpec) -> set[str]:
    """The names that no new worker of a group may have.

    Whoever asked for the removal of a Pod must not find its name alive again. Nor must Ray's autoscaler, which knows
    Pods by their names alone: it takes a new one for the old one that it knows to be dead, and has it removed.
    """
    return {pod.name for pod in (*seen.pods, *seen.strangers)} | named_workers(group) | seen.used_names


def label_number(pod: Pod, key: str) -> int:
    """A number in a Pod's labels; one that cannot be read is no number of ours."""
    text = pod.metadata.labels.get(key, "")
    return int(text) if text.isdecimal() else -1


def is_single(pod: Pod) -> bool:
    """Whether a Pod was made as a replica by itself: it has the index of one, and no name to share with others."""
    return not pod.metadata.labels.get(labels.REPLICA_NAME) and label_number(pod, labels.REPLICA_INDEX) >= 0


def hosts(group: WorkerGroupSpec) -> int:
    """How many Pods make a replica."""
    return 1 if group.num_of_hosts is None else group.num_of_hosts


def _bounded(count: int) -> int:
    return max(0, min(count, LARGEST_COUNT))
