"""GCS fault tolerance in Pods: where the head keeps Ray's cluster state, and how long workers wait for a new head.

The state lives in Redis under a prefix of the cluster's own, or in a RocksDB on a volume of the head. A head that is
made again reads it and takes over; workers reconnect through the head Service meanwhile.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kuberay.api import templates
from kuberay.api.validate.fault_tolerance import ANNOTATION_STORAGE_NAMESPACE, GCS_MOUNT_PATH, GCS_VOLUME
from kuberay.build import container, names
from kuberay.build.labels import CLUSTER

if TYPE_CHECKING:
    from kuberay.api.v1 import RayCluster
    from kuberay.api.v1.options import GcsStorage, RedisCredential

Json = dict[str, Any]

DEFAULT_SIZE = "1Gi"
DEFAULT_ACCESS_MODES = ("ReadWriteOnce",)

_NAMESPACE_VARIABLE = "RAY_external_storage_namespace"
# A new head takes about two minutes to come up; Ray's own patience is one.
_RECONNECT_SECONDS = "600"


def is_embedded(cluster: RayCluster) -> bool:
    """Whether the state lives on a volume of the head."""
    options = cluster.spec.gcs_fault_tolerance_options
    return options is not None and options.is_embedded


def is_in_redis(cluster: RayCluster) -> bool:
    """Whether the state lives in Redis."""
    return cluster.is_fault_tolerant and not is_embedded(cluster)


def storage_namespace(cluster: RayCluster) -> str:
    """The prefix of the cluster's keys in Redis. Unless the user sets one, no two clusters ever share it."""
    options = cluster.spec.gcs_fault_tolerance_options
    if options is not None and options.external_storage_namespace:
        return options.external_storage_namespace
    return cluster.metadata.annotations.get(ANNOTATION_STORAGE_NAMESPACE, cluster.metadata.uid or "")


def used_namespace(cluster: RayCluster) -> str:
    """The same as people should be told of it: a variable of the user's own is what counts for Ray."""
    ray = templates.ray_container(cluster.spec.head_group_spec.template)
    for variable in templates.objects(ray, "env"):
        if variable.get("name") == _NAMESPACE_VARIABLE:
            return templates.text(variable, "value") or f"that the head's variable {_NAMESPACE_VARIABLE} refers to"
    return storage_namespace(cluster)


def wire_head(
    cluster: RayCluster, pod_spec: Json, ray: Json, annotations: dict[str, str], params: dict[str, str]
) -> dict[str, str]:
    """Tell the head's Ray container where the state lives; returns the parameters of `ray start` with what it adds."""
    if is_embedded(cluster):
        _wire_volume(cluster, pod_spec, ray)
    elif cluster.is_fault_tolerant:
        return _wire_redis(cluster, ray, annotations, params)
    return params


def wire_worker(cluster: RayCluster, ray: Json) -> None:
    """Let a worker wait for a new head longer than Ray would by itself."""
    if cluster.is_fault_tolerant:
        container.default_env(ray, "RAY_gcs_rpc_server_reconnect_timeout_s", _RECONNECT_SECONDS)


def claim(cluster: RayCluster) -> Json:
    """The volume claim that the operator makes for an embedded store. Its owner is set apart: see `Retain`."""
    storage = gcs_storage(cluster)
    spec: Json = {
        "accessModes": access_modes(storage),
        "resources": {"requests": {"storage": size(storage)}},
    }
    if storage is not None and storage.storage_class_name is not None:
        spec["storageClassName"] = storage.storage_class_name
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": names.gcs_claim(cluster),
            "namespace": cluster.namespace,
            "labels": {CLUSTER: cluster.name},
        },
        "spec": spec,
    }


def claim_name(cluster: RayCluster) -> str | None:
    """The name of the claim that the head mounts, if it keeps its state on a volume: the user's, or ours."""
    if not is_embedded(cluster):
        return None
    storage = gcs_storage(cluster)
    return (storage.claim_name if storage is not None else None) or names.gcs_claim(cluster)


def gcs_storage(cluster: RayCluster) -> GcsStorage | None:
    """What the user says about the volume of an embedded store."""
    options = cluster.spec.gcs_fault_tolerance_options
    return options.storage if options is not None else None


def size(storage: GcsStorage | None) -> str | int:
    """How large the claim shall be."""
    return DEFAULT_SIZE if storage is None or storage.size is None else storage.size


def access_modes(storage: GcsStorage | None) -> list[str]:
    """How the claim shall be mounted."""
    return list(storage.access_modes if storage is not None and storage.access_modes else DEFAULT_ACCESS_MODES)


def _wire_redis(cluster: RayCluster, ray: Json, annotations: dict[str, str], params: dict[str, str]) -> dict[str, str]:
    namespace = storage_namespace(cluster)
    annotations[ANNOTATION_STORAGE_NAMESPACE] = namespace
    container.default_env(ray, _NAMESPACE_VARIABLE, namespace)
    options = cluster.spec.gcs_fault_tolerance_options
    if options is None:
        # The cleanup Job has to log in too, and reads no parameters of `ray start`.
        if "redis-password" in params:
            container.default_env(ray, "REDIS_PASSWORD", params["redis-password"])
        return params
    container.append_env(ray, "RAY_REDIS_ADDRESS", options.redis_address or "")
    for parameter, variable, credential in (
        ("redis-username", "REDIS_USERNAME", options.redis_username),
        ("redis-password", "REDIS_PASSWORD", options.redis_password),
    ):
        if credential is not None:
            _append_credential(ray, variable, credential)
            params = {**params, parameter: f"${variable}"}
    return params


def _append_credential(ray: Json, variable: str, credential: RedisCredential) -> None:
    if credential.value_from is not None:
        ray.setdefault("env", []).append({"name": variable, "valueFrom": credential.value_from})
    else:
        container.append_env(ray, variable, credential.value or "")


def _wire_volume(cluster: RayCluster, pod_spec: Json, ray: Json) -> None:
    container.default_env(ray, "RAY_gcs_storage", "rocksdb")
    container.default_env(ray, "RAY_gcs_storage_path", GCS_MOUNT_PATH)
    storage = gcs_storage(cluster)
    mount = {"name": GCS_VOLUME, "mountPath": GCS_MOUNT_PATH}
    if storage is not None and storage.sub_path:
        mount["subPath"] = storage.sub_path
    ray["volumeMounts"] = [*templates.objects(ray, "volumeMounts"), mount]
    volume = {"name": GCS_VOLUME, "persistentVolumeClaim": {"claimName": claim_name(cluster)}}
    pod_spec["volumes"] = [*templates.objects(pod_spec, "volumes"), volume]
