"""Clusters to build from: small, and changed by keyword."""

from __future__ import annotations

from typing import Any

from kuberay.api.v1 import RayCluster

Json = dict[str, Any]


def cluster(
    *,
    name: str = "rc",
    head: Json | None = None,
    groups: list[Json] | None = None,
    metadata: Json | None = None,
    **spec: Any,
) -> RayCluster:
    """A RayCluster `rc` in `default` with uid `u-1`, one container per template."""
    return RayCluster.from_dict(
        {
            "apiVersion": "ray.io/v1",
            "kind": "RayCluster",
            "metadata": {"name": name, "namespace": "default", "uid": "u-1", **(metadata or {})},
            "spec": {
                "rayVersion": "2.52.0",
                "headGroupSpec": {"template": template("ray-head"), **(head or {})},
                "workerGroupSpecs": groups if groups is not None else [group()],
                **spec,
            },
        }
    )


def group(name: str = "wg", **fields: Any) -> Json:
    """A worker group of one replica."""
    return {
        "groupName": name,
        "replicas": 1,
        "minReplicas": 0,
        "maxReplicas": 10,
        "template": template("ray-worker"),
        **fields,
    }


def template(name: str, *, metadata: Json | None = None, pod: Json | None = None, **container: Any) -> Json:
    """A Pod template with one container."""
    spec = {"containers": [{"name": name, "image": "rayproject/ray:2.52.0", **container}], **(pod or {})}
    return {"metadata": metadata, "spec": spec} if metadata else {"spec": spec}


def limits(**amounts: str) -> Json:
    """Container resources with limits only; underscores stand for what Python names cannot hold."""
    return {"limits": {_resource(name): amount for name, amount in amounts.items()}}


def requests(**amounts: str) -> Json:
    return {"requests": {_resource(name): amount for name, amount in amounts.items()}}


def _resource(name: str) -> str:
    return _RESOURCES.get(name, name)


_RESOURCES = {
    "gpu": "nvidia.com/gpu",
    "amd_gpu": "amd.com/gpu",
    "tpu": "google.com/tpu",
    "neuroncore": "aws.amazon.com/neuroncore",
    "mig": "nvidia.com/mig-2g.32gb",
}
