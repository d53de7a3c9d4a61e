"""How the operator is told to build: the settings of the process that show in the objects it makes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kuberay import __version__

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildOptions:
    """Read once when the process starts; equal options and equal specs give equal objects."""

    version: str = __version__
    """Written on head Pods, so that an operator of another version knows that it did not make them."""
    cluster_domain: str = "cluster.local"
    init_container_injection: bool = True
    probes_injection: bool = True
    deterministic_head_name: bool = True
    login_shell: bool = False
    head_cluster_ip_service: bool = False
    head_local_address: bool = True
    """Whether heads are told `FQ_RAY_IP=127.0.0.1`."""
    head_sidecars: tuple[Mapping[str, Any], ...] = ()
    """Containers that every head Pod gets beside its own."""
    worker_sidecars: tuple[Mapping[str, Any], ...] = ()
    """Containers that every worker Pod gets beside its own."""
    default_environment: tuple[Mapping[str, Any], ...] = ()
    """Variables of Ray containers, where the user set none of that name."""
    default_labels: Mapping[str, str] = field(default_factory=dict)
    """Labels of Pods, where nobody set one of that name."""
    default_annotations: Mapping[str, str] = field(default_factory=dict)
    """Annotations of Pods, where nobody set one of that name."""
