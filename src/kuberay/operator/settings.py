"""The settings of an operator process: flags and environment variables, read once and passed on.

The variables and their rules are KubeRay's. One default is not: head Pods have a fixed name unless
`ENABLE_DETERMINISTIC_HEAD_POD_NAME` is `false`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kuberay.api.gates import DEFAULT_GATES, FeatureGates
from kuberay.build.options import BuildOptions
from kuberay.controllers.options import ControllerOptions

if TYPE_CHECKING:
    from collections.abc import Mapping

DEFAULT_REQUEUE_SECONDS = 300
_LONGEST = 2**63 // 10**9
"""Seconds that a duration of Go can hold: about 292 years."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Everything the process can be told."""

    watch_namespaces: tuple[str, ...] = ()
    """The namespaces to work in; none named means all of them."""
    reconcile_concurrency: int = 8
    """How many clusters are worked on at a time."""
    health_address: str | None = "127.0.0.1:8082"
    """Where `/healthz` and `/readyz` are served; `None` for nowhere."""
    metrics_address: str | None = None
    """Where `/metrics` is served; `None` for nowhere."""
    webhook_address: str | None = None
    """Where admission webhooks are served; `None` for nowhere."""
    cluster_metrics: bool = False
    """Whether metrics tell of each Ray cluster, too."""
    controllers: ControllerOptions = field(default_factory=ControllerOptions)


def from_environment(
    environment: Mapping[str, str],
    *,
    watch_namespaces: tuple[str, ...] = (),
    reconcile_concurrency: int = 8,
    health_address: str | None = "127.0.0.1:8082",
    gates: FeatureGates = DEFAULT_GATES,
) -> Settings:
    """The settings that variables and flags make together."""
    return Settings(
        watch_namespaces=watch_namespaces,
        reconcile_concurrency=reconcile_concurrency,
        health_address=health_address,
        controllers=ControllerOptions(
            build=BuildOptions(
                cluster_domain=environment.get("CLUSTER_DOMAIN") or "cluster.local",
                init_container_injection=_is_not_false(environment, "ENABLE_INIT_CONTAINER_INJECTION"),
                probes_injection=_is_not_false(environment, "ENABLE_PROBES_INJECTION"),
                deterministic_head_name=_is_not_false(environment, "ENABLE_DETERMINISTIC_HEAD_POD_NAME"),
                login_shell=_is_true(environment, "ENABLE_LOGIN_SHELL"),
                head_cluster_ip_service=_is_true(environment, "ENABLE_RAY_HEAD_CLUSTER_IP_SERVICE"),
            ),
            gates=gates,
            ingress_on_openshift=_is_true(environment, "USE_INGRESS_ON_OPENSHIFT"),
            random_pod_delete=_is_true(environment, "ENABLE_RANDOM_POD_DELETE"),
            redis_cleanup=_is_not_false(environment, "ENABLE_GCS_FT_REDIS_CLEANUP"),
            resync=_resync(environment.get("RAYCLUSTER_DEFAULT_REQUEUE_SECONDS_ENV")),
        ),
    )


def listening(address: str) -> tuple[str, int]:
    """Where to listen: an empty host means every interface, port 0 any free one.

    :raises ValueError: it cannot be read.
    """
    host, separator, port = address.rpartition(":")
    if not separator or not port.isdecimal() or int(port) > 65535:
        raise ValueError(f"{address!r} is no address to listen on; host:port is wanted, such as 127.0.0.1:8082")
    return host.strip("[]"), int(port)


def _is_true(environment: Mapping[str, str], name: str) -> bool:
    return environment.get(name, "").lower() == "true"


def _is_not_false(environment: Mapping[str, str], name: str) -> bool:
    return environment.get(name, "").lower() != "false"


def _resync(text: str | None) -> float | None:
    """Anything but an integer that Go can wait for means the default, and nothing above zero means never."""
    try:
        seconds = int(text) if text is not None else DEFAULT_REQUEUE_SECONDS
    except ValueError:
        seconds = DEFAULT_REQUEUE_SECONDS
    if seconds > _LONGEST:
        seconds = DEFAULT_REQUEUE_SECONDS
    return float(seconds) if seconds > 0 else None
