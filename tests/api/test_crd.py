from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from kuberay.api.crd import DEFINITIONS, crd
from tests.api.upstream import RAY_KINDS, ROOT, needs_upstream

if TYPE_CHECKING:
    from collections.abc import Iterator

ANNOTATION_LIMIT = 262_144

EXCEPTIONS = {
    r"^\.metadata\.annotations$": "says which tool wrote upstream's file",
    r"\.x-kubernetes-validations\[\d\]\.message$": "the texts of CEL rules are our own; the rules are compared",
    r"\.deprecationWarning$": "our own text",
}
"""Paths at which we differ on purpose."""


def differences(ours: Any, theirs: Any, path: str = "") -> Iterator[str]:
    """Paths at which two CRDs differ, outside the exceptions."""
    if ours == theirs or any(re.search(where, path) for where in EXCEPTIONS):
        return
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for key in sorted(ours.keys() | theirs.keys()):
            yield from differences(ours.get(key), theirs.get(key), f"{path}.{key}")
    elif isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        for index, (one, other) in enumerate(zip(ours, theirs, strict=True)):
            yield from differences(one, other, f"{path}[{index}]")
    else:
        yield f"{path}: {str(ours)[:100]} / {str(theirs)[:100]}"


def at(schema: dict[str, Any], path: str) -> dict[str, Any]:
    """The schema of a field: `spec.workerGroupSpecs[].replicas`."""
    for field in path.split("."):
        schema = schema["properties"][field.removesuffix("[]")]
        schema = schema["items"] if field.endswith("[]") else schema
    return schema


def schema_of(kind: str, *, slim: bool = False, version: str = "v1") -> dict[str, Any]:
    versions = {each["name"]: each for each in crd(kind, slim=slim)["spec"]["versions"]}
    schema: dict[str, Any] = versions[version]["schema"]["openAPIV3Schema"]
    return schema


def test_all_kinds_have_a_definition() -> None:
    assert tuple(DEFINITIONS) == RAY_KINDS


@needs_upstream
class TestBesideUpstream:
    def upstream(self, kind: str) -> dict[str, Any]:
        body = (ROOT / "crds" / f"ray.io_{kind.lower()}s.yaml").read_text()
        loaded: dict[str, Any] = yaml.load(body, Loader=yaml.CSafeLoader)
        return loaded

    @pytest.mark.parametrize("kind", RAY_KINDS)
    def test_every_path_is_the_same(self, kind: str) -> None:
        assert list(differences(crd(kind), self.upstream(kind))) == []

    def test_the_comparison_would_notice(self) -> None:
        changed = self.upstream("RayCluster")
        del changed["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["suspend"]
        changed["spec"]["versions"][0]["additionalPrinterColumns"][0]["name"] = "other"
        assert len(list(differences(crd("RayCluster"), changed))) == 2


@pytest.mark.parametrize("kind", RAY_KINDS)
class TestSlim:
    def test_it_fits_into_the_annotation_of_a_client_side_apply(self, kind: str) -> None:
        assert len(json.dumps(crd(kind, slim=True))) < ANNOTATION_LIMIT / 2

    def test_nothing_but_templates_and_services_is_left_open(self, kind: str) -> None:
        def opened(schema: Any, path: str = "") -> Iterator[str]:
            if isinstance(schema, dict):
                if schema.get("x-kubernetes-preserve-unknown-fields"):
                    yield path.rpartition(".")[2]
                for key, value in schema.items():
                    yield from opened(value, f"{path}.{key}")

        found = set(opened(schema_of(kind, slim=True)))
        assert (
            {"template", "headService"} <= found <= {"template", "headService", "serveService", "submitterPodTemplate"}
        )


class TestFacts:
    def test_defaults_stand_in_both_variants(self) -> None:
        for slim in (False, True):
            group = at(schema_of("RayCluster", slim=slim), "spec.workerGroupSpecs[]")
            assert {name: field["default"] for name, field in group["properties"].items() if "default" in field} == {
                "replicas": 0, "minReplicas": 0, "maxReplicas": 2147483647, "numOfHosts": 1, "priority": 0,
            }  # fmt: skip

    def test_v1alpha1_lacks_later_fields_and_all_rules(self) -> None:
        alpha = schema_of("RayCluster", version="v1alpha1")
        assert "managedBy" not in at(alpha, "spec")["properties"]
        assert "rayStartParams" in at(alpha, "spec.headGroupSpec")["required"]
        assert "x-kubernetes-validations" not in json.dumps(alpha)

    def test_v1_is_stored_and_v1alpha1_served_with_a_warning(self) -> None:
        flags = {each["name"]: each for each in crd("RayJob")["spec"]["versions"]}
        assert flags["v1"]["storage"]
        assert not flags["v1alpha1"]["storage"]
        assert flags["v1alpha1"]["served"]
        assert flags["v1alpha1"]["deprecated"]

    def test_making_one_twice_gives_the_same(self) -> None:
        assert crd("RayService") == crd("RayService")
