"""Rules for the head group and the worker groups, each taken by itself and beside each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kuberay.api import names, templates, versions
from kuberay.api.problems import Problem, child, shown, warning
from kuberay.api.start_params import start_param_problems
from kuberay.kube import quantity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kuberay.api.v1 import HeadGroupSpec, WorkerGroupSpec
    from kuberay.api.validate.subject import Subject

HEAD_GROUP_NAME = "headgroup"
"""What the head's Pod carries as its group; a worker group of this name would be taken for it."""

MOST_HOSTS = 10_000
"""Of one replica. They are made at once, and no slice of accelerators has so many."""

_RESOURCE_PARAMS = ("num-cpus", "num-gpus", "memory", "resources")


def group_problems(subject: Subject) -> Iterator[Problem]:
    """All rules about groups, the head first."""
    head = subject.at("headGroupSpec")
    yield from _template_problems(subject.spec.head_group_spec, head, "the head group")
    yield from _shared_problems(subject.spec.head_group_spec, head)
    seen: dict[str, int] = {}
    for index, group in enumerate(subject.spec.worker_group_specs):
        path = subject.at(f"workerGroupSpecs[{index}]")
        yield from _name_problems(group, path, index, seen)
        yield from _template_problems(group, path, f"worker group {shown(group.group_name)}")
        if templates.text(templates.mapping(group.template, "metadata"), "name"):
            yield warning(f"{path}.template.metadata.name", "has no effect: names of worker Pods are generated")
        yield from _count_problems(group, path, subject.spec.is_autoscaling)
        yield from _shared_problems(group, path)
        yield from _autoscaler_problems(group, path, subject)


def _name_problems(group: WorkerGroupSpec, path: str, index: int, seen: dict[str, int]) -> Iterator[Problem]:
    name = group.group_name
    if not name and (group.num_of_hosts or 1) > 1:
        yield Problem(
            f"{path}.groupName", "a worker group of several hosts needs a name: its replicas are named after it"
        )
    if name == HEAD_GROUP_NAME:
        yield Problem(f"{path}.groupName", f"{shown(name)} is the name of the head's own group; choose another")
    elif name in seen:
        yield Problem(
            f"{path}.groupName",
            f"worker group names must be unique: {shown(name)} is also the name of workerGroupSpecs[{seen[name]}]",
        )
    seen.setdefault(name, index)


def _template_problems(group: HeadGroupSpec | WorkerGroupSpec, path: str, what: str) -> Iterator[Problem]:
    if not templates.containers(group.template):
        yield Problem(f"{path}.template.spec.containers", f"{what} needs at least one container; the first runs Ray")


def _count_problems(group: WorkerGroupSpec, path: str, autoscaling: bool) -> Iterator[Problem]:
    low, high = group.min_replicas, group.max_replicas
    if not autoscaling:
        for field, value in (("minReplicas", low), ("maxReplicas", high)):
            if value is None:
                yield Problem(f"{path}.{field}", "must be set when autoscaling is off")
    for field, value in (("minReplicas", low), ("maxReplicas", high)):
        if value is not None and value < 0:
            yield Problem(f"{path}.{field}", f"must not be negative, got {value}")
    if low is not None and high is not None and low > high >= 0:
        yield Problem(f"{path}.minReplicas", f"must not be greater than maxReplicas: {low} > {high}")
    elif group.replicas is not None:
        # The operator keeps between the bounds by itself; a user may wonder why another number of Pods runs.
        if low is not None and group.replicas < low:
            yield warning(f"{path}.replicas", f"{group.replicas} is below minReplicas; {low} will run")
        elif high is not None and group.replicas > high >= 0:
            yield warning(f"{path}.replicas", f"{group.replicas} is above maxReplicas; {high} will run")
    if group.num_of_hosts is not None and not 1 <= group.num_of_hosts <= MOST_HOSTS:
        yield Problem(f"{path}.numOfHosts", f"must be from 1 to {MOST_HOSTS}, got {group.num_of_hosts}")


def _shared_problems(group: HeadGroupSpec | WorkerGroupSpec, path: str) -> Iterator[Problem]:
    params = group.ray_start_params
    both = [name for name in _RESOURCE_PARAMS if params.get(name)]
    if both and group.resources:
        yield Problem(
            f"{path}.resources",
            f"resources are also set by rayStartParams ({', '.join(both)}); use only one of the two",
        )
    for name, amount in group.resources.items():
        try:
            quantity.parse(amount)
        except ValueError as error:
            yield warning(child(f"{path}.resources", name), f"is ignored: {error}")
    if "labels" in params:
        yield Problem(f"{path}.rayStartParams.labels", "is not supported; use the group's field labels")
    yield from start_param_problems(params, f"{path}.rayStartParams")
    for key, value in group.labels.items():
        where = child(f"{path}.labels", key)
        if wrong := names.qualified_name(key):
            yield Problem(where, wrong)
        if wrong := names.label_value(value):
            yield Problem(where, wrong)


def _autoscaler_problems(group: WorkerGroupSpec, path: str, subject: Subject) -> Iterator[Problem]:
    if group.idle_timeout_seconds is not None:
        where = f"{path}.idleTimeoutSeconds"
        if group.idle_timeout_seconds < 0:
            yield Problem(where, f"must not be negative, got {group.idle_timeout_seconds}")
        elif not subject.asks_for_autoscaler_v2:
            yield Problem(where, _NEEDS_V2)
    if group.priority:
        where = f"{path}.priority"
        text = subject.spec.ray_version or ""
        version = versions.RayVersion.parse(text)
        if version is None:
            yield Problem(where, f"needs rayVersion {versions.GROUP_PRIORITY} or later, but {_version_of(text)}")
        elif version < versions.GROUP_PRIORITY:
            yield Problem(where, f"needs rayVersion {versions.GROUP_PRIORITY} or later, got {shown(text)}")
        if not subject.asks_for_autoscaler_v2:
            yield Problem(where, _NEEDS_V2)


_NEEDS_V2 = "needs autoscaler v2: set autoscalerOptions.version to v2"


def _version_of(text: str) -> str:
    return f"rayVersion {shown(text)} is not a version" if text else "rayVersion is not set"
