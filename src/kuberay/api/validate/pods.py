"""What an API server would refuse when Pods are made from a template, told before they are.

The operator does not stop for these: a Pod that cannot be made is reported when it is made, and other groups go on.
A user who checks a manifest wants to know now.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kuberay.api import names, templates
from kuberay.api.problems import Problem, child
from kuberay.kube import quantity

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kuberay.api.v1 import RayClusterSpec


def cluster_pod_problems(spec: RayClusterSpec, path: str) -> Iterator[Problem]:
    """What would be refused of a cluster's Pods."""
    yield from pod_problems(spec.head_group_spec.template, f"{path}.headGroupSpec.template")
    for index, group in enumerate(spec.worker_group_specs):
        yield from pod_problems(group.template, f"{path}.workerGroupSpecs[{index}].template")


def pod_problems(template: dict[str, Any], path: str) -> Iterator[Problem]:
    """What would be refused of Pods made from a template: labels, and amounts of resources."""
    metadata = templates.mapping(template, "metadata")
    yield from label_problems(templates.mapping(metadata, "labels"), f"{path}.metadata.labels")
    pod = templates.mapping(template, "spec")
    for field in ("initContainers", "containers"):
        for index, container in enumerate(templates.objects(pod, field)):
            yield from _resource_problems(container, f"{path}.spec.{field}[{index}].resources")


def label_problems(labels: Mapping[str, Any], path: str) -> Iterator[Problem]:
    """Keys and values that cannot be labels."""
    for key, value in labels.items():
        wrong = names.qualified_name(key) or (names.label_value(value) if isinstance(value, str) else None)
        if wrong:
            yield Problem(child(path, key), wrong)


def annotation_problems(annotations: Mapping[str, str], path: str) -> Iterator[Problem]:
    """Keys that cannot be those of annotations, and more text than an object may carry."""
    for key in annotations:
        if wrong := names.qualified_name(key.lower()):
            yield Problem(child(path, key), wrong)
    size = sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items())
    if size > 256 * 1024:
        yield Problem(path, f"hold {size} bytes, at most {256 * 1024} are allowed")


def _resource_problems(container: dict[str, Any], path: str) -> Iterator[Problem]:
    resources = templates.mapping(container, "resources")
    limits = templates.mapping(resources, "limits")
    amounts: dict[tuple[str, str], quantity.Quantity] = {}
    for field, given in (("limits", limits), ("requests", templates.mapping(resources, "requests"))):
        for name, value in given.items():
            where = child(f"{path}.{field}", name)
            try:
                amount = quantity.parse(value)
            except ValueError as error:
                yield Problem(where, str(error))
                continue
            if amount.nano < 0:
                yield Problem(where, f"must not be negative, got {value}")
            amounts[field, name] = amount
            limit = amounts.get(("limits", name))
            if field == "requests" and limit is not None and amount > limit:
                yield Problem(where, f"{value} is more than the limit of {limits[name]}")
