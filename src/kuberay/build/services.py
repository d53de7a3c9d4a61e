"""The Service through which workers and users reach the head."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kuberay.api import templates
from kuberay.build import labels, names
from kuberay.build.pod import owner_reference

if TYPE_CHECKING:
    from kuberay.api.v1 import RayCluster
    from kuberay.build.options import BuildOptions

Json = dict[str, Any]


def head(cluster: RayCluster, options: BuildOptions) -> Json:
    """The head Service: generated, or the user's `headService` completed.

    A generated one is headless on purpose: there is at most one head, and its address must resolve while its health
    checks still fail, or workers could not join a starting head.
    """
    group = cluster.spec.head_group_spec
    given = group.head_service or {}
    given_metadata: Json = given.get("metadata") or {}
    spec: Json = dict(given.get("spec") or {})
    own_labels = labels.head_service_labels(cluster)

    spec["selector"] = labels.head_service_selector(cluster)
    spec["ports"] = [*(spec.get("ports") or ()), *_ports(cluster)]
    if not spec.get("type") and group.service_type:
        spec["type"] = group.service_type
    if group.head_service is None and not options.head_cluster_ip_service and _is_cluster_ip(group.service_type):
        spec["clusterIP"] = "None"
        spec["publishNotReadyAddresses"] = True

    metadata: Json = {
        **given_metadata,
        "name": names.head_service(cluster),
        "namespace": cluster.namespace,
        "labels": {**(given_metadata.get("labels") or {}), **own_labels},
        "ownerReferences": [owner_reference(cluster)],
    }
    annotations = {**(given_metadata.get("annotations") or {}), **cluster.spec.head_service_annotations}
    if annotations:
        metadata["annotations"] = annotations
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}


def _is_cluster_ip(service_type: str | None) -> bool:
    return not service_type or service_type == "ClusterIP"


def _ports(cluster: RayCluster) -> list[Json]:
    """What the head's Ray container declares, or Ray's usual ports; metrics in any case, for Prometheus."""
    declared = {
        templates.text(port, "name") or f"{port['containerPort']}-port": port["containerPort"]
        for port in templates.objects(templates.ray_container(cluster.spec.head_group_spec.template), "ports")
    }
    ports = declared or dict(names.DEFAULT_PORTS)
    ports.setdefault("metrics", names.DEFAULT_PORTS["metrics"])
    return [{"name": name, "port": ports[name], "appProtocol": "tcp"} for name in sorted(ports)]
