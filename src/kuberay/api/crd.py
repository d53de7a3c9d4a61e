"""The CustomResourceDefinitions of `ray.io`, generated from the types."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kuberay.api import kubernetes
from kuberay.api.alpha import as_alpha
from kuberay.api.schema import schema_of
from kuberay.api.v1 import RayCluster, RayCronJob, RayJob, RayService

if TYPE_CHECKING:
    from kuberay.api.model import Model


@dataclass(frozen=True, slots=True)
class Column:
    """A column of `kubectl get`; priority 1 shows with `-o wide` only."""

    name: str
    type: str
    path: str
    priority: int = 0

    def to_dict(self) -> dict[str, Any]:
        """The column as a CRD holds it."""
        column: dict[str, Any] = {"name": self.name, "type": self.type, "jsonPath": self.path}
        return column | {"priority": self.priority} if self.priority else column


@dataclass(frozen=True, slots=True)
class Definition:
    """What makes a CRD out of a type."""

    type: type[Model]
    columns: tuple[Column, ...]
    alpha: bool = True
    """Whether v1alpha1 is served too."""
    alpha_columns: bool = False


_AGE = Column("age", "date", ".metadata.creationTimestamp")

DEFINITIONS: dict[str, Definition] = {
    "RayCluster": Definition(
        RayCluster,
        (
            Column("desired workers", "integer", ".status.desiredWorkerReplicas"),
            Column("available workers", "integer", ".status.availableWorkerReplicas"),
            Column("cpus", "string", ".status.desiredCPU"),
            Column("memory", "string", ".status.desiredMemory"),
            Column("gpus", "string", ".status.desiredGPU"),
            Column("tpus", "string", ".status.desiredTPU", priority=1),
            Column("status", "string", ".status.state"),
            _AGE,
            Column("head pod IP", "string", ".status.head.podIP", priority=1),
            Column("head service IP", "string", ".status.head.serviceIP", priority=1),
        ),
        alpha_columns=True,
    ),
    "RayJob": Definition(
        RayJob,
        (
            Column("job status", "string", ".status.jobStatus"),
            Column("deployment status", "string", ".status.jobDeploymentStatus"),
            Column("ray cluster name", "string", ".status.rayClusterName"),
            Column("start time", "string", ".status.startTime"),
            Column("end time", "string", ".status.endTime"),
            _AGE,
        ),
    ),
    "RayService": Definition(
        RayService,
        (
            Column("service status", "string", ".status.serviceStatus"),
            Column("num serve endpoints", "string", ".status.numServeEndpoints"),
        ),
    ),
    "RayCronJob": Definition(
        RayCronJob,
        (
            Column("schedule", "string", ".spec.schedule"),
            Column("timezone", "string", ".spec.timeZone"),
            Column("last schedule", "date", ".status.lastScheduleTime"),
            _AGE,
            Column("suspend", "boolean", ".spec.suspend"),
        ),
        alpha=False,
    ),
}


def crd(kind: str, *, slim: bool = False) -> dict[str, Any]:
    """The CustomResourceDefinition of a kind.

    :param slim: leave Pod templates and Services open instead of spelling them out.
    :raises KeyError: not a kind of `ray.io`.
    """
    definition = DEFINITIONS[kind]
    singular = kind.lower()
    plural = f"{singular}s"
    schema = schema_of(definition.type, kubernetes.slim if slim else kubernetes.embedded)
    columns = [column.to_dict() for column in definition.columns]
    versions = [_version("v1", schema, columns, storage=True)]
    if definition.alpha:
        alpha = _version("v1alpha1", as_alpha(kind, schema), columns if definition.alpha_columns else [], storage=False)
        alpha["deprecated"] = True
        alpha["deprecationWarning"] = f"ray.io/v1alpha1 {kind} is deprecated and gets no new fields; use ray.io/v1"
        versions.append(alpha)
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.ray.io"},
        "spec": {
            "group": "ray.io",
            "names": {
                "kind": kind,
                "listKind": f"{kind}List",
                "plural": plural,
                "singular": singular,
                "categories": ["all"],
            },
            "scope": "Namespaced",
            "versions": versions,
        },
    }


def _version(name: str, schema: dict[str, Any], columns: list[dict[str, Any]], *, storage: bool) -> dict[str, Any]:
    version: dict[str, Any] = {
        "name": name,
        "served": True,
        "storage": storage,
        "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": schema},
    }
    return version | {"additionalPrinterColumns": columns} if columns else version
