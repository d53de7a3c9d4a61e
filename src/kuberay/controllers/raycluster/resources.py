"""What a cluster asks for in total, as its status shows it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kuberay.api import templates
from kuberay.build.start_command import is_gpu
from kuberay.kube import quantity
from kuberay.kube.quantity import ZERO, Quantity

if TYPE_CHECKING:
    from kuberay.api.v1 import RayClusterSpec

TPU = "google.com/tpu"


def desired_resources(spec: RayClusterSpec) -> dict[str, Quantity]:
    """The sum over the head and all groups that are not suspended, by `replicas` as it is written.

    Not by the number of Pods that follows from the bounds: users compare it with what they wrote, and KubeRay does so.
    """
    total: dict[str, Quantity] = {}
    _add(total, spec.head_group_spec.template, 1)
    for group in spec.worker_group_specs:
        if not group.suspend:
            hosts = 1 if group.num_of_hosts is None else group.num_of_hosts
            _add(total, group.template, hosts * (group.replicas or 0))
    return total


def gpus(total: dict[str, Quantity]) -> Quantity:
    """All that are GPUs by name."""
    return sum((amount for name, amount in total.items() if is_gpu(name)), ZERO)


def _add(total: dict[str, Quantity], template: dict[str, Any], count: int) -> None:
    """Each container's request, or its limit where it has none; init containers run before and count not."""
    for container in templates.containers(template):
        resources = templates.mapping(container, "resources")
        amounts = {**templates.mapping(resources, "limits"), **templates.mapping(resources, "requests")}
        for name, text in amounts.items():
            try:
                amount = quantity.parse(text)
            except ValueError:
                continue  # the API server will say so when the Pod is made
            total[name] = total.get(name, ZERO) + amount * count
