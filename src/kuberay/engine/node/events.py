"""Events about Pods, as a kubelet tells them: to the Pod, and to which of its containers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from kuberay.kube.recorder import Regarding
from kuberay.kube.resources import PODS

if TYPE_CHECKING:
    from kuberay.kube.recorder import Recorder

NORMAL: Literal["Normal"] = "Normal"
WARNING: Literal["Warning"] = "Warning"

REPORTER = "kuberay-node"
_ACTION = "RunPod"


class PodEvents:
    """Tells a recorder what happens to Pods."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    def record(
        self, pod: dict[str, Any], kind: Literal["Normal", "Warning"], reason: str, message: str, *, container: str = ""
    ) -> None:
        """Tell something about a Pod; returns at once."""
        about = Regarding.of(pod, PODS)
        if container:
            about = about._replace(field_path=f"spec.containers{{{container}}}")
        self._recorder.event(about, kind, reason, _ACTION, message)
