"""Problems by themselves: what they say of the worker group that they are about."""

from __future__ import annotations

from typing import Any

import pytest

from kuberay.api.problems import Problem, warning, with_group_names
from kuberay.api.validate.objects import Rules, object_problems
from tests.api.clusters import group, manifest

SPEC = {"workerGroupSpecs": [{"groupName": "cpu"}, {"groupName": "gpu"}]}


def told(path: str, document: Any, message: str = "is wrong") -> str:
    (found,) = with_group_names([Problem(path, message)], document)
    assert found.path == path
    return found.message


class TestTheNameOfAGroup:
    @pytest.mark.parametrize(
        ("path", "document"),
        [
            ("spec.workerGroupSpecs[1]", {"spec": SPEC}),
            ("spec.workerGroupSpecs[1].template.spec.containers[0].name", {"spec": SPEC}),
            ("spec.rayClusterSpec.workerGroupSpecs[1].replicas", {"spec": {"rayClusterSpec": SPEC}}),
            (
                "spec.jobTemplate.rayClusterSpec.workerGroupSpecs[1].replicas",
                {"spec": {"jobTemplate": {"rayClusterSpec": SPEC}}},
            ),
        ],
    )
    def test_stands_behind_the_message_wherever_the_group_is(self, path: str, document: Any) -> None:
        assert told(path, document) == "is wrong (group 'gpu')"

    def test_is_told_once(self) -> None:
        once = told("spec.workerGroupSpecs[1]", {"spec": SPEC})
        assert told("spec.workerGroupSpecs[1]", {"spec": SPEC}, once) == once
        assert told("spec.workerGroupSpecs[1]", {"spec": SPEC}, "'gpu' is taken") == "'gpu' is taken"

    def test_does_not_fill_a_screen(self) -> None:
        document = {"spec": {"workerGroupSpecs": [{"groupName": "g" * 10_000}]}}
        assert len(told("spec.workerGroupSpecs[0]", document)) < 120

    @pytest.mark.parametrize("path", ["", "spec", "spec.headGroupSpec.template", "spec.workerGroupSpecs"])
    def test_is_not_told_elsewhere(self, path: str) -> None:
        assert told(path, {"spec": SPEC}) == "is wrong"

    @pytest.mark.parametrize(
        "document",
        [
            None,
            {},
            {"spec": None},
            {"spec": {"workerGroupSpecs": {}}},
            {"spec": {"workerGroupSpecs": []}},
            {"spec": {"workerGroupSpecs": [None]}},
            {"spec": {"workerGroupSpecs": [{}]}},
            {"spec": {"workerGroupSpecs": [{"groupName": 1}]}},
        ],
    )
    def test_is_left_away_where_there_is_none(self, document: Any) -> None:
        assert told("spec.workerGroupSpecs[0].replicas", document) == "is wrong"

    def test_leaves_a_warning_a_warning(self) -> None:
        path = "spec.workerGroupSpecs[0].replicas"
        assert with_group_names([warning(path, "x")], {"spec": SPEC}) == [warning(path, "x (group 'cpu')")]


@pytest.mark.parametrize(
    "fields", [{"replicas": "3"}, {"unknown": 1}, {"numOfHosts": 0}, {"replicas": 9, "maxReplicas": 3}]
)
def test_every_layer_of_the_rules_tells_it(fields: dict[str, Any]) -> None:
    document = manifest(group(), group("gpu", **fields))
    found = [each for each in object_problems(document, Rules(lambda _: True)) if "[1]" in each.path]
    assert found
    assert all(each.message.endswith(" (group 'gpu')") for each in found)
