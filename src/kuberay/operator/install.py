"""The objects that run the operator inside a cluster: its account and rights, its Deployment, and where to scrape it.

Names and labels are KubeRay's, so that tools that look for its operator find this one. What installations in different
namespaces would share is named after the namespace, too, so that none takes the rights of another.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kuberay.api import names
from kuberay.operator import rights
from kuberay.operator.flags import parse
from kuberay.operator.startup import StartupError, prepare

if TYPE_CHECKING:
    from kuberay.operator.rights import Right
    from kuberay.operator.startup import Startup

Json = dict[str, Any]

NAME = "kuberay-operator"
LABELS = {"app.kubernetes.io/name": "kuberay", "app.kubernetes.io/component": NAME}
METRICS_PORT = 8080
HEALTH_PORT = 8082
USER = 65532

_RBAC = "rbac.authorization.k8s.io"
_GRACE = 40
"""Seconds to stop: half a minute for what is under way, then the last events and the lease."""
_ROLLING = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
"""The next operator stands by before the last one ends. Said in full, so that an apply can take it back: the API server
does not let go of its own defaults, and refuses them beside `Recreate`."""
_ONE_AT_A_TIME = {"type": "Recreate"}
"""Without an election the last operator has to be gone before the next one begins."""
_DEFAULT = "default"
_UNFIT = {
    "context": "in a Pod the operator uses its own account",
    "health-probe-bind-address": f"the Pod's probes ask at port {HEALTH_PORT}",
    "kubeconfig": "in a Pod the operator uses its own account",
    "log-file-path": "the Pod has no place for files; what it prints is its log",
    "metrics-addr": f"the Service leads to port {METRICS_PORT}",
    "watch-namespace": "rights depend on it, so it is an option of the installation itself",
}
"""Flags of the operator with which it would not start, or not be found."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Installation:
    """How the operator shall run in a cluster."""

    image: str
    namespace: str = "kuberay-system"
    replicas: int = 1
    watch_namespaces: tuple[str, ...] = ()
    """Where it works; nowhere in particular means everywhere."""
    arguments: tuple[str, ...] = ()
    """Further flags of the operator."""


def objects(installation: Installation) -> list[Json]:
    """All of them, in an order in which they can be created.

    :raises FlagError: the operator would not understand a flag.
    :raises HelpWanted: one of the flags asks for help.
    :raises StartupError: the operator would not start, or not do what it is installed for.
    """
    startup = _startup(installation)
    namespace = installation.namespace
    made: list[Json] = []
    if namespace != _DEFAULT:
        made.append(_object("v1", "Namespace", namespace))
    made += [_object("v1", "ServiceAccount", NAME, namespace), *_rights(installation)]
    if startup.leader_election:
        where = startup.leader_election_namespace or namespace
        made += _role(f"{_own(namespace)}:leader-election", rights.ELECTION, namespace, where)
    return [*made, _service(namespace), _deployment(installation, startup)]


def _startup(installation: Installation) -> Startup:
    """How the operator will start."""
    if not installation.image.strip():
        raise StartupError("--image is empty; the image of the operator is wanted")
    if wrong := names.dns_1123_label(installation.namespace):
        raise StartupError(f"--namespace: {wrong}")
    for flag in sorted(parse(installation.arguments).given & _UNFIT.keys()):
        raise StartupError(f"--{flag} cannot be given here: {_UNFIT[flag]}")
    startup = prepare(parse(_arguments(installation)), {}, _read_in_pod)
    if installation.replicas > 1 and not startup.leader_election:
        raise StartupError("several operators without leader election would all work at once, against each other")
    return startup


def _read_in_pod(file: str) -> str:
    raise StartupError(f"--config={file}: the Pod has no such file; flags can say the same")


def _rights(installation: Installation) -> list[Json]:
    """Rights everywhere, or where the operator works and the little that it needs elsewhere.

    What is bound everywhere has one name in both cases: whoever turns to few namespaces keeps no more than is printed.
    """
    namespace = installation.namespace
    name = _own(namespace)
    watched = installation.watch_namespaces
    if not watched:
        return _cluster_role(name, rights.USED + rights.OUTSIDE + rights.GRANTED, namespace)
    there = f"{name}:watched"
    made = [_object(f"{_RBAC}/v1", "ClusterRole", there) | {"rules": rights.rules(rights.USED + rights.GRANTED)}]
    binding = _binding("ClusterRole", there, namespace)
    made += [_object(f"{_RBAC}/v1", "RoleBinding", there, each) | binding for each in watched]
    if _DEFAULT not in watched:
        made += _role(f"{name}:events", rights.IN_DEFAULT, namespace, _DEFAULT)
    return made + _cluster_role(name, rights.OUTSIDE, namespace)


def _own(namespace: str) -> str:
    """What an installation calls that which others may have beside it; no namespace has a colon in its name."""
    return f"{NAME}:{namespace}"


def _cluster_role(name: str, granted: tuple[Right, ...], namespace: str) -> list[Json]:
    """Rights everywhere for the account of a namespace."""
    return [
        _object(f"{_RBAC}/v1", "ClusterRole", name) | {"rules": rights.rules(granted)},
        _object(f"{_RBAC}/v1", "ClusterRoleBinding", name) | _binding("ClusterRole", name, namespace),
    ]


def _role(name: str, granted: tuple[Right, ...], namespace: str, where: str) -> list[Json]:
    """Rights in one namespace for the account of another, or of the same."""
    return [
        _object(f"{_RBAC}/v1", "Role", name, where) | {"rules": rights.rules(granted)},
        _object(f"{_RBAC}/v1", "RoleBinding", name, where) | _binding("Role", name, namespace),
    ]


def _binding(kind: str, role: str, namespace: str) -> Json:
    subject = {"kind": "ServiceAccount", "name": NAME, "namespace": namespace}
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


def _deployment(installation: Installation, startup: Startup) -> Json:
    return _object("apps/v1", "Deployment", NAME, installation.namespace) | {
        "spec": {
            "replicas": installation.replicas,
            "strategy": _ROLLING if startup.leader_election else _ONE_AT_A_TIME,
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


def _arguments(installation: Installation) -> list[str]:
    """The operator's command line."""
    watching = [f"--watch-namespace={','.join(installation.watch_namespaces)}"] if installation.watch_namespaces else []
    # Probes and Prometheus come from outside the Pod, so the operator is told to listen there.
    listening = [f"--metrics-addr=:{METRICS_PORT}", f"--health-probe-bind-address=:{HEALTH_PORT}"]
    return [*listening, "--enable-metrics=true", *watching, *installation.arguments]


def _container(installation: Installation) -> Json:
    return {
        "name": NAME,
        "image": installation.image,
        "args": _arguments(installation),
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
