"""What a Pod asks for and a local node does not have: said in so many words, never left out in silence; pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

_OF_PODS = {
    "activeDeadlineSeconds": "the Pod is not ended after a time",
    "hostNetwork": "the Pod has an address of its own",
    "hostPID": "each container sees its own processes only",
    "hostIPC": "the Pod has shared memory of its own",
    "shareProcessNamespace": "each container sees its own processes only",
    "dnsConfig": "names are looked up as for every other Pod",
    "runtimeClassName": "containers are plain processes",
}
_OF_CONTAINERS = {
    "terminationMessagePath": ("/dev/termination-log", "how a container ended is told by its exit code and its log"),
    "volumeDevices": (None, "block devices are not passed on"),
}
_USERS = ("runAsUser", "runAsGroup", "fsGroup", "supplementalGroups")


def differences(pod: dict[str, Any]) -> Iterator[str]:
    """One sentence for each thing the Pod asks for in vain."""
    spec = pod["spec"]
    everybody = [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]
    for name, instead in _OF_PODS.items():
        if spec.get(name):
            yield f"{name} is not available on a local node: {instead}"
    for name, (usual, instead) in _OF_CONTAINERS.items():
        if any(each.get(name) not in (None, usual) for each in everybody):
            yield f"{name} is not available on a local node: {instead}"
    contexts = [spec.get("securityContext") or {}, *((each.get("securityContext") or {}) for each in everybody)]
    asked = [name for name in _USERS if any(context.get(name) is not None for context in contexts)]
    if asked:
        yield f"{', '.join(asked)} is not available on a local node: containers run as the user who runs the engine"
