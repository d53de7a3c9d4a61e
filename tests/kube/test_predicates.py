from __future__ import annotations

from typing import Any

import msgspec
import pytest

from kuberay.kube import predicates
from kuberay.kube.predicates import Predicate, all_of, any_of


class Meta(msgspec.Struct, frozen=True, rename="camel"):
    uid: str = ""
    generation: int | None = None
    resource_version: str = ""
    deletion_timestamp: str | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}


class Thing(msgspec.Struct, frozen=True):
    metadata: Meta


CHANGES: list[tuple[Predicate, dict[str, Any]]] = [
    (predicates.generation_changed, {"generation": 2}),
    (predicates.labels_changed, {"labels": {"a": "2"}}),
    (predicates.annotations_changed, {"annotations": {"a": "2"}}),
    (predicates.deletion_asked, {"deletionTimestamp": "2026-01-01T00:00:00Z"}),
    (predicates.resource_version_changed, {"resourceVersion": "2"}),
]
BEFORE = {"uid": "u", "generation": 1, "resourceVersion": "1", "labels": {"a": "1"}, "annotations": {"a": "1"}}


def typed(meta: dict[str, Any]) -> Thing:
    return msgspec.convert({"metadata": meta}, Thing)


def untyped(meta: dict[str, Any]) -> dict[str, Any]:
    return {"metadata": meta}


@pytest.mark.parametrize("made", [typed, untyped])
@pytest.mark.parametrize(("predicate", "change"), CHANGES)
class TestEach:
    def test_sees_its_own_change_and_no_other(self, made: Any, predicate: Predicate, change: dict[str, Any]) -> None:
        for other, each in CHANGES:
            assert predicate(made(BEFORE), made(BEFORE | each)) is (other is predicate)

    def test_arrivals_departures_and_another_of_the_same_name_are_news(
        self, made: Any, predicate: Predicate, change: dict[str, Any]
    ) -> None:
        assert predicate(None, made(BEFORE))
        assert predicate(made(BEFORE), None)
        assert predicate(made(BEFORE), made(BEFORE | {"uid": "another"}))

    def test_nothing_and_something_empty_are_the_same(
        self, made: Any, predicate: Predicate, change: dict[str, Any]
    ) -> None:
        assert not predicate(made({"uid": "u"}), made({"uid": "u", "labels": {}, "annotations": {}}))


class TestTogether:
    def test_any_or_all_of_them(self) -> None:
        both = (predicates.labels_changed, predicates.annotations_changed)
        one, two = BEFORE | {"labels": {}}, BEFORE | {"labels": {}, "annotations": {}}
        assert any_of(*both)(untyped(BEFORE), untyped(one))
        assert not any_of(*both)(untyped(BEFORE), untyped(BEFORE | {"generation": 2}))
        assert all_of(*both)(untyped(BEFORE), untyped(two))
        assert not all_of(*both)(untyped(BEFORE), untyped(one))
