"""What the operator may do: the rules of its roles, each with what it is for.

Exactly what it uses: tests hold every request of the operator against these rules, and every rule against a request.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

_CORE = ""
_RBAC = "rbac.authorization.k8s.io"
_FOLLOW = ("list", "watch")
_MAKE = ("create", "get")
"""A name that is taken already is looked at."""
_EVENTS = ("events.k8s.io", "events", ("create", "patch"))


@dataclass(frozen=True, slots=True)
class Right:
    """Verbs on a kind, or on a subresource of it."""

    group: str
    resource: str
    verbs: tuple[str, ...]
    why: str

    @property
    def rule(self) -> dict[str, Any]:
        """As a role holds it."""
        return {"apiGroups": [self.group], "resources": [self.resource], "verbs": sorted(self.verbs)}


USED = (
    Right("ray.io", "rayclusters", (*_FOLLOW, "get", "patch"), "what is asked for; finalizers"),
    Right("ray.io", "rayclusters/status", ("patch",), "how it is doing"),
    Right(_CORE, "pods", (*_FOLLOW, *_MAKE, "patch", "delete"), "heads and workers"),
    Right(
        _CORE,
        "services",
        (*_FOLLOW, *_MAKE, "patch"),
        "the way to heads, to workers that share a replica, and to Serve",
    ),
    Right(_CORE, "serviceaccounts", (*_FOLLOW, *_MAKE), "the account of Ray's autoscaler"),
    Right(_RBAC, "roles", (*_FOLLOW, *_MAKE), "its rights"),
    Right(_RBAC, "rolebindings", (*_FOLLOW, *_MAKE), "its rights"),
    Right(_CORE, "secrets", (*_FOLLOW, *_MAKE), "tokens of clusters that ask for authentication"),
    Right(
        "networking.k8s.io", "ingresses", (*_FOLLOW, *_MAKE, "patch"), "dashboards that shall be reached from outside"
    ),
    Right("route.openshift.io", "routes", (*_FOLLOW, *_MAKE), "the same on OpenShift"),
    Right("batch", "jobs", (*_FOLLOW, *_MAKE), "the removal of what a deleted cluster left in Redis"),
    Right(_CORE, "persistentvolumeclaims", (*_FOLLOW, *_MAKE, "patch"), "state that heads keep on disk"),
    Right(
        "networking.k8s.io", "networkpolicies", (*_FOLLOW, *_MAKE, "update", "delete"), "clusters that shall be closed"
    ),
    Right(*_EVENTS, "what was done, and what went wrong"),
)
"""What the operator itself does in the namespaces it works in."""

IN_DEFAULT = (Right(*_EVENTS, "what happened to a namespace, which takes no events while it is being deleted"),)
"""What it does in the namespace `default`, where events about what belongs to no namespace are kept."""

OUTSIDE = (Right(_CORE, "nodes", ("get",), "whether the node is down from which a head does not go"),)
"""What it does outside of all namespaces."""

GRANTED = (
    Right(_CORE, "pods", ("get", "list", "watch", "patch"), "granted to Ray's autoscaler"),
    Right(_CORE, "pods/resize", ("patch",), "granted to Ray's autoscaler"),
    Right("ray.io", "rayclusters", ("get", "patch"), "granted to Ray's autoscaler"),
    Right(
        "ray.io",
        "rayclusters/finalizers",
        ("update",),
        "asked for on OpenShift of who makes objects that block the deletion of their owner",
    ),
)
"""What it must hold although it does not use it: nobody may grant what he does not have himself."""

ELECTION = (Right("coordination.k8s.io", "leases", ("create", "get", "update"), "which of several operators leads"),)
"""What it does in its own namespace, or where else the lease is."""


def rules(rights: tuple[Right, ...]) -> list[dict[str, Any]]:
    """The rules of a role: one for each kind, in the order of their names."""
    verbs: dict[tuple[str, str], set[str]] = {}
    for right in rights:
        verbs.setdefault((right.group, right.resource), set()).update(right.verbs)
    return [Right(group, resource, tuple(found), "").rule for (group, resource), found in sorted(verbs.items())]
