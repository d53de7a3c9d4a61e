"""What keeps a Pod from its work and will not pass by itself, in words that its user can act on.

A kubelet tries again and again, and counts its attempts. So a trouble has one reason for as long as it lasts, whatever
step of its trying the kubelet is at, and a status tells it in the words of when it was first seen: a cluster that is
stuck must not be written about for ever.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kuberay.api.core import ContainerStatus, Pod

CRASHES = "CrashLoopBackOff"
IMAGE = "ImagePullBackOff"
INIT = "InitContainerFailing"
PROBE = "ProbeFailing"
UNSCHEDULABLE = "Unschedulable"

PLACING = 10.0
"""Seconds after which a Pod that fits on no node is told of: a cluster that grows by itself needs a moment."""
STARTING = 60.0
"""Seconds after which a container that runs and is not ready is told of."""

_NO_IMAGE = frozenset(
    {"ErrImageNeverPull", "ErrImagePull", "ImageInspectError", "ImagePullBackOff", "InvalidImageName"}
)
_NOT_MADE = frozenset({"CreateContainerConfigError", "CreateContainerError"})


class Trouble(msgspec.Struct, frozen=True, gc=False):
    """One Pod's trouble."""

    reason: str
    """For a condition; the same for as long as the trouble lasts."""
    pod: str
    made_at: float
    """When the Pod was made, in seconds since 1970."""
    message: str
    due: float = 0.0
    """From when on it is worth telling."""


def trouble(pod: Pod) -> Trouble | None:
    """What keeps a Pod from its work, if anything does. Pods that leave or have ended are somebody else's business."""
    if pod.is_ready or pod.is_leaving or pod.status.phase not in ("", "Pending", "Running"):
        return None
    found = _unplaced(pod)
    for status in pod.status.init_container_statuses:
        found = found or _not_started(pod, status) or _ended_before(pod, status)
    for status in pod.status.container_statuses:
        found = found or _not_started(pod, status) or _crashing(pod, status)
    for status in pod.status.container_statuses:
        found = found or _unready(pod, status)
    return found


def worth_telling(troubles: Iterable[Trouble], now: float) -> list[Trouble]:
    """Those that have lasted long enough."""
    return [each for each in troubles if each.due <= now]


def seconds_until_told(troubles: Iterable[Trouble], now: float) -> float | None:
    """Seconds until another one has lasted long enough."""
    return min((each.due - now for each in troubles if each.due > now), default=None)


def _unplaced(pod: Pod) -> Trouble | None:
    for condition in pod.status.conditions:
        if condition.type == "PodScheduled" and condition.status == "False" and condition.reason == UNSCHEDULABLE:
            since = _seconds(condition.last_transition_time) or _seconds(pod.metadata.creation_timestamp)
            message = f"it fits on no node{_quoted(condition.message)}. Add nodes, or change what it asks for"
            return _trouble(pod, UNSCHEDULABLE, message, since + PLACING)
    return None


def _not_started(pod: Pod, status: ContainerStatus) -> Trouble | None:
    waiting = status.state.waiting
    if waiting is None:
        return None
    if waiting.reason in _NO_IMAGE:
        message = f"the image of container {status.name} cannot be had{_quoted(waiting.message)}"
        return _trouble(pod, IMAGE, f"{message}. Check the image's name and tag, and imagePullSecrets")
    if waiting.reason in _NOT_MADE:
        message = f"container {status.name} cannot be made{_quoted(waiting.message)}"
        return _trouble(pod, waiting.reason, f"{message}. Check the Secrets, ConfigMaps and volumes it refers to")
    return None


def _ended_before(pod: Pod, status: ContainerStatus) -> Trouble | None:
    """An init container that fails: it starts again, and what comes after it waits."""
    ended = status.state.terminated or status.last_state.terminated
    if ended is None or ended.exit_code == 0 or status.ready:
        return None
    message = f"init container {status.name} has failed with exit code {ended.exit_code}"
    return _trouble(pod, INIT, f"{message}. See kubectl logs {pod.name} -c {status.name}")


def _crashing(pod: Pod, status: ContainerStatus) -> Trouble | None:
    """A container that was started again and is not ready: whether it waits, runs or has just ended."""
    ended = status.last_state.terminated or status.state.terminated
    if not status.restart_count or status.ready or ended is None:
        return None
    how = f"exit code {ended.exit_code}" + (f", {ended.reason}" if ended.reason else "")
    message = f"container {status.name} has ended ({how}), was started again and is not ready"
    return _trouble(pod, CRASHES, f"{message}. See kubectl logs {pod.name} -c {status.name} --previous")


def _unready(pod: Pod, status: ContainerStatus) -> Trouble | None:
    running = status.state.running
    if running is None or status.ready:
        return None
    message = f"container {status.name} runs for more than {STARTING:.0f} seconds and is not ready, as its probes tell"
    since = _seconds(running.started_at)
    return _trouble(pod, PROBE, f"{message}. See kubectl describe pod {pod.name}", since + STARTING)


def _trouble(pod: Pod, reason: str, message: str, due: float = 0.0) -> Trouble:
    made_at = _seconds(pod.metadata.creation_timestamp)
    return Trouble(reason, pod.name, made_at, f"{_start(pod.name)}{message}", due)


def _start(pod: str) -> str:
    return f"Pod {pod}: "


def is_told_by(message: str, told: Trouble) -> bool:
    """Whether a message is about this Pod."""
    return message.startswith(_start(told.pod))


def _quoted(text: str) -> str:
    return f" ({text.rstrip('.')})" if text else ""


def _seconds(text: str | None) -> float:
    """A time of Kubernetes in seconds since 1970; what cannot be read is long ago."""
    try:
        return datetime.fromisoformat(text or "").timestamp()
    except ValueError:
        return 0.0
