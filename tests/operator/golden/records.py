"""KubeRay's manifests and what its own operator made of them, read from `../shared/upstream` when it is there."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml

UPSTREAM = Path(__file__).parents[3] / ".." / "shared" / "upstream"

Json = dict[str, Any]


@dataclass(frozen=True)
class Case:
    """A manifest with a RayCluster, and its record."""

    name: str
    documents: tuple[Json, ...]
    record: Json = field(repr=False)
    is_sample: bool = False
    """Whether it is one of KubeRay's samples for its users."""

    @property
    def flags(self) -> tuple[str, ...]:
        """What KubeRay's operator was started with."""
        return tuple(self.record["flags"])

    @property
    def environment(self) -> dict[str, str]:
        """The variables that it had."""
        found: dict[str, str] = self.record["env"]
        return found

    @property
    def configuration(self) -> Json | None:
        """Its Configuration file."""
        return self._setting("operator-config")

    @property
    def kubelet(self) -> Json:
        """What becomes of the Pods of a group, in place of running."""
        return self._setting("kubelet") or {}

    @property
    def steps(self) -> list[str]:
        """What is done to the cluster when it has settled, one after another."""
        found = self.record.get("settings", {}).get("then", [])
        return [found] if isinstance(found, str) else list(found)

    @property
    def crds(self) -> str:
        """Whose CRDs the server has beside ours."""
        return str(self.record.get("settings", {}).get("cluster-crds", ""))

    @cached_property
    def is_default(self) -> bool:
        """Whether it needs an operator that is not set up in any way."""
        return not self.flags and not self.environment and self.configuration is None and not self.crds

    def by_default(self) -> Case:
        """The same manifest, for an operator that is not set up in any way."""
        return replace(self, record={**self.record, "flags": [], "env": {}, "settings": {}})

    def _setting(self, name: str) -> Json | None:
        found = self.record.get("settings", {}).get(name)
        loaded: Json | None = json.loads(found) if isinstance(found, str) else found
        return loaded


def cases() -> list[Case]:
    """All manifests that hold a RayCluster."""
    found = []
    for manifests, records in (("samples", "golden"), ("cases", "cases-golden")):
        for file in sorted((UPSTREAM / manifests).glob("*.yaml")):
            documents = tuple(each for each in yaml.safe_load_all(file.read_text()) if each)
            record = UPSTREAM / records / f"{file.stem}.json"
            if record.exists() and any(each["kind"] == "RayCluster" for each in documents):
                is_sample = manifests == "samples"
                found.append(Case(file.stem, documents, json.loads(record.read_text()), is_sample))
    return found
