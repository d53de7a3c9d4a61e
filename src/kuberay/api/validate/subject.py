"""What the rules of a RayCluster's spec look at: the spec, what surrounds it, and where it stands in the object."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kuberay.api import templates

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kuberay.api.gates import FeatureGates
    from kuberay.api.v1 import RayClusterSpec

AUTOSCALER_V2_VARIABLE = "RAY_enable_autoscaler_v2"


@dataclass(frozen=True, slots=True)
class Subject:
    """A cluster's spec with what it is judged by. Jobs and services hold one too, under another path."""

    spec: RayClusterSpec
    annotations: Mapping[str, str]
    gates: FeatureGates
    path: str = "spec"

    def at(self, path: str) -> str:
        """The path of a field of the spec."""
        return f"{self.path}.{path}"

    @property
    def head_container(self) -> dict[str, Any]:
        """The container of the head that runs Ray."""
        return templates.ray_container(self.spec.head_group_spec.template)

    @property
    def head_environment(self) -> dict[str, dict[str, Any]]:
        """The variables of the head's Ray container, by name."""
        return templates.environment(self.head_container)

    def head_variable_at(self, name: str) -> str:
        """The path of a variable of the head's Ray container."""
        return self.at("headGroupSpec." + variable_path(self.head_container, name))

    @property
    def asks_for_autoscaler_v2(self) -> bool:
        """Whether the autoscaler's second version is asked for by name, by the field or by the older variable."""
        if self.spec.autoscaler_version == "v2":
            return True
        variable = self.head_environment.get(AUTOSCALER_V2_VARIABLE, {})
        return templates.text(variable, "value") in ("1", "true")


def variable_path(container: dict[str, Any], name: str) -> str:
    """The path of a variable of the Ray container, from the group that holds the template."""
    index = templates.variable_index(container, name)
    return f"template.spec.containers[0].env[{index}]"
