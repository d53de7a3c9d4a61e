"""Ray's autoscaler: a second container of the head Pod, and what it may do in its namespace.

It sets the replicas of worker groups and names the Pods that shall go, by patching the RayCluster. So it needs an
account of its own, with just these rights.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kuberay.api.templates import mapping, text
from kuberay.build import auth, container, labels, names
from kuberay.build.ownership import owner_reference

if TYPE_CHECKING:
    from kuberay.api.v1 import RayCluster
    from kuberay.build.options import BuildOptions

Json = dict[str, Any]

START = "ray kuberay-autoscaler --cluster-name $(RAY_CLUSTER_NAME) --cluster-namespace $(RAY_CLUSTER_NAMESPACE)"
V2_VARIABLE = "RAY_enable_autoscaler_v2"

_RESOURCES = {"cpu": "500m", "memory": "512Mi"}
_RBAC = "rbac.authorization.k8s.io"


def add_to_head(cluster: RayCluster, spec: Json, options: BuildOptions) -> None:
    """Give a head Pod the autoscaler's container and account, if the cluster scales itself."""
    if not cluster.spec.is_autoscaling:
        return
    ray = spec["containers"][0]
    spec["serviceAccountName"] = account_name(cluster)
    spec["containers"].append(_sidecar(cluster, ray, options))
    version = cluster.spec.autoscaler_version
    if version in ("v1", "v2"):
        container.append_env(ray, V2_VARIABLE, "true" if version == "v2" else "false")
    keep_from_restarting(cluster, spec)


def keep_from_restarting(cluster: RayCluster, spec: Json) -> None:
    """Forbid restarts where the autoscaler's second version is at work.

    A restarted Ray process is a new Ray node in an old Pod, which it cannot tell apart.
    """
    if cluster.spec.is_autoscaling and cluster.spec.autoscaler_version == "v2":
        spec["restartPolicy"] = "Never"


def given_account(cluster: RayCluster) -> str:
    """The account that the user chose for the head, if any. It is the user's to make."""
    return text(mapping(cluster.spec.head_group_spec.template, "spec"), "serviceAccountName")


def account_name(cluster: RayCluster) -> str:
    """The account under which the autoscaler runs."""
    return names.check_name(given_account(cluster) or cluster.name)


def service_account(cluster: RayCluster) -> Json:
    """The account, when the user did not choose one."""
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": _metadata(cluster, account_name(cluster))}


def role(cluster: RayCluster) -> Json:
    """What the autoscaler may do. It reads Pods to know its nodes, and may resize them in place."""
    return {
        "apiVersion": f"{_RBAC}/v1",
        "kind": "Role",
        "metadata": _metadata(cluster, names.role(cluster)),
        "rules": [
            {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch", "patch"]},
            {"apiGroups": [""], "resources": ["pods/resize"], "verbs": ["patch"]},
            {"apiGroups": ["ray.io"], "resources": ["rayclusters"], "verbs": ["get", "patch"]},
        ],
    }


def role_binding(cluster: RayCluster) -> Json:
    """Gives the account its rights."""
    account = {"kind": "ServiceAccount", "name": account_name(cluster), "namespace": cluster.namespace}
    return {
        "apiVersion": f"{_RBAC}/v1",
        "kind": "RoleBinding",
        "metadata": _metadata(cluster, names.role(cluster)),
        "subjects": [account],
        "roleRef": {"apiGroup": _RBAC, "kind": "Role", "name": names.role(cluster)},
    }


def _metadata(cluster: RayCluster, name: str) -> Json:
    return {
        "name": name,
        "namespace": cluster.namespace,
        "labels": {
            labels.CLUSTER: cluster.name,
            labels.APP_NAME: labels.APPLICATION,
            labels.CREATED_BY: labels.COMPONENT,
        },
        "ownerReferences": [owner_reference(cluster)],
    }


def _sidecar(cluster: RayCluster, ray: Json, options: BuildOptions) -> Json:
    """The container: as KubeRay makes it, changed by the cluster's `autoscalerOptions`."""
    result: Json = {
        "name": names.AUTOSCALER,
        "imagePullPolicy": "IfNotPresent",
        "command": container.bash(options),
        "args": [START],
        "resources": {"limits": dict(_RESOURCES), "requests": dict(_RESOURCES)},
    }
    if "image" in ray:
        result["image"] = ray["image"]
    # A variable can refer to those before it, so the names in the command come first.
    container.append_field_env(result, "RAY_CLUSTER_NAME", f"metadata.labels['{labels.CLUSTER}']")
    container.append_field_env(result, "RAY_CLUSTER_NAMESPACE", "metadata.namespace")
    container.append_field_env(result, "RAY_HEAD_POD_NAME", "metadata.name")
    container.append_env(result, "KUBERAY_CRD_VER", "v1")
    container.append_env(result, "KUBERAY_GEN_AUTOSCALER_START_CMD", START)
    auth.authenticate(cluster, result)
    chosen = cluster.spec.autoscaler_options
    if chosen is None:
        return result
    replaced = {
        "image": chosen.image,
        "imagePullPolicy": chosen.image_pull_policy,
        "command": list(chosen.command),
        "args": list(chosen.args),
        "resources": chosen.resources,
        "securityContext": chosen.security_context,
    }
    said_by_being_there = ("resources", "securityContext")
    result |= {
        key: value for key, value in replaced.items() if value or (key in said_by_being_there and value is not None)
    }
    for key, entries in (("env", chosen.env), ("envFrom", chosen.env_from), ("volumeMounts", chosen.volume_mounts)):
        if entries:
            result[key] = [*result.get(key, ()), *entries]
    return result
