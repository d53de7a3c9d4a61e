"""How the dashboard is reached from outside: an Ingress, or a Route where OpenShift is at work."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kuberay.api import templates
from kuberay.build import labels, names
from kuberay.build.ownership import owner_reference

if TYPE_CHECKING:
    from kuberay.api.v1 import RayCluster

Json = dict[str, Any]


def ingress(cluster: RayCluster) -> Json:
    """The Ingress: one rule, one path, as the cluster's `ingressOptions` say.

    Annotations of the cluster are its own too: controllers of Ingresses are configured by them.
    """
    options = cluster.spec.head_group_spec.ingress_options
    backend = {"service": {"name": names.head_service(cluster), "port": {"number": _dashboard_port(cluster)}}}
    path = {
        "path": (options.path if options else None) or "/",
        "pathType": (options.path_type if options else None) or "Prefix",
        "backend": backend,
    }
    rule: Json = {"http": {"paths": [path]}}
    if options is not None and options.host:
        rule["host"] = options.host
    spec: Json = {"rules": [rule]}
    if labels.INGRESS_CLASS in cluster.metadata.annotations:
        spec["ingressClassName"] = cluster.metadata.annotations[labels.INGRESS_CLASS]
    if options is not None and options.tls:
        spec["tls"] = options.tls
    annotations = {key: value for key, value in cluster.metadata.annotations.items() if key != labels.INGRESS_CLASS}
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "Ingress",
        "metadata": _metadata(cluster, names.ingress(cluster), annotations),
        "spec": spec,
    }


def route(cluster: RayCluster) -> Json:
    """The Route, with a host name that OpenShift makes up."""
    return {
        "apiVersion": "route.openshift.io/v1",
        "kind": "Route",
        "metadata": _metadata(cluster, names.route(cluster), dict(cluster.metadata.annotations)),
        "spec": {
            "to": {"kind": "Service", "name": names.head_service(cluster), "weight": 100},
            "port": {"targetPort": _dashboard_port(cluster)},
            "wildcardPolicy": "None",
        },
    }


def _metadata(cluster: RayCluster, name: str, annotations: dict[str, str]) -> Json:
    metadata: Json = {
        "name": name,
        "namespace": cluster.namespace,
        "labels": {
            labels.CLUSTER: cluster.name,
            labels.IDENTIFIER: names.identifier(cluster, names.HEAD),
            labels.APP_NAME: labels.APPLICATION,
            labels.CREATED_BY: labels.COMPONENT,
        },
        "ownerReferences": [owner_reference(cluster)],
    }
    if annotations:
        metadata["annotations"] = annotations
    return metadata


def _dashboard_port(cluster: RayCluster) -> int:
    ports = templates.objects(templates.ray_container(cluster.spec.head_group_spec.template), "ports")
    declared = (port["containerPort"] for port in ports if port.get("name") == "dashboard")
    return next(declared, names.DEFAULT_PORTS["dashboard"])
