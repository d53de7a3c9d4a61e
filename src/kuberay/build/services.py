"""The Services of a cluster: to its head, to the hosts of its workers, and to what Serve serves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kuberay.api import templates
from kuberay.api.shapes import SERVICE, shape
from kuberay.build import labels, names, origin
from kuberay.build.ownership import owner_reference

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
    given = shape(SERVICE, group.head_service or {}).completed
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
    metadata["annotations"] = {
        **(given_metadata.get("annotations") or {}),
        **cluster.spec.head_service_annotations,
        labels.MADE_FROM: origin.of_head_service(cluster.spec),
    }
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}


def headless(cluster: RayCluster) -> Json:
    """A Service without ports, whose DNS name leads to every worker: hosts of one replica find each other by it."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": names.headless_service(cluster),
            "namespace": cluster.namespace,
            "labels": {labels.HEADLESS_SERVICE: cluster.name},
            "ownerReferences": [owner_reference(cluster)],
        },
        "spec": {
            "type": "ClusterIP",
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": {labels.CLUSTER: cluster.name, labels.NODE_TYPE: names.WORKER},
        },
    }


def wants_serve(cluster: RayCluster) -> bool:
    """Whether the user asks for a Service for Serve."""
    return cluster.metadata.annotations.get(labels.ENABLE_SERVE_SERVICE) == "true"


def wants_headless(cluster: RayCluster) -> bool:
    """Whether the hosts of some replica have to find each other."""
    return any((group.num_of_hosts or 1) > 1 for group in cluster.spec.worker_group_specs)


def serve_ports(cluster: RayCluster) -> dict[str, int]:
    """The head's ports that are Serve's, by name."""
    return {
        name: port for name, port in declared_ports(cluster).items() if name == "serve" or name.startswith("serve-")
    }


def serve(cluster: RayCluster) -> Json:
    """The Service for what Serve serves: every Pod of the cluster runs a proxy for it."""
    spec: Json = {
        "selector": {labels.CLUSTER: cluster.name},
        "ports": [{"name": name, "port": port} for name, port in sorted(serve_ports(cluster).items())],
    }
    if cluster.spec.head_group_spec.service_type:
        spec["type"] = cluster.spec.head_group_spec.service_type
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": names.serve_service(cluster),
            "namespace": cluster.namespace,
            "labels": {
                labels.ORIGINATED_FROM_CR_NAME: cluster.name,
                labels.ORIGINATED_FROM_CRD: "RayCluster",
                labels.SERVE: f"{cluster.name}-serve",
            },
            "annotations": {labels.MADE_FROM: origin.of_serve_service(cluster.spec)},
            "ownerReferences": [owner_reference(cluster)],
        },
        "spec": spec,
    }


def declared_ports(cluster: RayCluster) -> dict[str, int]:
    """What the head's Ray container declares, or Ray's usual ports; metrics in any case, for Prometheus."""
    declared = {
        templates.text(port, "name") or f"{port['containerPort']}-port": port["containerPort"]
        for port in templates.objects(templates.ray_container(cluster.spec.head_group_spec.template), "ports")
    }
    ports = declared or dict(names.DEFAULT_PORTS)
    ports.setdefault("metrics", names.DEFAULT_PORTS["metrics"])
    return ports


def _is_cluster_ip(service_type: str | None) -> bool:
    return not service_type or service_type == "ClusterIP"


def _ports(cluster: RayCluster) -> list[Json]:
    return [
        {"name": name, "port": port, "appProtocol": "tcp"} for name, port in sorted(declared_ports(cluster).items())
    ]
