"""The rights that KubeRay's chart and its kustomization give to an operator.

Whoever has installed KubeRay by them and changes nothing but the image has these rights, and no others.
"""

from __future__ import annotations

from typing import Any

_READ = "get list watch"
_ALL = f"create delete {_READ} patch update"
_KINDS = ("rayclusters", "raycronjobs", "rayjobs", "rayservices")

_EVERYWHERE: tuple[tuple[str, tuple[str, ...], str], ...] = (
    ("", ("persistentvolumeclaims", "pods/status", "services"), _ALL),
    ("", ("pods",), f"{_ALL} deletecollection"),
    ("", ("pods/proxy", "services/status"), "get patch update"),
    ("", ("pods/resize",), "patch"),
    ("", ("secrets",), f"create delete {_READ} update"),
    ("", ("serviceaccounts",), f"create delete {_READ}"),
    ("", ("services/proxy",), "create get patch update"),
    ("batch", ("jobs",), _ALL),
    ("cert-manager.io", ("certificates",), f"create {_READ} update"),
    ("cert-manager.io", ("certificates/status",), "get"),
    ("cert-manager.io", ("issuers",), f"create {_READ}"),
    ("coordination.k8s.io", ("leases",), "create get list update"),
    ("discovery.k8s.io", ("endpointslices",), _READ),
    ("events.k8s.io", ("events",), "create patch"),
    ("extensions", ("ingresses",), _ALL),
    ("gateway.networking.k8s.io", ("gateways", "httproutes"), f"create delete {_READ} update"),
    ("networking.k8s.io", ("ingressclasses",), _READ),
    ("networking.k8s.io", ("ingresses",), _ALL),
    ("networking.k8s.io", ("networkpolicies",), f"create delete {_READ} update"),
    ("ray.io", _KINDS, _ALL),
    ("ray.io", tuple(f"{kind}/finalizers" for kind in _KINDS), "update"),
    ("ray.io", tuple(f"{kind}/status" for kind in _KINDS), "get patch update"),
    ("rbac.authorization.k8s.io", ("rolebindings",), f"create delete {_READ}"),
    ("rbac.authorization.k8s.io", ("roles",), f"create delete {_READ} update"),
    ("route.openshift.io", ("routes",), _ALL),
)

_IN_ITS_NAMESPACE: tuple[tuple[str, tuple[str, ...], str], ...] = (
    ("", ("configmaps",), _ALL),
    ("", ("events",), "create"),
    ("coordination.k8s.io", ("leases",), "create get list update"),
)


def _rules(table: tuple[tuple[str, tuple[str, ...], str], ...]) -> list[dict[str, Any]]:
    return [
        {"apiGroups": [group], "resources": [*resources], "verbs": verbs.split()} for group, resources, verbs in table
    ]


CLUSTER_ROLE = _rules(_EVERYWHERE)
ELECTION_ROLE = _rules(_IN_ITS_NAMESPACE)
