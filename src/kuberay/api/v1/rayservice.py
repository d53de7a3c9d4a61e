"""RayService: Ray Serve applications on a cluster that is replaced without a gap."""

# ruff: noqa: RUF012 (a Struct makes a new list or dict for each instance)

from typing import Annotated

import msgspec

from kuberay.api.facts import Facts, Int32, Int64, Json, Time
from kuberay.api.meta import Condition, Object
from kuberay.api.model import Model
from kuberay.api.v1.raycluster import ManagedBy, RayClusterSpec, RayClusterStatus


class ClusterUpgradeOptions(Model, frozen=True, kw_only=True):
    """How traffic moves step by step from the old cluster to the new."""

    max_surge_percent: Annotated[Int32, Facts(default=100)] = None
    """How much more capacity than needed may run meanwhile."""
    step_size_percent: Annotated[Int32, Facts(required=True)] = None
    """How much of the traffic moves at once."""
    interval_seconds: Annotated[Int32, Facts(required=True)] = None
    """How long each step is watched."""
    gateway_class_name: Annotated[str | None, Facts(required=True)] = None
    """The class of the Gateway that splits the traffic."""


class RayServiceUpgradeStrategy(Model, frozen=True, kw_only=True):
    """What happens when the cluster's spec changes."""

    type: str | None = None
    """`NewCluster`, `NewClusterWithIncrementalUpgrade` or `None`; absent: as the operator is set up."""
    cluster_upgrade_options: ClusterUpgradeOptions | None = None


class RayServiceSpec(Model, frozen=True, kw_only=True):
    """Which applications are served, and by what cluster."""

    ray_cluster_config: Annotated[RayClusterSpec, Facts(required=True)] = msgspec.field(default_factory=RayClusterSpec)
    """What every cluster of the service is made from."""
    serve_config_v2: str | None = msgspec.field(default=None, name="serveConfigV2")
    """Ray Serve's own configuration, as YAML."""
    serve_service: Annotated[Json | None, Facts(embeds="Service")] = None
    """What the Service in front of the applications is made from."""
    upgrade_strategy: RayServiceUpgradeStrategy | None = None
    ray_cluster_deletion_delay_seconds: Annotated[Int32, Facts(minimum=0)] = None
    """How long an old cluster stays after the switch; absent: 60."""
    exclude_head_pod_from_serve_svc: bool | None = None
    """Let only workers serve."""
    suspend: bool | None = None
    managed_by: ManagedBy = None
    service_unhealthy_second_threshold: Int32 = None
    """Has no effect any more."""
    deployment_unhealthy_second_threshold: Int32 = None
    """Has no effect any more."""


class ServeDeploymentStatus(Model, frozen=True, kw_only=True):
    """A deployment of an application, as Ray tells it."""

    status: str | None = None
    message: str | None = None


class AppStatus(Model, frozen=True, kw_only=True):
    """An application, as Ray tells it."""

    status: str | None = None
    message: str | None = None
    serve_deployment_statuses: dict[str, ServeDeploymentStatus] = {}


class ServiceClusterStatus(Model, frozen=True, kw_only=True):
    """One of the two clusters of a service: the one that serves, or the one that will."""

    ray_cluster_name: str | None = None
    ray_cluster_status: RayClusterStatus | None = None
    application_statuses: dict[str, AppStatus] = {}
    """By name of the application."""
    target_capacity: Int32 = None
    """Percent of its capacity that the cluster is told to hold."""
    traffic_routed_percent: Int32 = None
    last_traffic_migrated_time: Time = None


class RayServiceStatus(Model, frozen=True, kw_only=True):
    """How the service is doing."""

    conditions: Annotated[list[Condition], Facts(list_type="map", list_keys=("type",))] = []
    service_status: str | None = None
    """`Running` while the condition `Ready` holds."""
    num_serve_endpoints: Int32 = None
    active_service_status: ServiceClusterStatus | None = None
    pending_service_status: ServiceClusterStatus | None = None
    last_update_time: Time = None
    observed_generation: Int64 = None


class RayService(Object, frozen=True, kw_only=True):
    """Ray Serve applications that stay reachable."""

    api_version: str = "ray.io/v1"
    kind: str = "RayService"
    spec: RayServiceSpec = msgspec.field(default_factory=RayServiceSpec)
    status: RayServiceStatus = msgspec.field(default_factory=RayServiceStatus)
