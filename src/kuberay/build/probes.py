"""Liveness and readiness of Ray containers: how Kubernetes learns that a Ray node works.

Since 2.53 Ray answers one HTTP request for everything that runs on a node; before, a script asked the parts.
"""

from __future__ import annotations

import re
from typing import Any

from kuberay.api.versions import RayVersion
from kuberay.build import names

_UNIFIED_SINCE = RayVersion(2, 53)
_LARGEST_PORT = 2**31 - 1


def has_unified_check(ray_version: str | None) -> bool:
    """Whether this Ray has `/api/healthz`. A version that cannot be read counts as an old one."""
    version = RayVersion.parse(ray_version or "")
    return version is not None and version >= _UNIFIED_SINCE


def inject(
    container: dict[str, Any], node_type: str, params: dict[str, str], ray_version: str | None, creator: str
) -> None:
    """Add the probes that the user left out.

    A worker of a RayService is ready only while its Serve proxy answers, and stops being so at the first failure: that
    is what takes it out of the Service.
    """
    agent = _port(params.get("dashboard-agent-listen-port"), names.DASHBOARD_AGENT_PORT)
    raylet = _wget(2, agent, "/api/local_raylet_healthz")
    handler: dict[str, Any]
    if has_unified_check(ray_version):
        handler = {"httpGet": {"path": "/api/healthz", "port": agent}}
    elif node_type == names.HEAD:
        dashboard = _port(params.get("dashboard-port"), names.DEFAULT_PORTS["dashboard"])
        handler = _script(raylet, _wget(10, dashboard, "/api/gcs_healthz"))
    else:
        handler = _script(raylet)

    timeout = 5 if node_type == names.HEAD else 2
    ready = handler
    ready_failures = 10
    if node_type == names.WORKER and creator == "RayService":
        ready = _script(raylet, _wget(10, _serve_port(container), "/-/healthz"))
        ready_failures = 1
    if not container.get("livenessProbe"):
        container["livenessProbe"] = _probe(handler, delay=30, timeout=timeout, failures=120)
    if not container.get("readinessProbe"):
        container["readinessProbe"] = _probe(ready, delay=10, timeout=timeout, failures=ready_failures)


def _probe(handler: dict[str, Any], *, delay: int, timeout: int, failures: int) -> dict[str, Any]:
    return {
        **handler,
        "initialDelaySeconds": delay,
        "timeoutSeconds": timeout,
        "periodSeconds": 5,
        "successThreshold": 1,
        "failureThreshold": failures,
    }


def _script(*parts: str) -> dict[str, Any]:
    return {"exec": {"command": ["bash", "-c", " && ".join(parts)]}}


def _wget(seconds: int, port: int, path: str) -> str:
    return f"wget --tries 1 -T {seconds} -q -O- http://localhost:{port}{path} | grep success"


def _port(param: str | None, default: int) -> int:
    """A port parameter; anything but a 32-bit decimal number is taken for the default."""
    found = re.fullmatch(r"([+-]?)0*([0-9]{1,10})", param or "")
    port = int("".join(found.groups())) if found is not None else default
    return port if abs(port) <= _LARGEST_PORT else default


def _serve_port(container: dict[str, Any]) -> int:
    declared = (port["containerPort"] for port in container.get("ports", ()) if port.get("name") == "serve")
    return next(declared, names.DEFAULT_PORTS["serve"])
