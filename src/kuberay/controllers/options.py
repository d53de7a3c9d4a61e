"""How controllers are told to work: the operator's settings as far as rules depend on them."""

from __future__ import annotations

from dataclasses import dataclass, field

from kuberay.api.gates import DEFAULT_GATES, FeatureGates, Gate
from kuberay.build.options import BuildOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerOptions:
    """Read once when the process starts."""

    build: BuildOptions = field(default_factory=BuildOptions)
    gates: FeatureGates = DEFAULT_GATES
    is_openshift: bool = False
    """Whether the API server is that of an OpenShift: whether it serves Routes."""
    ingress_on_openshift: bool = False
    """Whether an Ingress is made even there."""
    random_pod_delete: bool = False
    """Whether workers that are too many are removed although the autoscaler has not named them."""
    redis_cleanup: bool = True
    """Whether what a deleted cluster has stored in Redis is removed."""
    resync: float | None = 300.0
    """Seconds after which a settled cluster is looked at again although nothing happened; `None` for never."""
    batch: int = 1000
    """At most so many Pods of a group are made or removed at a time, so that other clusters get their turn."""
    writes_in_flight: int = 8
    """At most so many writes are under way at once. More of them wait in the server instead of here, where turns are
    taken, and what others ask of it then waits with them."""
    replace_after: float = 5.0
    """A Pod that breaks sooner than this after its creation is replaced only then: a template that cannot run must
    not keep the API server busy."""
    lost_after: float = 30.0
    """Seconds past its grace period after which the Node of a head that does not go is looked at, and how often."""
    gathering: float = 0.1
    """How long a cluster is not looked at after a change of its Pods: where one comes, others follow."""
    status_delay: float = 3.0
    """How long nothing must happen to the Pods before a status tells of them, so that one write tells of several
    changes: it costs the API server as much as five Pods. When all are ready it is written at once."""
    longest_status_delay: float = 10.0
    """How long a status is held back at most while Pods keep coming and going."""

    @property
    def has_conditions(self) -> bool:
        """Whether a status tells its state by conditions, and not only by fields."""
        return Gate.RAY_CLUSTER_STATUS_CONDITIONS in self.gates

    @property
    def uses_routes(self) -> bool:
        """Whether the dashboard is reached through a Route in place of an Ingress."""
        return self.is_openshift and not self.ingress_on_openshift
