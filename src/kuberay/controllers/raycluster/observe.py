"""What is known about one RayCluster at one moment, taken from caches alone."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from kuberay.build import labels, names
from kuberay.build.fault_tolerance import claim_name
from kuberay.controllers.raycluster.blueprint import Blueprint
from kuberay.controllers.raycluster.census import flock
from kuberay.controllers.raycluster.children import WAYS_IN, is_left_over
from kuberay.kube.resources import SERVICES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kuberay.api.core import Job, PersistentVolumeClaim, Pod, Service
    from kuberay.api.partial import Ingress, PartialObject
    from kuberay.api.v1 import RayCluster
    from kuberay.controllers.failures import Failure
    from kuberay.controllers.raycluster.census import Census, Flock
    from kuberay.controllers.raycluster.lost import Look
    from kuberay.kube.resources import Resource
    from kuberay.kube.store import Store

BY_OWNER = "owner"

_OURS = frozenset({labels.CLUSTER, labels.HEADLESS_SERVICE, labels.SERVE})


@dataclass(frozen=True, kw_only=True)
class Seen:
    """A cluster and everything around it that decisions depend on."""

    cluster: RayCluster
    pods: tuple[Pod, ...] = ()
    """The Pods that belong to the cluster, leaving ones included."""
    strangers: tuple[Pod, ...] = ()
    """Pods that carry the cluster's label and belong to somebody else."""
    head_service: Service | None = None
    claim: PersistentVolumeClaim | None = None
    """The volume claim that the head mounts to keep its state, when the cluster asks for one."""
    left_behind: tuple[str, ...] = ()
    """What an earlier cluster of the same name had in place of these two, and has not gone yet."""
    cleanup_jobs: tuple[Job, ...] = ()
    """The Jobs of the cluster that remove its state from Redis."""
    children: Mapping[tuple[Resource, str], PartialObject | Ingress | Service] = field(default_factory=dict)
    """Objects under the names of the other children that a cluster may have, whoever made them."""
    unknown: frozenset[Resource] = frozenset()
    """Kinds of children of which nothing can be said yet, for their cache is not filled."""
    stand_ins: frozenset[tuple[Resource, str]] = frozenset()
    """Children that somebody else made, and that no cache tells of."""
    nodes: Mapping[str, Look] = field(default_factory=dict)
    """Nodes from which heads do not go, as far as somebody has looked."""
    is_namespace_closing: bool = False
    """Whether the namespace is being deleted, so that nothing can be made in it."""
    failures: Mapping[str, Failure] = field(default_factory=dict)
    """What could not be done lately, by scope."""
    used_names: frozenset[str] = frozenset()
    """Names of Pods that have left lately, or that belong to Pods of which no cache tells."""
    reported: frozenset[str] = frozenset()
    """What users were told once and is still so, such as the uids of strangers."""

    drawn: Blueprint | None = None
    """What follows from the cluster's own words, by whoever has worked it out already."""
    counted: Flock | None = None
    """The same Pods, sorted, by whoever has sorted them already."""

    @cached_property
    def flock(self) -> Flock:
        """The Pods, sorted by what decisions want to know of them."""
        return self.counted if self.counted is not None else flock(self.pods)

    @cached_property
    def blueprint(self) -> Blueprint:
        """What follows from the cluster's own words."""
        return self.drawn if self.drawn is not None else Blueprint(self.cluster)

    @property
    def heads(self) -> tuple[Pod, ...]:
        """The head Pods, of which there should be one."""
        return self.flock.heads

    @property
    def workers(self) -> list[Pod]:
        """The worker Pods of all groups."""
        return [pod for group in self.flock.groups for pod in self.of_group(group)]

    def of_group(self, group: str) -> list[Pod]:
        """The worker Pods of a group."""
        found = self.flock.groups.get(group)
        return [*found.steady, *found.others] if found is not None else []


def may_be_a_clusters(obj: Service | Ingress | PartialObject) -> bool:
    """Whether an object is worth keeping: it belongs to a cluster, or its labels say so.

    Most Services of a large Kubernetes are nobody's of ours. One of them that has a name we want is found when it is
    to be made.
    """
    owner = obj.metadata.controller
    return (owner is not None and owner.kind == "RayCluster") or not _OURS.isdisjoint(obj.metadata.labels)


def owner_index(obj: Pod | Service | Job) -> tuple[str, ...]:
    """Index of a store: by namespace and uid of the controlling owner, which is in the same namespace."""
    owner = obj.metadata.controller
    return (f"{obj.metadata.namespace}/{owner.uid}",) if owner is not None else ()


def owner_value(cluster: RayCluster) -> str:
    """The value under which `owner_index` files what belongs to a cluster."""
    return f"{cluster.namespace}/{cluster.metadata.uid}"


def observe(
    cluster: RayCluster,
    pods: Census,
    services: Store[Service],
    *,
    drawn: Blueprint | None = None,
    stores: Mapping[Resource, Store[Any]] | None = None,
    stand_ins: frozenset[tuple[Resource, str]] = frozenset(),
    nodes: Mapping[str, Look] | None = None,
    jobs: Store[Job] | None = None,
    claims: Store[PersistentVolumeClaim] | None = None,
    is_namespace_closing: bool = False,
    failures: Mapping[str, Failure],
    used_names: frozenset[str] = frozenset(),
    reported: frozenset[str],
) -> Seen:
    """Everything the caches know about a cluster.

    Pods are the cluster's by their owner, not by their labels: labels can be copied by anybody. The head Service may
    also be one that a user made beforehand, under its name and with its labels.
    """
    uid = cluster.metadata.uid or ""
    stores = stores or {}
    blueprint = drawn if drawn is not None else Blueprint(cluster)
    counted = pods.of(cluster.namespace, uid)
    service = services.get(cluster.namespace, names.head_service(cluster))
    name = claim_name(cluster)
    claim = claims.get(cluster.namespace, name) if claims is not None and name is not None else None
    old = [each for each in (service, claim) if each is not None and is_left_over(each, cluster)]
    if service in old or (service is not None and not _is_head_service(service, cluster)):
        service = None
    return Seen(
        cluster=cluster,
        pods=counted.pods,
        counted=counted,
        drawn=blueprint,
        strangers=pods.strangers(cluster.namespace, cluster.name, uid),
        head_service=service,
        claim=None if claim in old else claim,
        left_behind=tuple(f"{type(each).__name__} {each.name}" for each in old),
        cleanup_jobs=tuple(jobs.by(BY_OWNER, owner_value(cluster))) if jobs is not None else (),
        children=_children(cluster.namespace, blueprint, {**stores, SERVICES: services}) | _owned(cluster, services),
        unknown=frozenset(each for each in WAYS_IN if each in stores and not stores[each].is_synced),
        stand_ins=stand_ins,
        nodes=nodes or {},
        is_namespace_closing=is_namespace_closing,
        failures=failures,
        used_names=used_names,
        reported=reported,
    )


def _children(
    namespace: str, blueprint: Blueprint, stores: Mapping[Resource, Store[Any]]
) -> dict[tuple[Resource, str], Any]:
    found: dict[tuple[Resource, str], Any] = {}
    for resource, name in blueprint.children:
        child = stores[resource].get(namespace, name) if resource in stores else None
        if child is not None:
            found[resource, name] = child
    return found


def _owned(cluster: RayCluster, services: Store[Service]) -> dict[tuple[Resource, str], Service]:
    """Services that are known by their labels, under whatever name.

    That of workers' hosts had another one in the past; those of heads have others when the spec names them anew.
    """
    found: dict[tuple[Resource, str], Service] = {}
    for service in services.by(BY_OWNER, owner_value(cluster)):
        if labels.HEADLESS_SERVICE in service.metadata.labels:
            found.setdefault((SERVICES, names.headless_service(cluster)), service)
        elif service.metadata.labels.get(labels.NODE_TYPE) == names.HEAD:
            found[SERVICES, service.name] = service
    return found


def _is_head_service(service: Service, cluster: RayCluster) -> bool:
    if owner_index(service) == (owner_value(cluster),):
        return True
    wanted = labels.head_service_labels(cluster)
    own = service.metadata.labels
    return all(own.get(key) == wanted[key] for key in (labels.CLUSTER, labels.NODE_TYPE, labels.IDENTIFIER))
