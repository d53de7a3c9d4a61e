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


def as_alpha(kind: str, schema: Schema) -> Schema:
    """The v1alpha1 schema of a kind, from its v1 schema."""
    alpha = deepcopy(schema)
    _without_rules(alpha)
    spec, status = alpha["properties"]["spec"], alpha["properties"]["status"]
    match kind:
        case "RayCluster":
            _cluster_spec(spec)
            _cluster_status(status)
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
