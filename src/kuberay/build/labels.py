"""Every label and annotation key we read or write, and the labels of Pods and Services."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kuberay.api.shapes import POD_TEMPLATE, shape
from kuberay.api.templates import mapping
from kuberay.build import names

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kuberay.api.v1 import RayCluster

CLUSTER = "ray.io/cluster"
NODE_TYPE = "ray.io/node-type"
GROUP = "ray.io/group"
IS_RAY_NODE = "ray.io/is-ray-node"
IDENTIFIER = "ray.io/identifier"
APP_NAME = "app.kubernetes.io/name"
CREATED_BY = "app.kubernetes.io/created-by"
REPLICA_INDEX = "ray.io/worker-group-replica-index"
REPLICA_NAME = "ray.io/worker-group-replica-name"
HOST_INDEX = "ray.io/replica-host-index"
SERVE = "ray.io/serve"
ORIGINATED_FROM_CRD = "ray.io/originated-from-crd"
ORIGINATED_FROM_CR_NAME = "ray.io/originated-from-cr-name"
HEADLESS_SERVICE = "ray.io/headless-worker-svc"

FT_ENABLED = "ray.io/ft-enabled"
ENABLE_SERVE_SERVICE = "ray.io/enable-serve-service"
INGRESS_CLASS = "kubernetes.io/ingress.class"
OVERWRITE_CONTAINER_CMD = "ray.io/overwrite-container-cmd"
RECREATE_HASH = "ray.io/upgrade-strategy-recreate-hash"
KUBERAY_VERSION = "ray.io/kuberay-version"
MADE_FROM = "ray.io/made-from"
"""On Pods and Services: checksums of the fields that they were made from, see `kuberay.build.origin`."""
DISABLE_PROVISIONED_HEAD_RESTART = "ray.io/disable-provisioned-head-restart"

APPLICATION = "kuberay"
COMPONENT = "kuberay-operator"

_PROTECTED = frozenset({CLUSTER, NODE_TYPE, GROUP})


def pod_labels(
    cluster: RayCluster, node_type: str, group: str, template: Mapping[str, str], own: Mapping[str, str]
) -> dict[str, str]:
    """The labels of a Ray Pod: ours, overlaid by the template's, overlaid by the group's `labels`.

    Three labels say where a Pod belongs; a user's value for one of them is dropped, or the Pod would be lost to its
    cluster.
    """
    system = {
        IS_RAY_NODE: "yes",
        CLUSTER: cluster.name,
        NODE_TYPE: node_type,
        GROUP: group,
        IDENTIFIER: names.identifier(cluster, node_type),
        APP_NAME: APPLICATION,
        CREATED_BY: COMPONENT,
    }
    user = {key: value for key, value in {**template, **own}.items() if key not in _PROTECTED}
    return system | user


def head_service_labels(cluster: RayCluster) -> dict[str, str]:
    """The labels by which the head Service is found."""
    return {
        CLUSTER: cluster.name,
        NODE_TYPE: names.HEAD,
        IDENTIFIER: names.identifier(cluster, names.HEAD),
        APP_NAME: _head_template_labels(cluster).get(APP_NAME, APPLICATION),
        CREATED_BY: COMPONENT,
    }


def head_service_selector(cluster: RayCluster) -> dict[str, str]:
    """The same labels, with the values that the head Pod has: a template may rename them, and must still be found."""
    group = cluster.spec.head_group_spec
    pod = pod_labels(cluster, names.HEAD, names.HEAD_GROUP, _head_template_labels(cluster), group.labels)
    return {key: pod[key] for key in head_service_labels(cluster)}


def _head_template_labels(cluster: RayCluster) -> dict[str, str]:
    template = shape(POD_TEMPLATE, cluster.spec.head_group_spec.template).completed
    return mapping(mapping(template, "metadata"), "labels")
