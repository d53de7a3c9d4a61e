"""The line of a Pod in `kubectl get pods`: readiness, and the one word that says how it is doing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kuberay.engine.apiserver.ages import age

if TYPE_CHECKING:
    from datetime import datetime

    from kuberay.engine.apiserver.storage import Object


def pod_cells(obj: Object, now: datetime) -> list[Any]:
    """The cells of `columns.POD`."""
    meta, spec, status = obj["metadata"], obj.get("spec", {}), obj.get("status", {})
    statuses = status.get("containerStatuses", [])
    ready = sum(bool(one.get("ready") and "running" in one.get("state", {})) for one in statuses)
    sidecars = _sidecars(obj)
    ready += sum(bool(one.get("ready")) for one in sidecars)
    gates = [gate.get("conditionType") for gate in spec.get("readinessGates", ())]
    open_gates = sum(_condition(status, gate) == "True" for gate in gates)
    return [
        meta["name"],
        f"{ready}/{len(spec.get('containers', ())) + _sidecar_count(spec)}",
        pod_state(obj),
        _restarts(status.get("initContainerStatuses", []) if _initializing(obj) else [*sidecars, *statuses], now),
        age(meta.get("creationTimestamp"), now),
        status.get("podIP") or "<none>",
        spec.get("nodeName") or "<none>",
        status.get("nominatedNodeName") or "<none>",
        f"{open_gates}/{len(gates)}" if gates else "<none>",
    ]


def pod_state(obj: Object) -> str:
    """One word, or two: Running, CrashLoopBackOff, Init:0/1, Terminating..."""
    status = obj.get("status", {})
    phase = status.get("phase", "Unknown")
    if "deletionTimestamp" in obj["metadata"]:
        if status.get("reason") == "NodeLost":
            return "Unknown"
        if phase not in ("Succeeded", "Failed"):
            return "Terminating"
    if (initializing := _initializing(obj)) is not None:
        return initializing
    reason = str(status.get("reason") or phase)
    running = False
    for container in reversed(status.get("containerStatuses", [])):
        state = container.get("state", {})
        if state.get("waiting", {}).get("reason"):
            reason = state["waiting"]["reason"]
        elif "terminated" in state:
            reason = _ending(state["terminated"])
        elif container.get("ready") and "running" in state:
            running = True
    if reason == "Completed" and running:
        return "Running" if _condition(status, "Ready") == "True" else "NotReady"
    return reason


def _initializing(obj: Object) -> str | None:
    """What the init containers are doing, or `None` when they are through."""
    spec, status = obj.get("spec", {}), obj.get("status", {})
    restartable = {c["name"] for c in spec.get("initContainers", ()) if c.get("restartPolicy") == "Always"}
    if _condition(status, "Initialized") == "True":
        return None
    for index, container in enumerate(status.get("initContainerStatuses", ())):
        state = container.get("state", {})
        if "terminated" in state and state["terminated"].get("exitCode") == 0:
            continue
        if container.get("name") in restartable and container.get("started"):
            continue
        if "terminated" in state:
            return f"Init:{_ending(state['terminated'])}"
        waiting = state.get("waiting", {}).get("reason")
        if waiting and waiting != "PodInitializing":
            return f"Init:{waiting}"
        return f"Init:{index}/{len(spec.get('initContainers', ()))}"
    return None


def _ending(terminated: Object) -> str:
    if terminated.get("reason"):
        return str(terminated["reason"])
    if terminated.get("signal"):
        return f"Signal:{terminated['signal']}"
    return f"ExitCode:{terminated.get('exitCode', 0)}"


def _sidecar_count(spec: Object) -> int:
    return sum(container.get("restartPolicy") == "Always" for container in spec.get("initContainers", ()))


def _sidecars(obj: Object) -> list[Object]:
    names = {
        one["name"] for one in obj.get("spec", {}).get("initContainers", ()) if one.get("restartPolicy") == "Always"
    }
    return [one for one in obj.get("status", {}).get("initContainerStatuses", ()) if one.get("name") in names]


def _restarts(statuses: list[Object], now: datetime) -> str:
    count = sum(one.get("restartCount", 0) for one in statuses)
    ends = [one.get("lastState", {}).get("terminated", {}).get("finishedAt") for one in statuses]
    latest = max((end for end in ends if end), default=None)
    return f"{count} ({age(latest, now)} ago)" if count and latest else str(count)


def _condition(status: Object, kind: str | None) -> str:
    return next((one.get("status", "") for one in status.get("conditions", ()) if one.get("type") == kind), "")
