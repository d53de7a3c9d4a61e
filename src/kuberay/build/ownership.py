"""What ties objects to their cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kuberay.api.v1 import RayCluster


def owner_reference(cluster: RayCluster) -> dict[str, Any]:
    """The mark of an object that belongs to a cluster: found by it, and removed with it."""
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayCluster",
        "name": cluster.name,
        "uid": cluster.metadata.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
