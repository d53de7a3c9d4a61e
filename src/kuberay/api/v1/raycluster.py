"""RayCluster: a head, groups of workers, and how they are doing.

    RayCluster
    ├── metadata         ObjectMeta
    ├── spec             RayClusterSpec
    │   ├── head_group_spec      HeadGroupSpec
    │   ├── worker_group_specs   list of WorkerGroupSpec
    │   └── ...                  the options of `kuberay.api.v1.options`
    └── status           RayClusterStatus

Absent is `None` wherever the difference to a value matters (`suspend` absent is not `suspend: false`).
"""

# ruff: noqa: RUF012 (a Struct makes a new list or dict for each instance)

from typing import Annotated

import msgspec

from kuberay.api import cel
from kuberay.api.facts import Facts, Int32, Int64, Json, Quantity, Time
from kuberay.api.meta import Condition, Object
from kuberay.api.model import Model
from kuberay.api.v1.options import (
    AuthOptions,
    AutoscalerOptions,
    GcsFaultToleranceOptions,
    HistoryServerOptions,
    NetworkPolicyOptions,
    TlsOptions,
    UpgradeStrategy,
)

ANNOTATION_FT_ENABLED = "ray.io/ft-enabled"

ManagedBy = Annotated[str | None, Facts(rules=cel.MANAGED_BY)]
"""Who reconciles the object; anything but the operator's own name (or absence) makes the operator leave it alone."""


class IngressOptions(Model, frozen=True, kw_only=True):
    """The Ingress in front of the dashboard."""

    host: str | None = None
    """Absent: any host."""
    path: str | None = None
    """Absent: `/`."""
    path_type: Annotated[str | None, Facts(enum=("Exact", "Prefix", "ImplementationSpecific"))] = None
    """Absent: `Prefix`."""
    tls: Annotated[list[Json], Facts(embeds="IngressTLS")] = []


class HeadGroupSpec(Model, frozen=True, kw_only=True):
    """The head Pod and how it is reached."""

    template: Annotated[Json, Facts(required=True, embeds="PodTemplateSpec")] = {}
    """The Pod, as the user wrote it; its first container runs Ray."""
    ray_start_params: dict[str, str] = {}
    """Flags of `ray start`, without the leading dashes."""
    resources: dict[str, str] = {}
    """Logical resources Ray shall see instead of those derived from the template."""
    labels: dict[str, str] = {}
    """Labels of the Ray node, also put on the Pod."""
    service_type: str | None = None
    """Type of the head Service; absent: headless."""
    head_service: Annotated[Json | None, Facts(embeds="Service")] = None
    """What the head Service is made from."""
    enable_ingress: bool | None = None
    ingress_options: IngressOptions | None = None


class ScaleStrategy(Model, frozen=True, kw_only=True):
    """How a group shrinks."""

    workers_to_delete: list[str] = []
    """Names of Pods the autoscaler wants removed."""


class WorkerGroupSpec(Model, frozen=True, kw_only=True):
    """Workers that are made from one template."""

    group_name: Annotated[str, Facts(required=True)]
    template: Annotated[Json, Facts(required=True, embeds="PodTemplateSpec")] = {}
    """The Pod, as the user wrote it; its first container runs Ray."""
    replicas: Annotated[Int32, Facts(default=0)] = None
    """How many are wanted; kept between the two bounds when Pods are made."""
    min_replicas: Annotated[Int32, Facts(required=True, default=0)] = None
    max_replicas: Annotated[Int32, Facts(required=True, default=2147483647)] = None
    num_of_hosts: Annotated[Int32, Facts(default=1)] = None
    """Pods per replica; a replica of several hosts lives and dies as one."""
    suspend: bool | None = None
    """Remove the group's Pods while true; set by a RayJob's deletion policy."""
    idle_timeout_seconds: Int32 = None
    """Overrides the autoscaler's own time-out; autoscaler v2 only."""
    priority: Annotated[Int32, Facts(default=0)] = None
    """Groups of higher priority are scaled first; autoscaler v2 and Ray 2.56.0."""
    ray_start_params: dict[str, str] = {}
    """Flags of `ray start`, without the leading dashes."""
    resources: dict[str, str] = {}
    """Logical resources Ray shall see instead of those derived from the template."""
    labels: dict[str, str] = {}
    """Labels of the Ray node, also put on the Pods."""
    scale_strategy: ScaleStrategy | None = None


class RayClusterSpec(Model, frozen=True, kw_only=True):
    """What a cluster shall look like; also part of a RayJob, a RayService and a RayCronJob."""

    head_group_spec: Annotated[HeadGroupSpec, Facts(required=True)] = msgspec.field(default_factory=HeadGroupSpec)
    worker_group_specs: list[WorkerGroupSpec] = []
    ray_version: str | None = None
    """The Ray version of the image; decides which features may be used."""
    suspend: bool | None = None
    """Remove all Pods while true; resuming needs an explicit false."""
    enable_in_tree_autoscaling: bool | None = None
    """Let Ray's autoscaler, a sidecar of the head, set the replicas of the groups."""
    autoscaler_options: AutoscalerOptions | None = None
    head_service_annotations: dict[str, str] = {}
    upgrade_strategy: UpgradeStrategy | None = None
    auth_options: AuthOptions | None = None
    gcs_fault_tolerance_options: GcsFaultToleranceOptions | None = None
    history_server_options: HistoryServerOptions | None = None
    network_policy: NetworkPolicyOptions | None = None
    tls_options: TlsOptions | None = None
    managed_by: ManagedBy = None

    @property
    def is_autoscaling(self) -> bool:
        """Whether the autoscaler runs beside the head."""
        return self.enable_in_tree_autoscaling is True

    @property
    def autoscaler_version(self) -> str | None:
        """The version that is asked for by name, whether or not the autoscaler is on."""
        return self.autoscaler_options.version if self.autoscaler_options else None


class HeadInfo(Model, frozen=True, kw_only=True):
    """Where the head is."""

    pod_name: str | None = None
    pod_ip: str | None = msgspec.field(default=None, name="podIP")
    service_name: str | None = None
    service_ip: str | None = msgspec.field(default=None, name="serviceIP")


class RayClusterStatus(Model, frozen=True, kw_only=True):
    """How a cluster is doing. All worker counts are Pods, not replicas."""

    state: str | None = None
    """`ready` or `suspended`; absent until the cluster was ready once. Conditions tell more."""
    reason: str | None = None
    conditions: Annotated[list[Condition], Facts(list_type="map", list_keys=("type",))] = []
    ready_worker_replicas: Int32 = None
    available_worker_replicas: Int32 = None
    """Workers that run, ready or not."""
    desired_worker_replicas: Int32 = None
    min_worker_replicas: Int32 = None
    max_worker_replicas: Int32 = None
    desired_cpu: Quantity = msgspec.field(default=None, name="desiredCPU")
    desired_memory: Quantity = None
    desired_gpu: Quantity = msgspec.field(default=None, name="desiredGPU")
    """Summed over all resources that are GPUs by name."""
    desired_tpu: Quantity = msgspec.field(default=None, name="desiredTPU")
    head: HeadInfo | None = None
    endpoints: dict[str, str] = {}
    """By name of the head Service's port: the node port, or else the target port."""
    last_update_time: Annotated[Time, Facts(nullable=True)] = None
    state_transition_times: dict[str, Annotated[str, Facts(format="date-time")]] = {}
    """When each state was entered last."""
    observed_generation: Int64 = None


class RayCluster(Object, frozen=True, kw_only=True):
    """A Ray cluster on Kubernetes."""

    api_version: str = "ray.io/v1"
    kind: str = "RayCluster"
    spec: RayClusterSpec = msgspec.field(default_factory=RayClusterSpec)
    status: RayClusterStatus = msgspec.field(default_factory=RayClusterStatus)

    @property
    def is_fault_tolerant(self) -> bool:
        """Whether Ray's cluster state survives its head, by the options or by the older annotation."""
        if self.spec.gcs_fault_tolerance_options is not None:
            return True
        return self.metadata.annotations.get(ANNOTATION_FT_ENABLED, "").lower() == "true"
