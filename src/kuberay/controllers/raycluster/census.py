"""Pods, sorted by what decisions want to know of them, and kept so change by change.

A cluster may have thousands of workers that all do well, and hear of one Pod at a time. Nobody should look at all of
them for that: those that run, are ready and stay are only counted, and the others are looked at.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kuberay.build import labels, names
from kuberay.controllers.raycluster.health import beyond_repair
from kuberay.controllers.raycluster.scaling import is_single
from kuberay.controllers.raycluster.trouble import Trouble, trouble

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kuberay.api.core import Pod
    from kuberay.kube.store import Store


@dataclass(frozen=True, slots=True)
class Workers:
    """The worker Pods of one group."""

    steady: tuple[Pod, ...] = ()
    """Those that run, are ready, and have no reason to go by themselves."""
    others: tuple[Pod, ...] = ()
    """Those that are starting, broken or leaving."""
    origins: frozenset[str] = frozenset()
    """What those that are not leaving were made from, see `kuberay.build.origin`."""
    hosts: Mapping[str, int] = field(default_factory=dict)
    """How many steady ones each replica of several hosts has, by its name; under no name those without.

    Those that were made as replicas by themselves are not among them.
    """


@dataclass(frozen=True, slots=True)
class Flock:
    """The Pods of one cluster at one moment."""

    pods: tuple[Pod, ...] = ()
    heads: tuple[Pod, ...] = ()
    groups: Mapping[str, Workers] = field(default_factory=dict)
    troubles: tuple[Trouble, ...] = ()
    """What keeps Pods of it from their work."""

    @property
    def is_steady(self) -> bool:
        """Whether no Pod is starting, broken or leaving."""
        return all(map(_is_steady, self.heads)) and not any(workers.others for workers in self.groups.values())


def flock(pods: Iterable[Pod]) -> Flock:
    """Sort the Pods of a cluster."""
    found = _Flock()
    for pod in pods:
        found.add(pod)
    return found.snapshot()


class Census:
    """Follows a store of Pods, and knows at any time how those of each cluster are doing."""

    def __init__(self, pods: Store[Pod]) -> None:
        self._by_owner: dict[tuple[str, str], _Flock] = {}
        self._by_label: dict[tuple[str, str], dict[str, dict[str, Pod]]] = {}
        for pod in pods:
            self._changed(None, pod)
        pods.on_change(self._changed)

    def of(self, namespace: str, owner_uid: str) -> Flock:
        """The Pods that belong to a cluster. One in another namespace cannot, whatever it says of its owner."""
        found = self._by_owner.get((namespace, owner_uid))
        return found.snapshot() if found is not None else Flock()

    def strangers(self, namespace: str, cluster: str, owner_uid: str) -> tuple[Pod, ...]:
        """Ray nodes that carry a cluster's label and belong to somebody else."""
        owners = self._by_label.get((namespace, cluster), {})
        return tuple(pod for uid, pods in owners.items() if uid != owner_uid for pod in pods.values())

    def _changed(self, old: Pod | None, new: Pod | None) -> None:
        if old is not None:
            self._remove(old)
        if new is not None:
            self._add(new)

    def _add(self, pod: Pod) -> None:
        owner = _owner(pod)
        if owner:
            self._by_owner.setdefault((pod.metadata.namespace, owner), _Flock()).add(pod)
        if _node_type(pod) in (names.HEAD, names.WORKER):
            self._by_label.setdefault(_label(pod), {}).setdefault(owner, {})[pod.name] = pod

    def _remove(self, pod: Pod) -> None:
        owner = _owner(pod)
        known = self._by_owner.get((pod.metadata.namespace, owner))
        if known is not None:
            known.remove(pod)
            if not known.pods:
                del self._by_owner[pod.metadata.namespace, owner]
        owners = self._by_label.get(_label(pod), {})
        labelled = owners.get(owner)
        if labelled is not None:
            labelled.pop(pod.name, None)
            if not labelled:
                del owners[owner]
            if not owners:
                del self._by_label[_label(pod)]


class _Flock:
    """The Pods of one cluster while they change. All are of one namespace, so their names tell them apart."""

    def __init__(self) -> None:
        self.pods: dict[str, Pod] = {}
        self._heads: dict[str, Pod] = {}
        self._groups: dict[str, _Group] = {}
        self._troubles: dict[str, Trouble] = {}

    def add(self, pod: Pod) -> None:
        self.pods[pod.name] = pod
        found = trouble(pod)
        if found is not None:
            self._troubles[pod.name] = found
        kind = _node_type(pod)
        if kind == names.HEAD:
            self._heads[pod.name] = pod
        elif kind == names.WORKER:
            self._groups.setdefault(pod.metadata.labels.get(labels.GROUP, ""), _Group()).add(pod)

    def remove(self, pod: Pod) -> None:
        self.pods.pop(pod.name, None)
        self._heads.pop(pod.name, None)
        self._troubles.pop(pod.name, None)
        group = pod.metadata.labels.get(labels.GROUP, "")
        if group in self._groups:
            self._groups[group].remove(pod)
            if self._groups[group].is_empty:
                del self._groups[group]

    def snapshot(self) -> Flock:
        groups = {name: group.snapshot() for name, group in self._groups.items()}
        troubles = tuple(self._troubles.values())
        return Flock(tuple(self.pods.values()), tuple(self._heads.values()), groups, troubles)


class _Group:
    """The worker Pods of one group while they change."""

    def __init__(self) -> None:
        self._steady: dict[str, Pod] = {}
        self._others: dict[str, Pod] = {}
        self._origins: Counter[str] = Counter()
        self._hosts: Counter[str] = Counter()

    @property
    def is_empty(self) -> bool:
        return not self._steady and not self._others

    def add(self, pod: Pod) -> None:
        if _is_steady(pod):
            self._steady[pod.name] = pod
            if not is_single(pod):
                self._hosts[_replica(pod)] += 1
        else:
            self._others[pod.name] = pod
        if not pod.is_leaving:
            self._origins[_origin(pod)] += 1

    def remove(self, pod: Pod) -> None:
        steady = self._steady.pop(pod.name, None)
        if steady is not None and not is_single(steady):
            _subtract(self._hosts, _replica(steady))
        known = steady or self._others.pop(pod.name, None)
        if known is not None and not known.is_leaving:
            _subtract(self._origins, _origin(known))

    def snapshot(self) -> Workers:
        return Workers(
            tuple(self._steady.values()), tuple(self._others.values()), frozenset(self._origins), dict(self._hosts)
        )


def _subtract(counts: Counter[str], key: str) -> None:
    counts[key] -= 1
    if not counts[key]:
        del counts[key]


def _is_steady(pod: Pod) -> bool:
    return not pod.is_leaving and pod.status.phase == "Running" and pod.is_ready and beyond_repair(pod) is None


def _node_type(pod: Pod) -> str:
    return pod.metadata.labels.get(labels.NODE_TYPE, "")


def _replica(pod: Pod) -> str:
    return pod.metadata.labels.get(labels.REPLICA_NAME, "")


def _origin(pod: Pod) -> str:
    return pod.metadata.annotations.get(labels.MADE_FROM, "")


def _owner(pod: Pod) -> str:
    owner = pod.metadata.controller
    return owner.uid if owner is not None else ""


def _label(pod: Pod) -> tuple[str, str]:
    return pod.metadata.namespace, pod.metadata.labels.get(labels.CLUSTER, "")
