"""Priority classes: a Pod that names one gets its value, and is refused when there is none of that name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kuberay.kube.errors import Forbidden, StatusDetails

if TYPE_CHECKING:
    from kuberay.engine.apiserver.storage import MemoryStorage, Object

TABLE = "priorityclasses.scheduling.k8s.io"

_PREEMPTS = "PreemptLowerPriority"
_OF_THE_SYSTEM = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
"""Every Kubernetes has these."""


def default(obj: Object) -> None:
    """A class is worth nothing, and pushes others away, unless it is told otherwise."""
    obj.setdefault("value", 0)
    obj.setdefault("preemptionPolicy", _PREEMPTS)


class Priorities:
    """The classes of a storage."""

    def __init__(self, storage: MemoryStorage) -> None:
        self._storage = storage

    def apply(self, pod: Object) -> None:
        """Give a new Pod the priority of its class, or of the class that is meant for all, in place.

        :raises Forbidden: there is no class of this name.
        """
        spec = pod.setdefault("spec", {})
        name = spec.get("priorityClassName") or self._default_name()
        if not name:
            return
        if name in _OF_THE_SYSTEM:
            value, policy = _OF_THE_SYSTEM[name], _PREEMPTS
        else:
            entry = self._storage.get(TABLE, "", name)
            if entry is None:
                pod_name = pod["metadata"].get("name", "")
                raise Forbidden(
                    f'pods "{pod_name}" is forbidden: no PriorityClass with name {name} was found',
                    details=StatusDetails(name=pod_name, kind="pods"),
                )
            value, policy = entry.obj["value"], entry.obj["preemptionPolicy"]
        spec |= {"priorityClassName": name, "priority": value}
        spec.setdefault("preemptionPolicy", policy)

    def _default_name(self) -> str:
        """Of several classes for all, the one of the least value."""
        meant = [entry for entry in self._storage.entries(TABLE) if entry.obj.get("globalDefault")]
        return min(meant, key=lambda entry: int(entry.obj["value"])).name if meant else ""
