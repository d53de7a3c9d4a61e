from __future__ import annotations

from typing import Any

import pytest

from kuberay.api.validate.pods import annotation_problems, pod_problems


def template(**resources: Any) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": "ray", "resources": resources}]}}


class TestResources:
    @pytest.mark.parametrize("amount", ["500m", 2, "1Gi", "1e3", "0"])
    def test_quantities_are_fine(self, amount: Any) -> None:
        assert list(pod_problems(template(limits={"cpu": amount}), "t")) == []

    @pytest.mark.parametrize("amount", ["1.5e3m", "", "many", "-1", -1, True, {}, "1" * 200])
    def test_odd_ones_are_told_by_their_field(self, amount: Any) -> None:
        [problem] = pod_problems(template(requests={"cpu": amount}), "t")
        assert problem.path == "t.spec.containers[0].resources.requests.cpu"

    def test_more_cannot_be_asked_for_than_is_allowed(self) -> None:
        [problem] = pod_problems(template(limits={"memory": "1Gi"}, requests={"memory": "1025Mi"}), "t")
        assert str(problem) == "t.spec.containers[0].resources.requests.memory: 1025Mi is more than the limit of 1Gi"

    @pytest.mark.parametrize("odd", [{}, {"spec": 3}, {"spec": {"containers": [None, 1, {"resources": []}]}}])
    def test_what_has_another_shape_is_left_to_the_schema(self, odd: dict[str, Any]) -> None:
        assert list(pod_problems(odd, "t")) == []


class TestMetadata:
    def test_labels_must_be_labels(self) -> None:
        labels = {"metadata": {"labels": {"ok": "fine", "not ok": "x", "bad": "-"}}}
        assert [each.path for each in pod_problems(labels, "t")] == [
            "t.metadata.labels[not ok]",
            "t.metadata.labels.bad",
        ]

    def test_annotations_have_names_and_a_size(self) -> None:
        assert list(annotation_problems({"Example.com/Any": "what ever", "x": "y" * 1000}, "a")) == []
        assert [each.path for each in annotation_problems({"not ok": "", "x": "y" * 262_144}, "a")] == [
            "a[not ok]",
            "a",
        ]
