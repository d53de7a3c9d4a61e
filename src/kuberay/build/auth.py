"""Who may talk to a Ray cluster: the token its processes share, or Kubernetes' own word for who asks."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

from kuberay.build import container, labels, names
from kuberay.build.ownership import owner_reference

if TYPE_CHECKING:
    from kuberay.api.v1 import RayCluster

Json = dict[str, Any]

TOKEN_KEY = "auth_token"
TOKEN_BYTES = 32
"""How many random bytes make a token."""

_VOLUME = "ray-token"
_MOUNT_PATH = "/var/run/secrets/ray.io/serviceaccount"


def is_on(cluster: RayCluster) -> bool:
    """Whether clients of the cluster have to show a token."""
    return cluster.spec.auth_options is not None and cluster.spec.auth_options.is_token


def needs_secret(cluster: RayCluster) -> bool:
    """Whether the token is ours to make: no Secret of the user's is named, and Kubernetes does not decide."""
    chosen = cluster.spec.auth_options
    return is_on(cluster) and chosen is not None and not chosen.secret_name and not chosen.enable_k8s_token_auth


def secret(cluster: RayCluster, random: bytes) -> Json:
    """The Secret that holds the cluster's token.

    :param random: unpredictable, at least `TOKEN_BYTES` of them.
    :raises ValueError: too little of it to be safe.
    """
    if len(random) < TOKEN_BYTES:
        raise ValueError(f"a token needs {TOKEN_BYTES} random bytes, got {len(random)}")
    token = base64.b64encode(random[:TOKEN_BYTES]).decode()
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": names.auth_secret(cluster),
            "namespace": cluster.namespace,
            "labels": {labels.CLUSTER: cluster.name},
            "ownerReferences": [owner_reference(cluster)],
        },
        "type": "Opaque",
        "stringData": {TOKEN_KEY: token},
    }


def authenticate(cluster: RayCluster, target: Json) -> None:
    """Let a container take part in an authenticated cluster. What its user set stays."""
    if not is_on(cluster):
        return
    container.default_env(target, "RAY_AUTH_MODE", "token")
    chosen = cluster.spec.auth_options
    if chosen is not None and chosen.enable_k8s_token_auth:
        container.default_env(target, "RAY_ENABLE_K8S_TOKEN_AUTH", "true")
        mounts = target.setdefault("volumeMounts", [])
        if not any(mount.get("name") == _VOLUME for mount in mounts):
            mounts.append({"name": _VOLUME, "mountPath": _MOUNT_PATH, "readOnly": True})
        return
    if not any(variable.get("name") == "RAY_AUTH_TOKEN" for variable in target.get("env", ())):
        name = (chosen.secret_name if chosen is not None else None) or names.auth_secret(cluster)
        source = {"secretKeyRef": {"name": name, "key": TOKEN_KEY}}
        target.setdefault("env", []).append({"name": "RAY_AUTH_TOKEN", "valueFrom": source})


def authenticate_pod(cluster: RayCluster, spec: Json) -> None:
    """Authenticate the containers of ours in a Pod: Ray, and the init container that waits for its head."""
    if not is_on(cluster):
        return
    authenticate(cluster, spec["containers"][0])
    for init in spec.get("initContainers", ()):
        if init.get("name") == names.WAIT_GCS_READY:
            authenticate(cluster, init)
    chosen = cluster.spec.auth_options
    if chosen is None or not chosen.enable_k8s_token_auth:
        return
    volumes = spec.setdefault("volumes", [])
    if not any(volume.get("name") == _VOLUME for volume in volumes):
        token = {"serviceAccountToken": {"path": "token"}}
        volumes.append({"name": _VOLUME, "projected": {"sources": [token]}})
