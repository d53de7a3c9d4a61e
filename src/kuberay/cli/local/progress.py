"""What each Pod is doing, in words, while a cluster starts. Pure: objects in, lines out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


HOPELESS_RESTARTS = 3


def cluster_line(cluster: Mapping[str, Any]) -> str:
    """One line about a RayCluster: how far it is and, when something blocks it, what."""
    status = cluster.get("status", {})
    if "desiredWorkerReplicas" not in status:
        return f"{cluster['metadata']['name']}: accepted"
    ready, desired = status.get("readyWorkerReplicas", 0), status.get("desiredWorkerReplicas", 0)
    state = status.get("state") or "starting"
    line = f"{cluster['metadata']['name']}: {state}, {ready} of {desired} workers ready"
    trouble = [
        each["message"] or each["reason"]
        for each in status.get("conditions", [])
        if each["type"] in ("ReplicaFailure", "Blocked", "PodsBlocked") and each["status"] == "True"
    ]
    return f"{line} ({'; '.join(trouble)})" if trouble else line


def pod_line(pod: Mapping[str, Any]) -> tuple[str, str]:
    """A Pod's name and what it is doing."""
    return pod["metadata"]["name"], doing(pod)


def doing(pod: Mapping[str, Any]) -> str:
    """What a Pod is doing, as a person would say it."""
    status = pod.get("status", {})
    if pod["metadata"].get("deletionTimestamp"):
        return "stopping"
    if not pod["spec"].get("nodeName"):
        return "waiting for a node"
    for container in status.get("initContainerStatuses", []):
        state = container.get("state", {})
        if "running" in state:
            return f"waiting in {container['name']}"
        trouble = _trouble(container)
        if trouble:
            return trouble
    containers = status.get("containerStatuses", [])
    for container in containers:
        trouble = _trouble(container)
        if trouble:
            return trouble
    if containers and all(container.get("ready") for container in containers):
        return "ready"
    if containers and all("running" in container.get("state", {}) for container in containers):
        return "running, not ready yet"
    return "starting"


def _trouble(container: Mapping[str, Any]) -> str:
    state = container.get("state", {})
    waiting, ended = state.get("waiting", {}), state.get("terminated", {})
    if waiting.get("reason") not in (None, "", "PodInitializing", "ContainerCreating"):
        return f"{container['name']}: {waiting['reason']}" + _because(waiting.get("message"))
    if ended.get("exitCode"):
        return f"{container['name']} ended with code {ended['exitCode']}" + _because(ended.get("message"))
    return ""


def given_up(pods: Iterable[Mapping[str, Any]]) -> tuple[Mapping[str, Any], str] | None:
    """A Pod and its container that waiting does not help: it cannot run at all, or has ended again and again."""
    for pod in pods:
        status = pod.get("status", {})
        for container in status.get("initContainerStatuses", []) + status.get("containerStatuses", []):
            reason = container.get("state", {}).get("waiting", {}).get("reason", "")
            is_looping = reason == "CrashLoopBackOff" and container.get("restartCount", 0) >= HOPELESS_RESTARTS
            if is_looping or reason == "ErrImageNeverPull":
                return pod, container["name"]
    return None


def _because(message: str | None) -> str:
    return f" ({message.strip().splitlines()[-1]})" if message and message.strip() else ""


def is_ready(cluster: Mapping[str, Any], pods: Iterable[Mapping[str, Any]]) -> bool:
    """Whether a RayCluster has reached what its spec asks for, as of its newest generation, and its Pods agree.

    The state alone does not tell: it stays `ready` while Pods that were ready once are started again.
    """
    status = cluster.get("status", {})
    if status.get("observedGeneration", 0) < cluster["metadata"].get("generation", 0):
        return False
    ready = sum(doing(pod) == "ready" for pod in _own(cluster, pods))
    wanted = 0 if cluster["spec"].get("suspend") else 1 + status.get("desiredWorkerReplicas", 0)
    return status.get("state") == ("ready" if wanted else "suspended") and ready == wanted


def table(clusters: Iterable[Mapping[str, Any]], pods: Iterable[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """Every cluster followed by its Pods, as (name, what it is doing)."""
    pods = list(pods)
    rows = []
    for cluster in clusters:
        rows.append((cluster_line(cluster), ""))
        rows += sorted(pod_line(pod) for pod in _own(cluster, pods))
    return rows


def _own(cluster: Mapping[str, Any], pods: Iterable[Mapping[str, Any]]) -> Iterable[Mapping[str, Any]]:
    whose = cluster["metadata"]["namespace"], cluster["metadata"]["name"]
    for pod in pods:
        if whose == (pod["metadata"]["namespace"], pod["metadata"].get("labels", {}).get("ray.io/cluster")):
            yield pod
