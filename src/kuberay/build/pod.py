"""Head and worker Pods: the user's template, and what Ray needs around it.

A template is rendered once; its Pods differ only in name and replica index, so a group of a thousand costs one
rendering and a thousand small pieces of metadata. The order of list entries is KubeRay's throughout.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson

from kuberay.api.templates import mapping, text
from kuberay.build import (
    auth,
    autoscaler,
    container,
    fault_tolerance,
    labels,
    names,
    origin,
    probes,
    start_command,
    wait_gcs,
)
from kuberay.build.ownership import owner_reference as owner_reference
from kuberay.build.revision import revision
from kuberay.kube import quantity

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kuberay.api.v1 import HeadGroupSpec, RayCluster, WorkerGroupSpec
    from kuberay.build.options import BuildOptions

Json = dict[str, Any]

CREATORS = ("RayCluster", "RayJob", "RayService")
DEFAULT_GCS_PORT = str(names.DEFAULT_PORTS["gcs-server"])


@dataclass(frozen=True, slots=True)
class PodTemplate:
    """A Pod but for its name and index, with the large part already in bytes."""

    metadata: Mapping[str, Any]
    spec: bytes

    def pod(
        self,
        name: str | None = None,
        *,
        replica_index: int | None = None,
        replica_name: str | None = None,
        host_index: int | None = None,
    ) -> bytes:
        """One Pod of it as JSON. Without a name it must have one already.

        :param replica_name: of the replica that the Pod is one host of, when a replica has several.
        """
        metadata: Json = dict(self.metadata)
        if name is not None:
            metadata["name"] = name
        place = {
            labels.REPLICA_INDEX: replica_index,
            labels.REPLICA_NAME: replica_name,
            labels.HOST_INDEX: host_index,
        }
        given = {key: str(value) for key, value in place.items() if value is not None}
        if given:
            metadata["labels"] = {**metadata["labels"], **given}
        return b'{"apiVersion":"v1","kind":"Pod","metadata":%b,"spec":%b}' % (orjson.dumps(metadata), self.spec)


def head(cluster: RayCluster, options: BuildOptions, *, made_from: str | None = None) -> PodTemplate:
    """The head Pod. Its name is fixed, unless options say that names are generated.

    :param made_from: what `origin.of_head` tells, where that is known.
    """
    group = cluster.spec.head_group_spec
    template, metadata = _template(cluster, group, names.HEAD, names.HEAD_GROUP, options)
    name = head_name(cluster, options)
    if name is not None:
        metadata["name"] = name
    if not options.deterministic_head_name:
        metadata["generateName"] = names.head_generate_name(cluster)
    annotations = metadata["annotations"]
    annotations[labels.FT_ENABLED] = "true" if cluster.is_fault_tolerant else "false"
    annotations[labels.RECREATE_HASH] = revision(cluster.spec)
    annotations[labels.KUBERAY_VERSION] = options.version
    annotations[labels.MADE_FROM] = made_from or origin.of_head(cluster.spec)
    params = _start_params(cluster, group, names.HEAD, options)
    spec = template["spec"]
    if cluster.spec.is_autoscaling:
        params["no-monitor"] = "true"  # or Ray would start an autoscaler of its own beside the sidecar
    autoscaler.add_to_head(cluster, spec, options)
    params = fault_tolerance.wire_head(cluster, spec, spec["containers"][0], annotations, params)
    auth.authenticate_pod(cluster, spec)
    spec["containers"] += copied(options.head_sidecars)
    return _finish(cluster, names.HEAD, params, template, metadata, options)


def head_name(cluster: RayCluster, options: BuildOptions) -> str | None:
    """The name that the head must have: the user's, or else ours; `None` when it is generated."""
    given = text(mapping(cluster.spec.head_group_spec.template, "metadata"), "name")
    if given:
        return given
    return names.head_pod(cluster) if options.deterministic_head_name else None


def worker(
    cluster: RayCluster, group: WorkerGroupSpec, options: BuildOptions, *, made_from: str | None = None
) -> PodTemplate:
    """The Pods of a worker group.

    :param made_from: what `origin.of_workers` tells of it, where that is known.
    """
    template, metadata = _template(cluster, group, names.WORKER, group.group_name, options)
    metadata["generateName"] = names.worker_generate_name(cluster, group)
    metadata["annotations"][labels.MADE_FROM] = made_from or _made_from(cluster, group)
    if options.init_container_injection:
        host = names.head_address(cluster, options.cluster_domain)
        waiting = wait_gcs.container(template["spec"]["containers"][0], host, gcs_port(cluster), options)
        template["spec"].setdefault("initContainers", []).append(waiting)
    params = _start_params(cluster, group, names.WORKER, options)
    spec = template["spec"]
    autoscaler.keep_from_restarting(cluster, spec)
    fault_tolerance.wire_worker(cluster, spec["containers"][0])
    auth.authenticate_pod(cluster, spec)
    spec["containers"] += copied(options.worker_sidecars)
    return _finish(cluster, names.WORKER, params, template, metadata, options)


def _made_from(cluster: RayCluster, group: WorkerGroupSpec) -> str:
    groups = [each.group_name for each in cluster.spec.worker_group_specs]
    return origin.of_workers(cluster.spec)[groups.index(group.group_name)]


def gcs_port(cluster: RayCluster) -> str:
    """Where the head's GCS listens; workers follow it."""
    return cluster.spec.head_group_spec.ray_start_params.get("port", DEFAULT_GCS_PORT)


def creator(cluster: RayCluster) -> str:
    """The kind of object on whose behalf the cluster exists."""
    kind = cluster.metadata.labels.get(labels.ORIGINATED_FROM_CRD, "")
    return kind if kind in CREATORS else "RayCluster"


def _template(
    cluster: RayCluster,
    group: HeadGroupSpec | WorkerGroupSpec,
    node_type: str,
    group_name: str,
    options: BuildOptions,
) -> tuple[Json, Json]:
    """A copy of the user's template, and the metadata of the Pods made from it."""
    template = copied(group.template)
    given = template.get("metadata", {})
    annotations = given.get("annotations", {})
    if cluster.metadata.annotations.get(labels.OVERWRITE_CONTAINER_CMD, "").lower() == "true":
        annotations[labels.OVERWRITE_CONTAINER_CMD] = "true"
    metadata: Json = {
        "namespace": cluster.namespace,
        "labels": {
            **options.default_labels,
            **labels.pod_labels(cluster, node_type, group_name, given.get("labels", {}), group.labels),
        },
        "annotations": {**options.default_annotations, **annotations},
        "ownerReferences": [owner_reference(cluster)],
    }
    if given.get("finalizers"):
        metadata["finalizers"] = given["finalizers"]
    if creator(cluster) == "RayService":
        metadata["labels"][labels.SERVE] = "true" if node_type == names.WORKER else "false"
    return template, metadata


def _start_params(
    cluster: RayCluster, group: HeadGroupSpec | WorkerGroupSpec, node_type: str, options: BuildOptions
) -> dict[str, str]:
    """The parameters of `ray start`, but for those that follow from the container's resources."""
    params = start_command.from_group(group.ray_start_params, group.resources, group.labels)
    address = f"{names.head_address(cluster, options.cluster_domain)}:{gcs_port(cluster)}"
    return start_command.with_defaults(params, node_type, address)


def _finish(
    cluster: RayCluster,
    node_type: str,
    params: dict[str, str],
    template: Json,
    metadata: Json,
    options: BuildOptions,
) -> PodTemplate:
    """What heads and workers have in common: ports, volumes, the command, environment and probes."""
    spec: Json = template["spec"]
    ray: Json = spec["containers"][0]
    host = names.head_address(cluster, options.cluster_domain)
    container.add_metrics_port(ray, names.DEFAULT_PORTS["metrics"])
    if "plasma-directory" not in params:
        container.add_empty_dir(spec, ray, names.SHARED_MEMORY, "/dev/shm", _shared_memory(ray))
    if node_type == names.HEAD and cluster.spec.is_autoscaling:
        _share_logs(spec, names.AUTOSCALER)
    params = start_command.with_container_resources(params, ray.get("resources", {}))
    ray_start = start_command.command(node_type, params)
    container.compose_command(ray, ray_start, metadata["annotations"], options)
    for init in spec.get("initContainers", ()):
        container.append_env(init, "FQ_RAY_IP", host)
        container.append_env(init, "RAY_IP", host.partition(".")[0])
    _add_environment(cluster, ray, node_type, ray_start, options)
    if options.probes_injection:
        probes.inject(ray, node_type, params, cluster.spec.ray_version, creator(cluster))
    return PodTemplate(metadata, orjson.dumps(spec))


def _share_logs(spec: Json, name: str) -> None:
    """Let the first container of this name read and write Ray's logs."""
    ray, *others = spec["containers"]
    container.add_empty_dir(spec, ray, names.RAY_LOGS, "/tmp/ray", {})
    for other in [each for each in others if each.get("name") == name][:1]:
        container.add_empty_dir(spec, other, names.RAY_LOGS, "/tmp/ray", {})


def _shared_memory(ray: Json) -> Json:
    """Ray keeps its objects in /dev/shm, which is 64 MB unless the Pod brings its own; it may fill what the Pod may."""
    resources = ray.get("resources", {})
    for kind in ("limits", "requests"):
        size = resources.get(kind, {}).get("memory")
        if size is not None and _is_positive(size):
            return {"medium": "Memory", "sizeLimit": size}
    return {"medium": "Memory"}


def _is_positive(text: Any) -> bool:
    try:
        return bool(quantity.parse(text))
    except ValueError:
        return True  # left for the API server to refuse


def _add_environment(cluster: RayCluster, ray: Json, node_type: str, ray_start: str, options: BuildOptions) -> None:
    """What Ray and the programs on it learn about where they run."""
    host = names.head_address(cluster, options.cluster_domain)
    port = gcs_port(cluster)
    is_head = node_type == names.HEAD
    for variable in options.default_environment:
        if not any(each.get("name") == variable.get("name") for each in ray.get("env", ())):
            ray.setdefault("env", []).append(copied(variable))
    if is_head:
        if options.head_local_address:
            container.default_env(ray, "FQ_RAY_IP", "127.0.0.1")
    else:
        container.append_env(ray, "FQ_RAY_IP", host)
        container.append_env(ray, "RAY_IP", host.partition(".")[0])
    container.append_field_env(ray, "RAY_CLUSTER_NAME", f"metadata.labels['{labels.CLUSTER}']")
    container.append_field_env(ray, "RAY_CLUSTER_NAMESPACE", "metadata.namespace")
    container.append_field_env(ray, "RAY_CLOUD_INSTANCE_ID", "metadata.name")
    container.append_field_env(ray, "RAY_NODE_TYPE_NAME", f"metadata.labels['{labels.GROUP}']")
    container.append_env(ray, "KUBERAY_GEN_RAY_START_CMD", ray_start)
    container.default_env(ray, "RAY_PORT", port)
    if creator(cluster) == "RayService":
        # Serve shall notice a lost head within seconds, not minutes.
        container.default_env(ray, "RAY_timeout_ms_task_wait_for_death_info", "0")
        container.default_env(ray, "RAY_gcs_server_request_timeout_seconds", "5")
        container.default_env(ray, "RAY_SERVE_KV_TIMEOUT_S", "5")
    container.default_env(ray, "RAY_ADDRESS", f"127.0.0.1:{port}" if is_head else f"{host}:{port}")
    container.default_env(ray, "RAY_USAGE_STATS_KUBERAY_IN_USE", "1")
    if is_head:
        tags = f"kuberay_version={options.version};kuberay_crd={creator(cluster)}"
        container.append_env(ray, "RAY_USAGE_STATS_EXTRA_TAGS", tags)
    container.default_env(ray, "RAY_DASHBOARD_ENABLE_K8S_DISK_USAGE", "1")


def copied(value: Any) -> Any:
    """A deep copy without nulls, which mean the same as leaving a member away."""
    if isinstance(value, dict):
        return {
            key: member if type(member) is str else copied(member)  # most are texts
            for key, member in value.items()
            if member is not None
        }
    if isinstance(value, list | tuple):
        return [copied(element) for element in value if element is not None]
    return value
