"""What follows from a cluster's own words alone, worked out when it is first asked for and kept while they stand.

A cluster is looked at many times between two changes of its spec: what is wrong with it, what its Pods look like and
what it asks for in total stay the same meanwhile.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar, cast

import orjson

from kuberay.api.problems import with_group_names
from kuberay.api.shapes import shape_problems
from kuberay.api.validate.raycluster import metadata_problems, spec_problems
from kuberay.build import cleanup, origin
from kuberay.build import pod as pods
from kuberay.build.revision import revision
from kuberay.build.unsupported import unsupported
from kuberay.controllers.raycluster.children import child_names
from kuberay.controllers.raycluster.resources import desired_resources

if TYPE_CHECKING:
    from collections.abc import Callable

    from kuberay.api.gates import FeatureGates
    from kuberay.api.problems import Problem
    from kuberay.api.v1 import RayCluster, WorkerGroupSpec
    from kuberay.build.options import BuildOptions
    from kuberay.build.pod import PodTemplate
    from kuberay.kube.quantity import Quantity
    from kuberay.kube.resources import Resource

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Origins:
    """What the Pods and Services of a cluster would be made from now, see `kuberay.build.origin`."""

    head: str
    workers: tuple[str, ...]
    """In the order of the groups."""
    head_service: str
    serve_service: str


class Blueprint:
    """One generation of a cluster: its Pods, its problems, its sums."""

    def __init__(self, cluster: RayCluster) -> None:
        self._cluster = cluster
        self._drawn: dict[str, tuple[object, object]] = {}

    def fits(self, cluster: RayCluster) -> bool:
        """Whether a cluster still says what this was drawn from."""
        before, now = self._cluster.metadata, cluster.metadata
        return (
            before.generation is not None
            and (before.uid, before.generation) == (now.uid, now.generation)
            and before.labels == now.labels
            and before.annotations == now.annotations
        )

    def head(self, options: BuildOptions) -> PodTemplate:
        """The head Pod."""
        return self._once("head", options, lambda: pods.head(self._cluster, options, made_from=self.origins.head))

    def worker(self, group: WorkerGroupSpec, options: BuildOptions) -> PodTemplate:
        """The Pods of a worker group."""
        return self._once(f"group {group.group_name}", options, lambda: self._worker(group, options))

    def cleanup_job(self, options: BuildOptions) -> bytes | None:
        """The Job that removes its state from Redis, as JSON; `None` when none can be made from its head's template."""
        return self._once("cleanup", options, lambda: _cleanup_job(self._cluster, options))

    def spec_problems(self, gates: FeatureGates) -> list[Problem]:
        """What is wrong with the spec, warnings included."""
        return self._once("spec", gates, lambda: self._named(spec_problems(self._cluster, gates)))

    @cached_property
    def metadata_problems(self) -> list[Problem]:
        """What is wrong with the name and what goes with it."""
        return metadata_problems(self._cluster)

    @cached_property
    def shape_problems(self) -> list[Problem]:
        """What a full CRD would have refused or dropped in templates, and a slim one lets through."""
        return self._named(shape_problems(self._cluster.spec))

    @cached_property
    def unsupported(self) -> list[Problem]:
        """What it asks for that this version does not have."""
        return unsupported(self._cluster)

    @cached_property
    def origins(self) -> Origins:
        """What Pods and Services would be made from now."""
        spec = self._cluster.spec
        return Origins(
            origin.of_head(spec),
            tuple(origin.of_workers(spec)),
            origin.of_head_service(spec),
            origin.of_serve_service(spec),
        )

    @cached_property
    def children(self) -> tuple[tuple[Resource, str], ...]:
        """Kinds and names of the children that it may have beside Pods."""
        return child_names(self._cluster)

    @cached_property
    def revision(self) -> str:
        """The name of what the spec says, see `kuberay.build.revision`."""
        return revision(self._cluster.spec)

    @cached_property
    def resources(self) -> dict[str, Quantity]:
        """What all its Pods ask for together."""
        return desired_resources(self._cluster.spec)

    def _worker(self, group: WorkerGroupSpec, options: BuildOptions) -> PodTemplate:
        groups = [each.group_name for each in self._cluster.spec.worker_group_specs]
        made_from = self.origins.workers[groups.index(group.group_name)]
        return pods.worker(self._cluster, group, options, made_from=made_from)

    def _named(self, problems: list[Problem]) -> list[Problem]:
        groups = [{"groupName": each.group_name} for each in self._cluster.spec.worker_group_specs]
        return with_group_names(problems, {"spec": {"workerGroupSpecs": groups}})

    def _once(self, what: str, given: object, draw: Callable[[], T]) -> T:
        """Something that depends on settings too, which are one and the same while a process runs."""
        known = self._drawn.get(what)
        if known is None or known[0] is not given:
            known = self._drawn[what] = (given, draw())
        return cast(T, known[1])


def _cleanup_job(cluster: RayCluster, options: BuildOptions) -> bytes | None:
    """Not asked of the rules: a template that is refused may well do for this. It may also hold anything."""
    try:
        return orjson.dumps(cleanup.job(cluster, options))
    except Exception:
        return None
