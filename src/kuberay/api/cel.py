"""The CEL rules of our CRDs, and what a user is told when one does not hold."""

from __future__ import annotations

from dataclasses import dataclass

MANAGED_BY_OPERATOR = "ray.io/kuberay-operator"
MANAGED_BY_MULTIKUEUE = "kueue.x-k8s.io/multikueue"


@dataclass(frozen=True, slots=True)
class Cel:
    """A validation rule, with its message."""

    rule: str
    message: str


MANAGED_BY = (
    Cel("self == oldSelf", "managedBy cannot be changed once it is set"),
    Cel(
        f"self in ['{MANAGED_BY_OPERATOR}', '{MANAGED_BY_MULTIKUEUE}']",
        f"managedBy must be '{MANAGED_BY_OPERATOR}' or '{MANAGED_BY_MULTIKUEUE}'",
    ),
)
GCS_BACKEND = (Cel("self == oldSelf", "the backend cannot be changed once it is set"),)
DELETION_STRATEGY = (
    Cel(
        "!((has(self.onSuccess) || has(self.onFailure)) && has(self.deletionRules))",
        "onSuccess and onFailure cannot stand beside deletionRules; use deletionRules alone",
    ),
    Cel(
        "((has(self.onSuccess) && has(self.onFailure)) || has(self.deletionRules))",
        "needs deletionRules, or both onSuccess and onFailure",
    ),
)
DELETION_CONDITION = (
    Cel(
        "!(has(self.jobStatus) && has(self.jobDeploymentStatus))",
        "jobStatus and jobDeploymentStatus cannot both be set in one condition",
    ),
    Cel("has(self.jobStatus) || has(self.jobDeploymentStatus)", "needs jobStatus or jobDeploymentStatus"),
)
