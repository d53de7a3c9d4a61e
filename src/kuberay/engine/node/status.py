"""A Pod's status as a kubelet writes it, from the history of its containers; pure."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from kuberay.engine.node import pod as pods
from kuberay.engine.node.pod import Container, Running, Terminated, Waiting

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kuberay.engine.node.pod import Object

ENGINE_STOPPED = "EngineStopped"
CONDITIONS = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")


def stamp(moment: datetime) -> str:
    """A time as the API writes it."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


def of_pod(
    pod: Object,
    containers: Mapping[str, Container],
    *,
    pod_ip: str,
    host_ip: str,
    started_at: datetime,
    now: datetime,
    leaving: bool = False,
) -> Object:
    """The whole status. Conditions keep the time of their last change; those of others are left as they are.

    :param leaving: the Pod is being deleted, so that what has ended is not started again.
    """
    if leaving:
        pod = {**pod, "spec": {**pod["spec"], "restartPolicy": "Never"}}
    phase = _phase(pod, containers)
    status: Object = {
        "phase": phase,
        "conditions": _conditions(pod, containers, phase, pod_ip, now),
        "startTime": stamp(started_at),
        "hostIP": host_ip,
        "hostIPs": [{"ip": host_ip}],
        "containerStatuses": [_container(pod, spec, containers, init=False) for spec in pods.main_specs(pod)],
    }
    if pods.init_specs(pod):
        status["initContainerStatuses"] = [
            _container(pod, spec, containers, init=True) for spec in pods.init_specs(pod)
        ]
    if pod_ip:
        status |= {"podIP": pod_ip, "podIPs": [{"ip": pod_ip}]}
    return status


def restored(pod: Object, now: datetime) -> dict[str, Container]:
    """The histories of a Pod's containers from its status, after an earlier life of this node has ended.

    What ran then was ended by the engine's end. Init containers run again: nothing they made in memory is left.
    """
    known = {
        status["name"]: status
        for key in ("initContainerStatuses", "containerStatuses")
        for status in (pod.get("status") or {}).get(key) or ()
    }
    over = (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")
    found = {}
    for name, spec in pods.specs(pod).items():
        container = _restored(known.get(name) or {}, now)
        if not over and spec in pods.init_specs(pod) and isinstance(container.state, Terminated):
            container = replace(container, state=Waiting(), last=container.state, ended_in_a_row=0)
        found[name] = container
    return found


def _restored(status: Object, now: datetime) -> Container:
    state, last = status.get("state") or {}, status.get("lastState") or {}
    attempt = status.get("restartCount") or 0
    earlier = _terminated(last["terminated"]) if last.get("terminated") else None
    if running := state.get("running"):
        started = moment(running["startedAt"]) if running.get("startedAt") else None
        ended = Terminated(137, ENGINE_STOPPED, now, started, "the local engine stopped while this container ran")
        return Container(ended, earlier, attempt)
    if terminated := state.get("terminated"):
        return Container(_terminated(terminated), earlier, attempt)
    if earlier:  # it was waiting to be started again
        return Container(earlier, None, attempt, ended_in_a_row=1)
    return Container()


def _terminated(raw: Object) -> Terminated:
    return Terminated(
        exit_code=raw.get("exitCode", 0),
        reason=raw.get("reason", ""),
        finished_at=moment(raw["finishedAt"]) if raw.get("finishedAt") else datetime.fromtimestamp(0, UTC),
        started_at=moment(raw["startedAt"]) if raw.get("startedAt") else None,
        message=raw.get("message", ""),
        signal=raw.get("signal", 0),
    )


def _phase(pod: Object, containers: Mapping[str, Container]) -> str:
    if pods.has_failed_init(pod, containers):
        return "Failed"
    states = [containers[spec["name"]] for spec in pods.main_specs(pod)]
    if not pods.is_initialized(pod, containers):
        return "Pending"
    if any(isinstance(each.state, Waiting) and not each.last for each in states):
        return "Pending"
    if not pods.is_over(pod, containers):
        return "Running"
    succeeded = all(isinstance(each.state, Terminated) and each.state.exit_code == 0 for each in states)
    return "Succeeded" if succeeded else "Failed"


def _container(pod: Object, spec: Object, containers: Mapping[str, Container], *, init: bool) -> Object:
    name = spec["name"]
    container = containers[name]
    state, last = _shown(pod, spec, containers, init=init)
    ready = container.ready and isinstance(container.state, Running)
    if init and not pods.is_sidecar(spec):
        ready = isinstance(container.state, Terminated) and container.state.exit_code == 0
    started = container.started and isinstance(container.state, Running)
    shown: Object = {
        "name": name,
        "image": spec.get("image", ""),
        "imageID": "",
        "ready": ready,
        "started": started,
        "restartCount": container.attempt,
        "state": state,
        "lastState": last,
    }
    if not isinstance(container.state, Waiting):
        shown["containerID"] = f"kuberay://{pod['metadata']['uid']}/{name}/{container.attempt}"
    return shown


def _shown(pod: Object, spec: Object, containers: Mapping[str, Container], *, init: bool) -> tuple[Object, Object]:
    """The state and the last state. A container that rests before its next attempt is shown as waiting."""
    container = containers[spec["name"]]
    last = {"terminated": _ended(container.last)} if container.last else {}
    match container.state:
        case Running(started_at):
            return {"running": {"startedAt": stamp(started_at)}}, last
        case Waiting(reason, message):
            default = "ContainerCreating" if init or pods.is_initialized(pod, containers) else "PodInitializing"
            waiting = {"reason": reason or default}
            return {"waiting": {**waiting, "message": message} if message else waiting}, last
        case Terminated() as ended:
            if pods.will_restart(pod, spec, ended, init=init) and container.back_off:
                return {"waiting": _resting(pod, spec["name"], container)}, {"terminated": _ended(ended)}
            return {"terminated": _ended(ended)}, last


def _resting(pod: Object, name: str, container: Container) -> Object:
    metadata = pod["metadata"]
    whose = f"{metadata['name']}_{metadata['namespace']}({metadata['uid']})"
    seconds = int(container.back_off.total_seconds())
    return {
        "reason": "CrashLoopBackOff",
        "message": f"back-off {seconds}s restarting failed container={name} pod={whose}",
    }


def _ended(ended: Terminated) -> Object:
    shown: Object = {"exitCode": ended.exit_code, "reason": ended.reason, "finishedAt": stamp(ended.finished_at)}
    if ended.started_at:
        shown["startedAt"] = stamp(ended.started_at)
    if ended.message:
        shown["message"] = ended.message
    if ended.signal:
        shown["signal"] = ended.signal
    return shown


def _conditions(
    pod: Object, containers: Mapping[str, Container], phase: str, pod_ip: str, now: datetime
) -> list[Object]:
    before = {each["type"]: each for each in (pod.get("status") or {}).get("conditions") or ()}
    wanted = [
        _condition("PodReadyToStartContainers", bool(pod_ip)),
        _initialized(pod, containers),
        _ready(pod, containers, phase, before),
        _containers_ready(pod, containers, phase),
        _condition("PodScheduled", True),
    ]
    found = []
    for condition in wanted:
        old = before.get(condition["type"])
        changed = old is None or old.get("status") != condition["status"]
        since = stamp(now) if changed or old is None else old.get("lastTransitionTime") or stamp(now)
        found.append({**condition, "lastTransitionTime": since})
    return found + [condition for kind, condition in before.items() if kind not in CONDITIONS]


def _condition(kind: str, holds: bool, reason: str = "", message: str = "") -> Object:
    found: dict[str, Any] = {"type": kind, "status": "True" if holds else "False"}
    if reason:
        found["reason"] = reason
    if message:
        found["message"] = message
    return found


def _initialized(pod: Object, containers: Mapping[str, Container]) -> Object:
    missing = [
        spec["name"]
        for spec in pods.init_specs(pod)
        if not _has_succeeded(containers[spec["name"]]) and not containers[spec["name"]].started
    ]
    if not missing:
        return _condition("Initialized", True)
    text = f"containers with incomplete status: [{' '.join(missing)}]"
    return _condition("Initialized", False, "ContainersNotInitialized", text)


def _containers_ready(pod: Object, containers: Mapping[str, Container], phase: str) -> Object:
    return _readiness("ContainersReady", pod, containers, phase)


def _ready(pod: Object, containers: Mapping[str, Container], phase: str, before: Mapping[str, Object]) -> Object:
    condition = _readiness("Ready", pod, containers, phase)
    gates = [gate["conditionType"] for gate in pod["spec"].get("readinessGates") or ()]
    closed = [gate for gate in gates if (before.get(gate) or {}).get("status") != "True"]
    if condition["status"] == "True" and closed:
        text = f"corresponding condition of pod readiness gate {closed[0]!r} is not True"
        return _condition("Ready", False, "ReadinessGatesNotReady", text)
    return condition


def _readiness(kind: str, pod: Object, containers: Mapping[str, Container], phase: str) -> Object:
    if phase == "Succeeded":
        return _condition(kind, False, "PodCompleted")
    if phase == "Failed":
        return _condition(kind, False, "PodFailed")
    watched = [*pods.main_specs(pod), *(spec for spec in pods.init_specs(pod) if pods.is_sidecar(spec))]
    unready = [
        spec["name"]
        for spec in watched
        if not (containers[spec["name"]].ready and isinstance(containers[spec["name"]].state, Running))
    ]
    if not unready:
        return _condition(kind, True)
    return _condition(kind, False, "ContainersNotReady", f"containers with unready status: [{' '.join(unready)}]")


def _has_succeeded(container: Container) -> bool:
    return isinstance(container.state, Terminated) and container.state.exit_code == 0
