"""The CEL rules of our CRDs, each beside the same rule in Python.

An API server evaluates the CEL text; offline checks call `holds`. The two stand together so that one cannot be
changed without seeing the other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

MANAGED_BY_OPERATOR = "ray.io/kuberay-operator"
MANAGED_BY_MULTIKUEUE = "kueue.x-k8s.io/multikueue"


@dataclass(frozen=True, slots=True)
class Cel:
    """A validation rule, with the message a user sees when it does not hold."""

    rule: str
    message: str
    holds: Callable[[Any, Any], bool]
    """The rule in Python, for the value and the value it had before."""

    @property
    def is_transition(self) -> bool:
        """Whether it compares with the value before; such a rule says nothing about a new object."""
        return "oldSelf" in self.rule


def _has(value: Any, field: str) -> bool:
    return value.get(field) is not None


def _unchanged(value: Any, before: Any) -> bool:
    return bool(value == before)


MANAGED_BY = (
    Cel("self == oldSelf", "managedBy cannot be changed once it is set", _unchanged),
    Cel(
        f"self in ['{MANAGED_BY_OPERATOR}', '{MANAGED_BY_MULTIKUEUE}']",
        f"managedBy must be '{MANAGED_BY_OPERATOR}' or '{MANAGED_BY_MULTIKUEUE}'",
        lambda value, _before: value in (MANAGED_BY_OPERATOR, MANAGED_BY_MULTIKUEUE),
    ),
)
GCS_BACKEND = (Cel("self == oldSelf", "the backend cannot be changed once it is set", _unchanged),)
DELETION_STRATEGY = (
    Cel(
        "!((has(self.onSuccess) || has(self.onFailure)) && has(self.deletionRules))",
        "onSuccess and onFailure cannot stand beside deletionRules; use deletionRules alone",
        lambda value, _before: (
            not ((_has(value, "onSuccess") or _has(value, "onFailure")) and _has(value, "deletionRules"))
        ),
    ),
    Cel(
        "((has(self.onSuccess) && has(self.onFailure)) || has(self.deletionRules))",
        "needs deletionRules, or both onSuccess and onFailure",
        lambda value, _before: (_has(value, "onSuccess") and _has(value, "onFailure")) or _has(value, "deletionRules"),
    ),
)
DELETION_CONDITION = (
    Cel(
        "!(has(self.jobStatus) && has(self.jobDeploymentStatus))",
        "jobStatus and jobDeploymentStatus cannot both be set in one condition",
        lambda value, _before: not (_has(value, "jobStatus") and _has(value, "jobDeploymentStatus")),
    ),
    Cel(
        "has(self.jobStatus) || has(self.jobDeploymentStatus)",
        "needs jobStatus or jobDeploymentStatus",
        lambda value, _before: _has(value, "jobStatus") or _has(value, "jobDeploymentStatus"),
    ),
)

BY_RULE: dict[str, Cel] = {
    cel.rule: cel for rules in (MANAGED_BY, GCS_BACKEND, DELETION_STRATEGY, DELETION_CONDITION) for cel in rules
}
"""Every rule by its text, as a schema holds it."""
