"""The objects that run the operator inside a cluster: its account and rights, its Deployment, and where to scrape it.

Names and labels are KubeRay's, so that tools that look for its operator find this one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kuberay import __version__
from kuberay.operator import rights

Json = dict[str, Any]

NAME = "kuberay-operator"
LABELS = {"app.kubernetes.io/name": "kuberay", "app.kubernetes.io/component": NAME}
METRICS_PORT = 8080
HEALTH_PORT = 8082
USER = 65532

_RBAC = "rbac.authorization.k8s.io"
_GRACE = 40
"""Seconds to stop: half a minute for what is under way, then the last events and the lease."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Installation:
    """How the operator shall run in a cluster."""

    namespace: str = "kuberay-system"
    image: str = f"kuberay:{__version__}"
    replicas: int = 1
    watch_namespaces: tuple[str, ...] = ()
    """Where it works, and has any rights at all; nowhere in particular means everywhere."""
    arguments: tuple[str, ...] = ()
    """Further flags of the operator."""


def objects(installation: Installation) -> list[Json]:
    """All of them, in an order in which they can be created."""
    namespace = installation.namespace
    subject = {"kind": "ServiceAccount", "name": NAME, "namespace": namespace}
    made: list[Json] = []
    if namespace != "default":
        made.append(_object("v1", "Namespace", namespace))
    made += [
        _object("v1", "ServiceAccount", NAME, namespace),
        _object(f"{_RBAC}/v1", "ClusterRole", NAME) | {"rules": rights.rules(rights.USED + rights.GRANTED)},
        *_bindings(installation, subject),
        _object(f"{_RBAC}/v1", "Role", f"{NAME}-leader-election", namespace) | {"rules": rights.rules(rights.ELECTION)},
        _object(f"{_RBAC}/v1", "RoleBinding", f"{NAME}-leader-election", namespace)
        | _binding("Role", f"{NAME}-leader-election", subject),
        _service(namespace),
        _deployment(installation),
    ]
    return made


def _bindings(installation: Installation, subject: Json) -> list[Json]:
    """Rights everywhere, or only where the operator works."""
    binding = _binding("ClusterRole", NAME, subject)
    if not installation.watch_namespaces:
        return [_object(f"{_RBAC}/v1", "ClusterRoleBinding", NAME) | binding]
    return [_object(f"{_RBAC}/v1", "RoleBinding", NAME, each) | binding for each in installation.watch_namespaces]


def _binding(kind: str, role: str, subject: Json) -> Json:
    return {"roleRef": {"apiGroup": _RBAC, "kind": kind, "name": role}, "subjects": [subject]}


def _service(namespace: str) -> Json:
    service = _object("v1", "Service", NAME, namespace)
    service["metadata"]["annotations"] = {
        "prometheus.io/path": "/metrics",
        "prometheus.io/port": str(METRICS_PORT),
        "prometheus.io/scrape": "true",
    }
    port = {"name": "monitoring-port", "port": METRICS_PORT, "targetPort": METRICS_PORT}
    return service | {"spec": {"type": "ClusterIP", "selector": LABELS, "ports": [port]}}


def _deployment(installation: Installation) -> Json:
    return _object("apps/v1", "Deployment", NAME, installation.namespace) | {
        "spec": {
            "replicas": installation.replicas,
            "selector": {"matchLabels": LABELS},
            "template": {
                "metadata": {"labels": LABELS},
                "spec": {
                    "serviceAccountName": NAME,
                    "terminationGracePeriodSeconds": _GRACE,
                    "securityContext": {
                        "runAsNonRoot": True,
                        "runAsUser": USER,
                        "runAsGroup": USER,
                        "seccompProfile": {"type": "RuntimeDefault"},
                    },
                    "containers": [_container(installation)],
                },
            },
        }
    }


def _container(installation: Installation) -> Json:
    watching = [f"--watch-namespace={','.join(installation.watch_namespaces)}"] if installation.watch_namespaces else []
    return {
        "name": NAME,
        "image": installation.image,
        # Probes and Prometheus come from outside the Pod, so the operator is told to listen there.
        "args": [
            f"--metrics-addr=:{METRICS_PORT}",
            f"--health-probe-bind-address=:{HEALTH_PORT}",
            "--enable-metrics=true",
            *watching,
            *installation.arguments,
        ],
        "ports": [
            {"name": "http", "containerPort": METRICS_PORT, "protocol": "TCP"},
            {"name": "health", "containerPort": HEALTH_PORT, "protocol": "TCP"},
        ],
        "livenessProbe": _probe("/healthz"),
        "readinessProbe": _probe("/readyz"),
        # No limit on the CPU: a throttled leader loses its lease.
        "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "512Mi"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
            "runAsNonRoot": True,
        },
    }


def _probe(path: str) -> Json:
    return {
        "httpGet": {"path": path, "port": "health"},
        "initialDelaySeconds": 5,
        "periodSeconds": 5,
        "failureThreshold": 5,
    }


def _object(api_version: str, kind: str, name: str, namespace: str | None = None) -> Json:
    metadata: Json = {"name": name, "labels": dict(LABELS)}
    if namespace is not None:
        metadata["namespace"] = namespace
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata}
