"""The operator's rules for a RayJob, beyond what its schema says: metadata, spec and status."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kuberay.api import templates
from kuberay.api.gates import Gate
from kuberay.api.problems import Problem, child, shown, warning
from kuberay.api.validate.deletion import deletion_problems
from kuberay.api.validate.names import RAY_JOB_NAME, name_problems
from kuberay.api.validate.raycluster import cluster_spec_problems
from kuberay.api.validate.texts import not_a_json_object, not_a_mapping

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kuberay.api.gates import FeatureGates
    from kuberay.api.v1 import RayJob, RayJobSpec

CLUSTER_SELECTOR_KEY = "ray.io/cluster"
SUBMISSION_MODES = ("K8sJobMode", "HTTPMode", "InteractiveMode", "SidecarMode")


def metadata_problems(job: RayJob) -> list[Problem]:
    """The name must leave room for that of the job's cluster."""
    return list(name_problems("RayJob", job.metadata, RAY_JOB_NAME))


def spec_problems(job: RayJob, gates: FeatureGates) -> list[Problem]:
    """Everything about the spec of a job that stands by itself."""
    return job_spec_problems(job.spec, job.metadata.annotations, gates)


def status_problems(job: RayJob) -> list[Problem]:
    """A status that no operator writes: waiting for a user who is not asked."""
    if job.status.job_deployment_status == "Waiting" and job.spec.submission_mode != "InteractiveMode":
        return [Problem("status.jobDeploymentStatus", "Waiting is only for submissionMode InteractiveMode")]
    return []


def job_spec_problems(
    spec: RayJobSpec, annotations: Mapping[str, str], gates: FeatureGates, path: str = "spec"
) -> list[Problem]:
    """Everything about a job's spec wherever it stands; a RayCronJob holds one under another path."""
    return [
        *_ending_problems(spec, gates, path),
        *_cluster_problems(spec, path),
        *_submission_problems(spec, path),
        *_embedded_problems(spec, annotations, gates, path),
        *_value_problems(spec, path),
    ]


def _ending_problems(spec: RayJobSpec, gates: FeatureGates, path: str) -> Iterator[Problem]:
    ttl = spec.ttl_seconds_after_finished or 0
    if spec.suspend and not spec.shutdown_after_job_finishes:
        yield Problem(f"{path}.suspend", "needs shutdownAfterJobFinishes: true")
    if ttl < 0:
        yield Problem(f"{path}.ttlSecondsAfterFinished", f"must not be negative, got {ttl}")
    if ttl > 0 and not spec.shutdown_after_job_finishes:
        yield Problem(f"{path}.ttlSecondsAfterFinished", "needs shutdownAfterJobFinishes: true")
    if spec.deletion_strategy is not None:
        if Gate.RAY_JOB_DELETION_POLICY not in gates:
            yield Problem(f"{path}.deletionStrategy", f"needs the feature gate {Gate.RAY_JOB_DELETION_POLICY}")
        yield from deletion_problems(spec, spec.deletion_strategy, path)


def _cluster_problems(spec: RayJobSpec, path: str) -> Iterator[Problem]:
    selector = spec.cluster_selector
    if not selector:
        if spec.ray_cluster_spec is None:
            yield Problem(path, "one of rayClusterSpec and clusterSelector must be set")
        return
    if spec.suspend:
        yield Problem(f"{path}.suspend", "is not possible with clusterSelector: the cluster is not the job's own")
    if not selector.get(CLUSTER_SELECTOR_KEY):
        yield Problem(f"{path}.clusterSelector", f"must name a RayCluster under the key {CLUSTER_SELECTOR_KEY}")
    if spec.submission_mode == "SidecarMode":
        yield Problem(f"{path}.submissionMode", "SidecarMode is not possible with clusterSelector")
    if (spec.backoff_limit or 0) > 0:
        yield Problem(f"{path}.backoffLimit", "is not possible with clusterSelector")
    if spec.ray_cluster_spec is not None:
        yield warning(f"{path}.rayClusterSpec", "has no effect beside clusterSelector")
    for key in selector:
        if key != CLUSTER_SELECTOR_KEY:
            yield warning(child(f"{path}.clusterSelector", key), f"has no effect: only {CLUSTER_SELECTOR_KEY} is read")


def _submission_problems(spec: RayJobSpec, path: str) -> Iterator[Problem]:
    mode = spec.submission_mode or "K8sJobMode"
    if mode not in SUBMISSION_MODES:
        yield warning(
            f"{path}.submissionMode", f"{shown(mode)} is not one of {', '.join(SUBMISSION_MODES)}: nothing submits"
        )
    if mode == "InteractiveMode" and (spec.backoff_limit or 0) > 0:
        yield Problem(f"{path}.backoffLimit", "is not possible in InteractiveMode")
    submitter = {"submitterPodTemplate": spec.submitter_pod_template, "submitterConfig": spec.submitter_config}
    for field in (field for field, value in submitter.items() if value is not None):
        if mode == "SidecarMode":
            yield Problem(f"{path}.{field}", "is not possible in SidecarMode")
        elif mode != "K8sJobMode":
            yield warning(f"{path}.{field}", f"has no effect in {shown(mode)}: no Pod submits")
    if mode == "SidecarMode" and spec.ray_cluster_spec is not None:
        policy = templates.restart_policy(spec.ray_cluster_spec.head_group_spec.template)
        if policy not in ("", "Never"):
            yield Problem(
                f"{path}.rayClusterSpec.headGroupSpec.template.spec.restartPolicy",
                f"should be Never or unset in SidecarMode, got {shown(policy)}",
            )


def _embedded_problems(
    spec: RayJobSpec, annotations: Mapping[str, str], gates: FeatureGates, path: str
) -> Iterator[Problem]:
    cluster = spec.ray_cluster_spec
    if cluster is None:
        return
    where = f"{path}.rayClusterSpec"
    if cluster.auth_options is not None and cluster.auth_options.enable_k8s_token_auth:
        yield Problem(f"{where}.authOptions.enableK8sTokenAuth", "is not possible for the cluster of a RayJob")
    if cluster.upgrade_strategy is not None and cluster.upgrade_strategy.type is not None:
        yield Problem(f"{where}.upgradeStrategy.type", "cannot be set on the cluster of a RayJob")
    yield from cluster_spec_problems(cluster, annotations, gates, where)


def _value_problems(spec: RayJobSpec, path: str) -> Iterator[Problem]:
    if spec.runtime_env_yaml and (wrong := not_a_mapping(spec.runtime_env_yaml)):
        yield Problem(f"{path}.runtimeEnvYAML", wrong)
    if spec.entrypoint_resources and (wrong := not_a_json_object(spec.entrypoint_resources)):
        yield warning(f"{path}.entrypointResources", wrong)
    positive = {
        "activeDeadlineSeconds": spec.active_deadline_seconds,
        "preRunningDeadlineSeconds": spec.pre_running_deadline_seconds,
    }
    for field, value in positive.items():
        if value is not None and value <= 0:
            yield Problem(f"{path}.{field}", f"must be greater than 0, got {value}")
    if spec.backoff_limit is not None and spec.backoff_limit < 0:
        yield Problem(f"{path}.backoffLimit", f"must not be negative, got {spec.backoff_limit}")
