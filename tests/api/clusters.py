"""Small RayClusters to judge: a valid one, and ways to spoil it."""

from __future__ import annotations

from typing import Any

from kuberay.api.gates import FeatureGates, Gate
from kuberay.api.problems import Severity
from kuberay.api.v1 import RayCluster
from kuberay.api.validate import raycluster

ALL_GATES = FeatureGates(dict.fromkeys(Gate, True))


def pod(**spec: Any) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": "ray", "image": "rayproject/ray:2.56.0"}], **spec}}


def pod_with_env(**variables: str) -> dict[str, Any]:
    env = [{"name": name, "value": value} for name, value in variables.items()]
    return {"spec": {"containers": [{"name": "ray", "env": env}]}}


def group(name: str = "workers", **fields: Any) -> dict[str, Any]:
    return {"groupName": name, "minReplicas": 0, "maxReplicas": 3, "template": pod(), **fields}


def manifest(
    *groups: dict[str, Any], head: dict[str, Any] | None = None, metadata: dict[str, Any] | None = None, **spec: Any
) -> dict[str, Any]:
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayCluster",
        "metadata": {"name": "demo", "namespace": "default", **(metadata or {})},
        "spec": {
            "rayVersion": "2.56.0",
            "headGroupSpec": {"template": pod(), **(head or {})},
            "workerGroupSpecs": list(groups),
            **spec,
        },
    }


def problems(document: dict[str, Any], gates: FeatureGates = ALL_GATES) -> dict[str, str]:
    """What is wrong with a cluster: message by path, warnings left out."""
    found = raycluster.spec_problems(RayCluster.from_dict(document), gates)
    return {problem.path: problem.message for problem in found if problem.severity is Severity.ERROR}


def warnings(document: dict[str, Any]) -> dict[str, str]:
    found = raycluster.spec_problems(RayCluster.from_dict(document), ALL_GATES)
    return {problem.path: problem.message for problem in found if problem.severity is Severity.WARNING}
