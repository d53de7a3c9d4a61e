"""Feature gates: parts of the API that an operator serves or refuses as its administrator says."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


class Gate(StrEnum):
    """Names as they are written in `--feature-gates`."""

    RAY_CLUSTER_STATUS_CONDITIONS = "RayClusterStatusConditions"
    RAY_JOB_DELETION_POLICY = "RayJobDeletionPolicy"
    RAY_MULTI_HOST_INDEXING = "RayMultiHostIndexing"
    RAY_SERVICE_INCREMENTAL_UPGRADE = "RayServiceIncrementalUpgrade"
    RAY_CRON_JOB = "RayCronJob"
    SIDECAR_SUBMITTER_RESTART = "SidecarSubmitterRestart"
    RAY_CLUSTER_NETWORK_POLICY = "RayClusterNetworkPolicy"
    GCS_FAULT_TOLERANCE_EMBEDDED_STORAGE = "GCSFaultToleranceEmbeddedStorage"
    RAY_CLUSTER_MTLS = "RayClusterMTLS"
    RAY_CLUSTER_HISTORY_SERVER = "RayClusterHistoryServer"
    KUBERNETES_WAS = "KubernetesWAS"


BETA = frozenset(
    {
        Gate.RAY_CLUSTER_STATUS_CONDITIONS,
        Gate.RAY_JOB_DELETION_POLICY,
        Gate.RAY_MULTI_HOST_INDEXING,
        Gate.RAY_SERVICE_INCREMENTAL_UPGRADE,
    }
)
"""On unless switched off; all others are alpha and off unless switched on."""
ALPHA = frozenset(Gate) - BETA


class FeatureGates:
    """Which gates are open. Immutable; `gate in gates` asks for one."""

    __slots__ = ("_open",)

    def __init__(self, changes: Mapping[Gate, bool] | None = None) -> None:
        changes = changes or {}
        self._open = frozenset(gate for gate in Gate if changes.get(gate, gate in BETA))

    @staticmethod
    def parse(text: str) -> FeatureGates:
        """Read `Name=true,Other=false`; `AllAlpha` and `AllBeta` stand for what is not named itself.

        :raises ValueError: a name that is no gate, or a value that is neither true nor false.
        """
        groups: dict[Gate, bool] = {}
        single: dict[Gate, bool] = {}
        for part in filter(None, (part.strip() for part in text.split(","))):
            name, separator, value = (piece.strip() for piece in part.partition("="))
            if not separator or value.lower() not in _VALUES:
                raise ValueError(f"feature gate {part!r}: expected {name or 'Name'}=true or {name or 'Name'}=false")
            on = _VALUES[value.lower()]
            if name in _GROUPS:
                groups.update(dict.fromkeys(_GROUPS[name], on))
                continue
            try:
                single[Gate(name)] = on
            except ValueError:
                raise ValueError(f"feature gate {name!r} is unknown; known are {', '.join(sorted(Gate))}") from None
        return FeatureGates({**groups, **single})

    def __contains__(self, gate: Gate) -> bool:
        return gate in self._open

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FeatureGates) and self._open == other._open

    def __hash__(self) -> int:
        return hash(self._open)

    def __repr__(self) -> str:
        return f"FeatureGates({', '.join(sorted(self._open))})"


_GROUPS = {"AllAlpha": ALPHA, "AllBeta": BETA}
_VALUES = {"true": True, "1": True, "t": True, "false": False, "0": False, "f": False}

DEFAULT_GATES = FeatureGates()
