"""What has left may have left with its cluster.

Watches of different kinds do not keep step: that the garbage collector has taken a Service can be heard of before the
end of the cluster that owned it. So nothing is put in the place of what has left before the cluster is known to be
there still.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kuberay.api.v1 import RayCluster
from kuberay.controllers.kinds import RAY_CLUSTERS
from kuberay.controllers.plan import Create
from kuberay.kube.errors import Missing

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kuberay.controllers.plan import Plan
    from kuberay.kube.client import Client
    from kuberay.kube.store import Store


class Departures:
    """Which clusters have lost something since they were last known to be there themselves."""

    def __init__(self, client: Client, clusters: Store[RayCluster], owned: Iterable[Store[Any]]) -> None:
        self._client = client
        self._clusters = clusters
        self._bereft: set[str] = set()
        """Their uids."""
        clusters.on_change(self._forget)
        for store in owned:
            store.on_change(self._note)

    def confirm(self, cluster: RayCluster) -> None:
        """Take a cluster for present: the server has just answered for it."""
        self._bereft.discard(cluster.metadata.uid or "")

    async def allow(self, plan: Plan, cluster: RayCluster) -> bool:
        """Whether a plan may be carried out; if not, the news of what has become of the cluster is under way."""
        if cluster.metadata.uid not in self._bereft or not any(isinstance(each, Create) for each in plan.actions):
            return True
        if not await self._is_as_known(cluster):
            return False
        self.confirm(cluster)
        return True

    async def _is_as_known(self, cluster: RayCluster) -> bool:
        """Whether the server knows a cluster as we do."""
        try:
            found = await self._client.get(RAY_CLUSTERS, cluster.name, namespace=cluster.namespace, type=RayCluster)
        except Missing:
            return False
        self._clusters.wrote(found)
        return _essence(found) == _essence(cluster)

    def _note(self, old: Any, new: Any) -> None:
        owner = old.metadata.controller if old is not None and new is None else None
        if owner is None:
            return
        cluster = self._clusters.get(old.metadata.namespace, owner.name)
        if cluster is not None and cluster.metadata.uid == owner.uid:
            self._bereft.add(owner.uid)

    def _forget(self, old: RayCluster | None, new: RayCluster | None) -> None:
        if old is not None and (new is None or new.metadata.uid != old.metadata.uid):
            self._bereft.discard(old.metadata.uid or "")


def _essence(cluster: RayCluster) -> tuple[object, ...]:
    meta = cluster.metadata
    return meta.uid, meta.generation, meta.deletion_timestamp
