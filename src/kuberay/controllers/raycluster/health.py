"""When a Pod is beyond repair: Kubernetes will not restart its Ray, so only a new Pod helps."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kuberay.api.core import Pod, Terminated


def beyond_repair(pod: Pod) -> str | None:
    """Why a Pod has to be replaced, or `None` while it may still work or recover.

    The kubelet restarts containers of a running Pod as its restart policy says; it never restarts a Pod that has ended.
    """
    phase = pod.status.phase
    if phase in ("Failed", "Succeeded"):
        cause = ": ".join(filter(None, (pod.status.reason, pod.status.message)))
        return f"the Pod has ended ({phase}{f', {cause}' if cause else ''}{_exit(ray_container_end(pod))})"
    if phase == "Running" and pod.spec.restart_policy == "Never":
        ended = ray_container_end(pod)
        return None if ended is None else f"its Ray container has ended{_exit(ended)} and restartPolicy is Never"
    return None


def ray_container_end(pod: Pod) -> Terminated | None:
    """How the Ray container ended, if it has. It is found by name: statuses come in any order."""
    if not pod.spec.containers:
        return None
    name = pod.spec.containers[0].name
    return next((status.state.terminated for status in pod.status.container_statuses if status.name == name), None)


def is_running_and_ready(pod: Pod) -> bool:
    """Whether a Pod runs and nothing says that it is not ready."""
    return pod.status.phase == "Running" and not any(
        condition.type == "Ready" and condition.status != "True" for condition in pod.status.conditions
    )


def created_at(pod: Pod) -> float | None:
    """When a Pod was made, in seconds since 1970."""
    try:
        return datetime.fromisoformat(pod.metadata.creation_timestamp or "").timestamp()
    except ValueError:
        return None


def seconds_until_age(pod: Pod, least: float, now: float) -> float:
    """Seconds until a Pod is so old. A Pod from the future only tells that clocks differ: it is old enough."""
    made = created_at(pod)
    if made is None or made > now:
        return 0.0
    return made + least - now


def _exit(ended: Terminated | None) -> str:
    if ended is None:
        return ""
    return f", exit code {ended.exit_code}" + (f", {ended.reason}" if ended.reason else "")
