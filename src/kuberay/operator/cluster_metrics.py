"""Metrics of each Ray cluster, under KubeRay's names, for boards that were made for it."""

from __future__ import annotations

import time
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from prometheus_client.core import GaugeMetricFamily

from kuberay.api.meta import is_true
from kuberay.build.labels import ORIGINATED_FROM_CRD
from kuberay.controllers.raycluster.status import PROVISIONED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from prometheus_client import CollectorRegistry

    from kuberay.api.v1 import RayCluster
    from kuberay.kube.metrics import Metrics
    from kuberay.kube.store import Store

_WHICH = ("name", "namespace", "uid")


class _Row(NamedTuple):
    name: str
    namespace: str
    uid: str
    owner_kind: str
    is_provisioned: bool


class ClusterMetrics:
    """Tells of the clusters in the caches whenever it is asked, and remembers how long each took to be provisioned.

    :param leads: whether this process is the one that provisions them: a standby measures nothing.
    """

    def __init__(
        self,
        metrics: Metrics,
        stores: Iterable[Store[RayCluster]],
        *,
        leads: Callable[[], bool] = lambda: True,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._stores = tuple(stores)
        self._leads = leads
        self._now = now
        self._rows: list[_Row] = []
        self._durations: dict[tuple[str, str, str], float] = {}
        self._durations_shown: list[tuple[tuple[str, str, str], float]] = []
        for store in self._stores:
            store.on_change(self._changed)
        metrics.before_rendering(self._look)
        registry: CollectorRegistry = metrics.registry
        registry.register(self)

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """All families; called in a thread, so only what `_look` has put aside is read."""
        info = GaugeMetricFamily("kuberay_cluster_info", "Metadata of a RayCluster.", labels=(*_WHICH, "owner_kind"))
        provisioned = GaugeMetricFamily(
            "kuberay_cluster_condition_provisioned",
            "Whether all Pods of a RayCluster have been ready once.",
            labels=(*_WHICH, "condition"),
        )
        for row in self._rows:
            which = (row.name, row.namespace, row.uid)
            info.add_metric((*which, row.owner_kind), 1)
            provisioned.add_metric((*which, "true" if row.is_provisioned else "false"), 1)
        duration = GaugeMetricFamily(
            "kuberay_cluster_provisioned_duration_seconds",
            "Seconds from the creation of a RayCluster until all its Pods were ready.",
            labels=_WHICH,
        )
        for cluster, seconds in self._durations_shown:
            duration.add_metric(cluster, seconds)
        yield from (info, provisioned, duration)

    def _look(self) -> None:
        self._rows = [
            _Row(
                cluster.name,
                cluster.namespace,
                cluster.metadata.uid or "",
                cluster.metadata.labels.get(ORIGINATED_FROM_CRD) or "None",
                _is_provisioned(cluster),
            )
            for store in self._stores
            for cluster in store
        ]
        self._durations_shown = list(self._durations.items())

    def _changed(self, old: RayCluster | None, new: RayCluster | None) -> None:
        if old is None:
            return
        if new is None or new.metadata.uid != old.metadata.uid:
            self._durations.pop(_which(old), None)
        elif self._leads() and _is_provisioned(new) and not _is_provisioned(old):
            created = datetime.fromisoformat(new.metadata.creation_timestamp or "1970-01-01T00:00:00Z")
            self._durations[_which(new)] = self._now() - created.timestamp()


def _which(cluster: RayCluster) -> tuple[str, str, str]:
    return cluster.name, cluster.namespace, cluster.metadata.uid or ""


def _is_provisioned(cluster: RayCluster) -> bool:
    return is_true(cluster.status.conditions, PROVISIONED)
