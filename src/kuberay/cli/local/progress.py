"""What each Pod is doing, in words, while a cluster starts. Pure: objects in, lines out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


RESTARTS_WORTH_WORDS = 3


def cluster_line(cluster: Mapping[str, Any]) -> str:
    """One line about a RayCluster: how far it is and, when something blocks it, what."""
    status = cluster.get("status", {})
    if not status:
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


def pod_line(pod: Mapping[str, Any], warnings: Mapping[str, str]) -> tuple[str, str]:
    """A Pod's name and what it is doing; while it does nothing, also the newest warning about it."""
    words = doing(pod)
    warning = warnings.get(pod["metadata"].get("uid", ""), "")
    return pod["metadata"]["name"], f"{words}: {warning}" if warning and words in _IDLE else words


def newest_warnings(events: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """What the newest Warning event of each object says, by uid."""
    told = {}
    for event in sorted(events, key=_moment):
        if event.get("type") == "Warning":
            told[event.get("regarding", {}).get("uid", "")] = event.get("note", "")
    return told


def _moment(event: Mapping[str, Any]) -> str:
    return (event.get("series") or {}).get("lastObservedTime") or event.get("eventTime") or ""


_IDLE = ("starting", "waiting for a node")


def doing(pod: Mapping[str, Any]) -> str:
    """What a Pod is doing, as a person would say it."""
    status = pod.get("status", {})
    if pod["metadata"].get("deletionTimestamp"):
        return "stopping"
    if status.get("phase") == "Succeeded":
        return "completed"
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


def crash_loops(pods: Iterable[Mapping[str, Any]]) -> Iterable[tuple[Mapping[str, Any], str]]:
    """Pods with the name of a container that has ended again and again, so that its last words are worth a look."""
    for pod in pods:
        status = pod.get("status", {})
        for container in status.get("initContainerStatuses", []) + status.get("containerStatuses", []):
            reason = container.get("state", {}).get("waiting", {}).get("reason", "")
            if reason == "CrashLoopBackOff" and container.get("restartCount", 0) >= RESTARTS_WORTH_WORDS:
                yield pod, container["name"]


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


def is_settled(pod: Mapping[str, Any]) -> bool:
    """Whether there is nothing more to wait for in a Pod of no cluster: it is ready, or has ended."""
    return doing(pod) == "ready" or pod.get("status", {}).get("phase") in ("Succeeded", "Failed")


def plain(clusters: Iterable[Mapping[str, Any]], pods: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The Pods that belong to none of the clusters."""
    pods, clusters = list(pods), list(clusters)
    owned = {id(pod) for cluster in clusters for pod in _own(cluster, pods)}
    return [pod for pod in pods if id(pod) not in owned]


def table(
    clusters: Iterable[Mapping[str, Any]],
    pods: Iterable[Mapping[str, Any]],
    warnings: Mapping[str, str] | None = None,
) -> list[tuple[str, str]]:
    """Every cluster followed by its Pods, and then all other Pods, as (name, what it is doing).

    :param warnings: the newest warning about a Pod, by its uid.
    """
    pods, clusters, warnings = list(pods), list(clusters), warnings or {}
    rows = []
    for cluster in clusters:
        rows.append((cluster_line(cluster), ""))
        rows += sorted(pod_line(pod, warnings) for pod in _own(cluster, pods))
    return rows + sorted(pod_line(pod, warnings) for pod in plain(clusters, pods))


def _own(cluster: Mapping[str, Any], pods: Iterable[Mapping[str, Any]]) -> Iterable[Mapping[str, Any]]:
    whose = cluster["metadata"]["namespace"], cluster["metadata"]["name"]
    for pod in pods:
        if whose == (pod["metadata"]["namespace"], pod["metadata"].get("labels", {}).get("ray.io/cluster")):
            yield pod
