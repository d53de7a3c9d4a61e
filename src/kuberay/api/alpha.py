"""`ray.io/v1alpha1`: the same objects with the fields they had at the end of 2023.

Still served so that old manifests apply; stored objects are v1. Its schemas are those of v1 with the later fields
taken away, and with what was required then required again.
"""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    Schema = dict[str, Any]

_LATER_CLUSTER_FIELDS = (
    "upgradeStrategy", "authOptions", "managedBy", "gcsFaultToleranceOptions", "historyServerOptions",
    "networkPolicy", "tlsOptions",
)  # fmt: skip
_LATER_AUTOSCALER_FIELDS = ("version", "command", "args")
_LATER_HEAD_FIELDS = ("ingressOptions", "resources", "labels")
_LATER_WORKER_FIELDS = ("suspend", "idleTimeoutSeconds", "priority", "resources", "labels", "numOfHosts")
_LATER_STATUS_FIELDS = ("conditions", "stateTransitionTimes")
_LATER_HEAD_INFO_FIELDS = ("podName", "serviceName")
_JOB_FIELDS = (
    "clusterSelector", "entrypoint", "entrypointNumCpus", "entrypointNumGpus", "entrypointResources", "jobId",
    "metadata", "rayClusterSpec", "runtimeEnvYAML", "shutdownAfterJobFinishes", "submitterPodTemplate", "suspend",
    "ttlSecondsAfterFinished",
)  # fmt: skip
_JOB_STATUS_FIELDS = (
    "dashboardURL", "endTime", "jobDeploymentStatus", "jobId", "jobStatus", "message", "observedGeneration",
    "rayClusterName", "rayClusterStatus", "startTime",
)  # fmt: skip
_SERVICE_FIELDS = (
    "serveService", "serviceUnhealthySecondThreshold", "deploymentUnhealthySecondThreshold", "serveConfigV2",
    "rayClusterConfig",
)  # fmt: skip
_SERVICE_STATUS_FIELDS = (
    "lastUpdateTime", "serviceStatus", "activeServiceStatus", "pendingServiceStatus", "observedGeneration",
)  # fmt: skip
_SERVICE_CLUSTER_STATUS_FIELDS = ("applicationStatuses", "rayClusterName", "rayClusterStatus")


def as_alpha(kind: str, schema: Schema) -> Schema:
    """The v1alpha1 schema of a kind, from its v1 schema."""
    alpha = deepcopy(schema)
    _without_rules(alpha)
    spec, status = alpha["properties"]["spec"], alpha["properties"]["status"]
    match kind:
        case "RayCluster":
            _cluster_spec(spec)
            _cluster_status(status)
        case "RayJob":
            _keep(spec, _JOB_FIELDS)
            _keep(status, _JOB_STATUS_FIELDS)
            spec["required"] = ["entrypoint"]
            _cluster_spec(spec["properties"]["rayClusterSpec"])
            _cluster_status(status["properties"]["rayClusterStatus"])
        case "RayService":
            _keep(spec, _SERVICE_FIELDS)
            _keep(status, _SERVICE_STATUS_FIELDS)
            spec.pop("required")
            _cluster_spec(spec["properties"]["rayClusterConfig"])
            for field in ("activeServiceStatus", "pendingServiceStatus"):
                _service_cluster_status(status["properties"][field])
        case _:
            raise ValueError(f"{kind} has no v1alpha1")
    return alpha


def _cluster_spec(spec: Schema) -> None:
    fields = spec["properties"]
    head, worker = fields["headGroupSpec"], fields["workerGroupSpecs"]["items"]
    _drop(spec, _LATER_CLUSTER_FIELDS)
    _drop(fields["autoscalerOptions"], _LATER_AUTOSCALER_FIELDS)
    _drop(head, _LATER_HEAD_FIELDS)
    _drop(worker, _LATER_WORKER_FIELDS)
    for group in (head, worker):
        group["required"] = sorted({*group["required"], "rayStartParams"})


def _cluster_status(status: Schema) -> None:
    _drop(status, _LATER_STATUS_FIELDS)
    _drop(status["properties"]["head"], _LATER_HEAD_INFO_FIELDS)


def _service_cluster_status(status: Schema) -> None:
    _keep(status, _SERVICE_CLUSTER_STATUS_FIELDS)
    _cluster_status(status["properties"]["rayClusterStatus"])
    app = status["properties"]["applicationStatuses"]["additionalProperties"]
    deployment = app["properties"]["serveDeploymentStatuses"]["additionalProperties"]
    for each in (app, deployment):
        each["properties"]["healthLastUpdateTime"] = {"type": "string", "format": "date-time"}


def _keep(schema: Schema, fields: tuple[str, ...]) -> None:
    schema["properties"] = {name: value for name, value in schema["properties"].items() if name in fields}


def _drop(schema: Schema, fields: tuple[str, ...]) -> None:
    for field in fields:
        del schema["properties"][field]


def _without_rules(schema: Any) -> None:
    if isinstance(schema, dict):
        schema.pop("x-kubernetes-validations", None)
        for value in schema.values():
            _without_rules(value)
    elif isinstance(schema, list):
        for value in schema:
            _without_rules(value)
