"""What to do next about a Pod: which containers to start, and when to look again; pure.

The history of each container on this node comes in, steps come out. The rules are a kubelet's, with one difference:
the back-off of a container that keeps ending starts at one second, not ten, because whoever waits sits in front of
the machine. It doubles up to five minutes, and is forgotten when the container has run for ten.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

Object = dict[str, Any]

FIRST_BACK_OFF = timedelta(seconds=1)
LONGEST_BACK_OFF = timedelta(minutes=5)
FORGIVEN_AFTER = timedelta(minutes=10)


@dataclass(frozen=True, slots=True)
class Waiting:
    """Not started, and why."""

    reason: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True)
class Running:
    """Started, and when."""

    started_at: datetime


@dataclass(frozen=True, slots=True)
class Terminated:
    """Ended, and how. `started_at` is `None` for one that could not be started."""

    exit_code: int
    reason: str
    finished_at: datetime
    started_at: datetime | None = None
    message: str = ""
    signal: int = 0


@dataclass(frozen=True, slots=True)
class Container:
    """The history of one container on this node. `attempt` counts from zero: it is the number of restarts."""

    state: Waiting | Running | Terminated = Waiting()
    last: Terminated | None = None
    attempt: int = 0
    ended_in_a_row: int = 0
    ready: bool = False
    """Whether its readiness probe, if it has one, says so."""
    started: bool = False
    """Whether it runs and its startup probe, if it has one, has passed."""

    def running(self, now: datetime) -> Container:
        """The history after a start. Every start but the first is one more attempt."""
        return replace(
            self, state=Running(now), last=self._previous, attempt=self.next_attempt, ready=False, started=False
        )

    def ended(self, how: Terminated) -> Container:
        """The history after an end, also of an attempt that failed before it ran."""
        lasted = how.finished_at - (how.started_at or how.finished_at)
        in_a_row = 1 if lasted >= FORGIVEN_AFTER else self.ended_in_a_row + 1
        if isinstance(self.state, Running):
            return replace(self, state=how, ended_in_a_row=in_a_row, ready=False, started=False)
        return replace(self, state=how, last=self._previous, attempt=self.next_attempt, ended_in_a_row=in_a_row)

    def blocked(self, reason: str, message: str) -> Container:
        """The history while something outside the container keeps it from starting."""
        return replace(self, state=Waiting(reason, message)) if isinstance(self.state, Waiting) else self

    @property
    def next_attempt(self) -> int:
        """The number of the attempt that a start makes."""
        return self.attempt + 1 if self._previous else self.attempt

    @property
    def _previous(self) -> Terminated | None:
        return self.state if isinstance(self.state, Terminated) else self.last

    @property
    def back_off(self) -> timedelta:
        """How long it rests after its last end; the first restart is immediate."""
        if self.ended_in_a_row <= 1:
            return timedelta(0)
        doublings = min(self.ended_in_a_row - 2, 20)
        return min(FIRST_BACK_OFF * (1 << doublings), LONGEST_BACK_OFF)

    def resumes_at(self) -> datetime | None:
        """When a container that has ended may start again."""
        return self.state.finished_at + self.back_off if isinstance(self.state, Terminated) else None


@dataclass(frozen=True, slots=True)
class Start:
    """Start a container."""

    container: str


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do now, and when to look again if nothing happens before."""

    starts: tuple[Start, ...] = ()
    look_again_at: datetime | None = None


def specs(pod: Object) -> dict[str, Object]:
    """Every container's spec by name, init containers first."""
    return {spec["name"]: spec for spec in [*init_specs(pod), *main_specs(pod)]}


def init_specs(pod: Object) -> list[Object]:
    return pod["spec"].get("initContainers") or []


def main_specs(pod: Object) -> list[Object]:
    return pod["spec"].get("containers") or []


def is_sidecar(spec: Object) -> bool:
    """An init container that keeps running beside the others."""
    return spec.get("restartPolicy") == "Always"


def restart_policy(pod: Object) -> str:
    return str(pod["spec"].get("restartPolicy") or "Always")


def will_restart(pod: Object, spec: Object, ended: Terminated, *, init: bool) -> bool:
    """Whether a container that has ended is started again."""
    if is_sidecar(spec):
        return True
    policy = restart_policy(pod)
    if init:
        return ended.exit_code != 0 and policy != "Never"
    return policy == "Always" or (policy == "OnFailure" and ended.exit_code != 0)


def is_initialized(pod: Object, containers: Mapping[str, Container]) -> bool:
    """Whether every init container has done its part."""
    return all(_has_initialized(spec, containers[spec["name"]]) for spec in init_specs(pod))


def is_over(pod: Object, containers: Mapping[str, Container]) -> bool:
    """Whether nothing of the Pod runs, or will run again."""
    if has_failed_init(pod, containers):
        return not any(isinstance(each.state, Running) for each in containers.values())
    return is_initialized(pod, containers) and all(
        isinstance(state := containers[spec["name"]].state, Terminated)
        and not will_restart(pod, spec, state, init=False)
        for spec in main_specs(pod)
    )


def has_failed_init(pod: Object, containers: Mapping[str, Container]) -> bool:
    return any(
        isinstance(state := containers[spec["name"]].state, Terminated)
        and state.exit_code != 0
        and not will_restart(pod, spec, state, init=True)
        for spec in init_specs(pod)
    )


def decide(pod: Object, containers: Mapping[str, Container], now: datetime) -> Plan:
    """The next steps of a Pod that is to run."""
    if is_over(pod, containers) or has_failed_init(pod, containers):
        return Plan()
    due: list[Start] = []
    later: list[datetime] = []
    for spec in init_specs(pod):
        container = containers[spec["name"]]
        if not (isinstance(container.state, Running) or (_has_initialized(spec, container) and not is_sidecar(spec))):
            _start_or_wait(spec["name"], container, now, due, later)
        if not _has_initialized(spec, container):
            return Plan(tuple(due), min(later, default=None))
    for spec in main_specs(pod):
        container = containers[spec["name"]]
        state = container.state
        if isinstance(state, Waiting) or (isinstance(state, Terminated) and will_restart(pod, spec, state, init=False)):
            _start_or_wait(spec["name"], container, now, due, later)
    return Plan(tuple(due), min(later, default=None))


def _start_or_wait(name: str, container: Container, now: datetime, due: list[Start], later: list[datetime]) -> None:
    resumes = container.resumes_at()
    if resumes is None or resumes <= now:
        due.append(Start(name))
    else:
        later.append(resumes)


def _has_initialized(spec: Object, container: Container) -> bool:
    if is_sidecar(spec):
        return container.started or container.attempt > 0
    return isinstance(container.state, Terminated) and container.state.exit_code == 0
