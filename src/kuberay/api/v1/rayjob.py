"""RayJob: a Ray job, the cluster it runs on, and what becomes of both when it has ended."""

# ruff: noqa: RUF012 (a Struct makes a new list or dict for each instance)

from typing import Annotated

import msgspec

from kuberay.api import cel
from kuberay.api.facts import Facts, Int32, Int64, Json, Time
from kuberay.api.meta import Object
from kuberay.api.model import Model
from kuberay.api.v1.raycluster import ManagedBy, RayClusterSpec, RayClusterStatus

_POLICIES = ("DeleteCluster", "DeleteWorkers", "DeleteSelf", "DeleteNone")


class SubmitterConfig(Model, frozen=True, kw_only=True):
    """The Kubernetes Job that submits the Ray job."""

    backoff_limit: Int32 = None
    """How often the submitter is tried again; absent: 2."""


class DeletionPolicy(Model, frozen=True, kw_only=True):
    """What is deleted at an end of one kind; the older style, `deletion_rules` say more."""

    policy: Annotated[str | None, Facts(enum=_POLICIES)] = None


class DeletionCondition(Model, frozen=True, kw_only=True):
    """When a rule applies: one of the two states, and how long after it was entered."""

    job_status: Annotated[str | None, Facts(enum=("SUCCEEDED", "FAILED"))] = None
    """How the Ray job ended."""
    job_deployment_status: Annotated[str | None, Facts(enum=("Failed",))] = None
    """How the RayJob ended, also when its Ray job never ran."""
    ttl_seconds: Annotated[Int32, Facts(default=0, minimum=0)] = None


class DeletionRule(Model, frozen=True, kw_only=True):
    """One thing to delete, and when."""

    policy: Annotated[str, Facts(required=True, enum=_POLICIES)]
    """`DeleteCluster`, `DeleteWorkers`, `DeleteSelf` (the RayJob with all it owns) or `DeleteNone`."""
    condition: Annotated[DeletionCondition, Facts(required=True, rules=cel.DELETION_CONDITION)]


class DeletionStrategy(Model, frozen=True, kw_only=True):
    """What is deleted when the job has ended: rules, or the older pair of policies."""

    on_success: DeletionPolicy | None = None
    on_failure: DeletionPolicy | None = None
    deletion_rules: Annotated[list[DeletionRule], Facts(min_items=1, list_type="atomic")] = []


class RayJobSpec(Model, frozen=True, kw_only=True):
    """What shall run, on which cluster, and how it is submitted."""

    entrypoint: str | None = None
    """The command of the job, for a shell on the cluster."""
    ray_cluster_spec: RayClusterSpec | None = None
    """The cluster that is made for the job."""
    cluster_selector: dict[str, str] = {}
    """An existing cluster instead: its name under the key `ray.io/cluster`. Wins over `ray_cluster_spec`."""
    submission_mode: Annotated[str | None, Facts(default="K8sJobMode")] = None
    """`K8sJobMode` (a Job submits), `HTTPMode` (the operator), `SidecarMode` (a container of the head) or
    `InteractiveMode` (the user)."""
    submitter_pod_template: Annotated[Json | None, Facts(embeds="PodTemplateSpec")] = None
    """The Pod that submits in `K8sJobMode`."""
    submitter_config: SubmitterConfig | None = None
    job_id: str | None = None
    """Ray's id of the submission; absent: made up, or in `InteractiveMode` told later."""
    metadata: dict[str, str] = {}
    """Metadata of the Ray job; not that of the object."""
    runtime_env_yaml: str | None = msgspec.field(default=None, name="runtimeEnvYAML")
    """Ray's runtime environment, as a YAML mapping."""
    entrypoint_num_cpus: float | None = None
    entrypoint_num_gpus: float | None = None
    entrypoint_resources: str | None = None
    """Custom resources of the entrypoint, as a JSON object."""
    active_deadline_seconds: Int32 = None
    """The job fails when it has not ended this long after its start."""
    pre_running_deadline_seconds: Annotated[Int32, Facts(minimum=1)] = None
    """The job fails when it does not run this long after its start."""
    backoff_limit: Annotated[Int32, Facts(default=0)] = None
    """How often the whole job is tried again, each time on a new cluster."""
    shutdown_after_job_finishes: bool | None = None
    """Delete the cluster when the job has ended."""
    ttl_seconds_after_finished: Annotated[Int32, Facts(default=0)] = None
    """How long after its end."""
    deletion_strategy: Annotated[DeletionStrategy | None, Facts(rules=cel.DELETION_STRATEGY)] = None
    suspend: bool | None = None
    """Run no cluster while true; a running job is stopped and starts anew."""
    managed_by: ManagedBy = None


class RayJobInfo(Model, frozen=True, kw_only=True):
    """When the Ray job ran, by Ray's own clock."""

    start_time: Time = None
    end_time: Time = None


class RayJobStatus(Model, frozen=True, kw_only=True):
    """How the job is doing."""

    job_status: str | None = None
    """What Ray says: `PENDING`, `RUNNING`, `STOPPED`, `SUCCEEDED` or `FAILED`."""
    job_deployment_status: str | None = None
    """Where the RayJob is on its way: `Initializing`, `Running`, `Complete`, `Failed`..."""
    reason: str | None = None
    """Why it failed: `DeadlineExceeded`, `AppFailed`..."""
    message: str | None = None
    job_id: str | None = None
    ray_cluster_name: str | None = None
    dashboard_url: str | None = msgspec.field(default=None, name="dashboardURL")
    """Host and port, without a scheme."""
    ray_job_info: RayJobInfo | None = None
    start_time: Time = None
    end_time: Time = None
    succeeded: Annotated[Int32, Facts(default=0)] = None
    """How many tries succeeded."""
    failed: Annotated[Int32, Facts(default=0)] = None
    """How many tries failed."""
    ray_cluster_status: RayClusterStatus | None = None
    """The status of its cluster, copied."""
    job_status_check_failure_start_time: Time = None
    """Since when Ray does not answer."""
    observed_generation: Int64 = None


class RayJob(Object, frozen=True, kw_only=True):
    """A job on Ray, with the cluster it needs."""

    api_version: str = "ray.io/v1"
    kind: str = "RayJob"
    spec: RayJobSpec = msgspec.field(default_factory=RayJobSpec)
    status: RayJobStatus = msgspec.field(default_factory=RayJobStatus)
