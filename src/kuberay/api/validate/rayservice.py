"""The operator's rules for a RayService, beyond what its schema says: metadata and spec."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kuberay.api import durations, templates
from kuberay.api.gates import Gate
from kuberay.api.problems import Problem, shown, warning
from kuberay.api.validate.names import RAY_SERVICE_NAME, name_problems
from kuberay.api.validate.raycluster import cluster_spec_problems

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kuberay.api.gates import FeatureGates
    from kuberay.api.v1 import RayService

ANNOTATION_INITIALIZING_TIMEOUT = "ray.io/initializing-timeout"
INCREMENTAL = "NewClusterWithIncrementalUpgrade"
UPGRADE_TYPES = ("NewCluster", INCREMENTAL, "None")


def metadata_problems(service: RayService) -> list[Problem]:
    """The name must leave room for those of the service's clusters; the time-out must be a time."""
    found = list(name_problems("RayService", service.metadata, RAY_SERVICE_NAME))
    text = service.metadata.annotations.get(ANNOTATION_INITIALIZING_TIMEOUT)
    if text and (wrong := _timeout_problem(text)):
        found.append(Problem(f"metadata.annotations[{ANNOTATION_INITIALIZING_TIMEOUT}]", wrong))
    return found


def initializing_timeout(text: str) -> float | None:
    """The seconds a service may take to become ready: a duration (`5m`) or a whole number of seconds.

    `None` when the text is neither, or not greater than 0.
    """
    seconds = durations.parse(text)
    if seconds is None and text.removeprefix("+").removeprefix("-").isdecimal() and text.isascii():
        seconds = durations.parse(f"{text}s")
    return float(seconds) if seconds is not None and seconds > 0 else None


def _timeout_problem(text: str) -> str | None:
    if initializing_timeout(text) is not None:
        return None
    return f"{shown(text)} must be a duration greater than 0 like 5m, or a number of seconds"


def spec_problems(service: RayService, gates: FeatureGates) -> list[Problem]:
    """Everything about the spec of a service."""
    cluster, path = service.spec.ray_cluster_config, "spec.rayClusterConfig"
    found: list[Problem] = []
    if cluster.auth_options is not None and cluster.auth_options.enable_k8s_token_auth:
        found.append(Problem(f"{path}.authOptions.enableK8sTokenAuth", "is not possible for clusters of a RayService"))
    if cluster.upgrade_strategy is not None and cluster.upgrade_strategy.type is not None:
        found.append(Problem(f"{path}.upgradeStrategy.type", "cannot be set on clusters of a RayService"))
    found += cluster_spec_problems(cluster, service.metadata.annotations, gates, path)
    if templates.text(templates.mapping(cluster.head_group_spec.head_service or {}, "metadata"), "name"):
        found.append(
            Problem(
                f"{path}.headGroupSpec.headService.metadata.name",
                "must not be set: a service has several clusters, each with a head Service of its own",
            )
        )
    found += _upgrade_problems(service, gates)
    delay = service.spec.ray_cluster_deletion_delay_seconds
    if delay is not None and delay < 0:
        found.append(Problem("spec.rayClusterDeletionDelaySeconds", f"must not be negative, got {delay}"))
    unused = {
        "serviceUnhealthySecondThreshold": service.spec.service_unhealthy_second_threshold,
        "deploymentUnhealthySecondThreshold": service.spec.deployment_unhealthy_second_threshold,
    }
    found += [
        warning(f"spec.{field}", "is deprecated and has no effect")
        for field, value in unused.items()
        if value is not None
    ]
    return found


def _upgrade_problems(service: RayService, gates: FeatureGates) -> Iterator[Problem]:
    strategy, path = service.spec.upgrade_strategy, "spec.upgradeStrategy"
    if strategy is None:
        return
    if strategy.type != INCREMENTAL and strategy.cluster_upgrade_options is not None:
        yield warning(f"{path}.clusterUpgradeOptions", f"has no effect without type {INCREMENTAL}")
    if strategy.type and strategy.type not in UPGRADE_TYPES:
        yield Problem(f"{path}.type", f"must be one of {', '.join(UPGRADE_TYPES)}, got {shown(strategy.type)}")
    if strategy.type != INCREMENTAL:
        return
    if Gate.RAY_SERVICE_INCREMENTAL_UPGRADE not in gates:
        yield warning(f"{path}.type", f"has no effect without the feature gate {Gate.RAY_SERVICE_INCREMENTAL_UPGRADE}")
        return
    if service.spec.serve_service is not None:
        yield warning("spec.serveService", f"has no effect with {INCREMENTAL}: a Gateway leads to the clusters")
    if not service.spec.ray_cluster_config.is_autoscaling:
        yield Problem("spec.rayClusterConfig.enableInTreeAutoscaling", f"must be true for {INCREMENTAL}")
    options, path = strategy.cluster_upgrade_options, f"{path}.clusterUpgradeOptions"
    if options is None:
        yield Problem(path, f"must be set for {INCREMENTAL}")
        return
    surge = 100 if options.max_surge_percent is None else options.max_surge_percent
    step = options.step_size_percent
    if not 0 <= surge <= 100:
        yield Problem(f"{path}.maxSurgePercent", f"must be from 0 to 100, got {surge}")
    if step is None or not 0 <= step <= 100:
        yield Problem(f"{path}.stepSizePercent", f"must be from 0 to 100, got {'nothing' if step is None else step}")
    elif step > surge:
        yield Problem(f"{path}.stepSizePercent", f"must not be greater than maxSurgePercent: {step} > {surge}")
    for field, value in (("maxSurgePercent", surge), ("stepSizePercent", step)):
        if value == 0:
            yield warning(f"{path}.{field}", "with 0 an upgrade never advances")
    if options.interval_seconds is None or options.interval_seconds <= 0:
        yield Problem(f"{path}.intervalSeconds", "must be greater than 0")
    if not options.gateway_class_name:
        yield Problem(f"{path}.gatewayClassName", "must be set")
