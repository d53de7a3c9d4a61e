"""This machine as a Node object: what it has, and that it is ready."""

from __future__ import annotations

import os
import platform
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kuberay import __version__
from kuberay.engine.node.status import stamp
from kuberay.kube import quantity

if TYPE_CHECKING:
    from datetime import datetime

    from kuberay.kube.quantity import Quantity

_MOST_PODS = 110
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


def cpu() -> Quantity:
    """The processors this process may use."""
    return quantity.parse(len(os.sched_getaffinity(0)))


def memory() -> Quantity:
    """All memory of the machine."""
    return quantity.parse(f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') // 1024}Ki")


def nvidia_devices() -> list[Path]:
    """The device files of NVIDIA's driver; none where there is no such GPU."""
    return sorted(
        path for path in [*Path("/dev").glob("nvidia*"), *Path("/dev").glob("nvidia-caps/*")] if path.is_char_device()
    )


def node(name: str) -> dict[str, Any]:
    """The Node, without its status."""
    labels = {
        "kubernetes.io/arch": _ARCHITECTURES.get(platform.machine(), platform.machine()),
        "kubernetes.io/os": "linux",
        "kubernetes.io/hostname": name,
    }
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}, "spec": {}}


def node_status(name: str, address: str, folder: Path, now: datetime) -> dict[str, Any]:
    """The status of the Node: written once at start, because nothing in it changes while the engine runs."""
    disk = shutil.disk_usage(folder).total
    amounts = {
        "cpu": str(cpu()),
        "memory": str(memory()),
        "ephemeral-storage": f"{disk // 1024}Ki",
        "pods": str(_MOST_PODS),
    }
    ready = ("Ready", "True", "EngineReady", "the local engine runs Pods as processes of this machine")
    limits = ("ResourceLimitsEnforced", "False", "NotAvailable", "limits of containers guide Ray, nobody enforces them")
    return {
        "capacity": amounts,
        "allocatable": dict(amounts),
        "conditions": [_condition(*each, now) for each in (ready, limits)],
        "addresses": [{"type": "InternalIP", "address": address}, {"type": "Hostname", "address": name}],
        "nodeInfo": {
            "machineID": "",
            "systemUUID": "",
            "bootID": "",
            "kernelVersion": platform.release(),
            "osImage": platform.platform(),
            "containerRuntimeVersion": f"kuberay://{__version__}",
            "kubeletVersion": f"kuberay-{__version__}",
            "kubeProxyVersion": "",
            "operatingSystem": "linux",
            "architecture": _ARCHITECTURES.get(platform.machine(), platform.machine()),
        },
    }


def _condition(kind: str, status: str, reason: str, message: str, now: datetime) -> dict[str, str]:
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message,
        "lastHeartbeatTime": stamp(now),
        "lastTransitionTime": stamp(now),
    }
