"""ResourceQuotas: how many objects of a kind a namespace may hold.

Objects are counted when one more is to be made, so there is nothing to keep in step but the status that users read.
Amounts of CPU and memory are not limited here, so a quota of them is refused: a limit that does nothing is worse than
none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kuberay.engine.apiserver import problems
from kuberay.kube import quantity
from kuberay.kube.errors import Forbidden, StatusDetails

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kuberay.engine.apiserver.problems import Problem
    from kuberay.engine.apiserver.registry import Kind
    from kuberay.engine.apiserver.storage import Entry, MemoryStorage, Object

TABLE = "resourcequotas"

_COUNTED = ("configmaps", "persistentvolumeclaims", "pods", "resourcequotas", "secrets", "services")
"""Kinds that have a name of their own in quotas; all others are `count/jobs.batch`."""


def validate(obj: Object, _: Object | None) -> Iterator[Problem]:
    """A quota of what can be counted."""
    spec = obj.get("spec", {})
    for name, value in spec.get("hard", {}).items():
        path = f"spec.hard[{name}]"
        if name not in _COUNTED and not name.startswith("count/"):
            yield problems.unsupported(path, name, (*_COUNTED, "count/<resource>.<group>"))
        try:
            amount = quantity.parse(value)
        except ValueError as error:
            yield problems.invalid(path, value, str(error))
        else:
            if amount.nano < 0 or amount.nano % 10**9:
                yield problems.invalid(path, value, "must be a whole number, 0 or more")
    for part in ("scopes", "scopeSelector"):
        if spec.get(part):
            yield problems.forbidden(f"spec.{part}", "all objects of a kind count here, none can be left out")


class Quotas:
    """The quotas of a storage."""

    def __init__(self, storage: MemoryStorage) -> None:
        self._storage = storage

    def check(self, kind: Kind, namespace: str, name: str) -> None:
        """:raises Forbidden: with one more object a namespace would hold too many."""
        for quota in self._storage.entries(TABLE, namespace):
            for counted, limit in _limits(quota):
                if _table(counted) != kind.table:
                    continue
                used = self._used(counted, namespace)
                if used >= limit:
                    raise Forbidden(
                        f'{kind.resource.name} "{name}" is forbidden: exceeded quota: {quota.name},'
                        f" requested: {counted}=1, used: {counted}={used}, limited: {counted}={limit}",
                        details=StatusDetails(name=name, group=kind.resource.group, kind=kind.resource.plural),
                    )

    def tell(self, changed: Entry) -> None:
        """Bring the status of the quotas of a namespace in line with a change in it."""
        for quota in self._storage.entries(TABLE, changed.namespace):
            limits = dict(_limits(quota))
            if changed is not quota and changed.table not in map(_table, limits):
                continue
            used = {counted: str(self._used(counted, changed.namespace)) for counted in limits}
            status = {"hard": quota.obj.get("spec", {}).get("hard", {}), "used": used}
            if quota.obj.get("status") != status:
                meta = dict(quota.obj["metadata"])
                self._storage.put(TABLE, quota.namespace, quota.name, {**quota.obj, "metadata": meta, "status": status})

    def _used(self, counted: str, namespace: str) -> int:
        found = self._storage.entries(_table(counted), namespace)
        if counted == "pods":  # those that have ended leave room for others
            return sum(each.obj.get("status", {}).get("phase") not in ("Succeeded", "Failed") for each in found)
        return len(found)


def _limits(quota: Entry) -> Iterator[tuple[str, int]]:
    for name, value in quota.obj.get("spec", {}).get("hard", {}).items():
        yield name, int(quantity.parse(value))


def _table(counted: str) -> str:
    """Where the objects are stored that a name in a quota stands for."""
    return counted.removeprefix("count/")
