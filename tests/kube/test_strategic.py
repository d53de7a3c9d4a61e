"""Strategic merge patches on plain values: lists by their keys, directives, orders."""

from __future__ import annotations

from typing import Any

import pytest

from kuberay.api.kubernetes import definitions
from kuberay.kube.patches import MalformedPatch, PatchError
from kuberay.kube.strategic import strategic_merge


def merged(document: dict[str, Any], patch: dict[str, Any], kind: str = "core.v1.Pod") -> dict[str, Any]:
    return strategic_merge(document, patch, {"$ref": kind}, definitions())


def pod(*names: str, **spec: Any) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": name, "image": "i"} for name in names], **spec}}


class TestLists:
    def test_items_are_merged_by_their_key(self) -> None:
        patch = {"spec": {"containers": [{"name": "b", "image": "new"}]}}
        assert merged(pod("a", "b"), patch)["spec"]["containers"] == [
            {"name": "a", "image": "i"},
            {"name": "b", "image": "new"},
        ]

    def test_a_list_without_strategy_is_replaced(self) -> None:
        before = pod(tolerations=[{"key": "a"}])
        assert merged(before, {"spec": {"tolerations": [{"key": "b"}]}})["spec"]["tolerations"] == [{"key": "b"}]

    def test_plain_values_are_a_set(self) -> None:
        before = {"metadata": {"finalizers": ["a/x", "a/y"]}}
        assert set(merged(before, {"metadata": {"finalizers": ["a/y", "a/z"]}})["metadata"]["finalizers"]) == {
            "a/x",
            "a/y",
            "a/z",
        }
        gone = {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a/x"]}}
        assert merged(before, gone) == {"metadata": {"finalizers": ["a/y"]}}

    def test_an_order_is_kept(self) -> None:
        order = {"spec": {"$setElementOrder/containers": [{"name": "c"}, {"name": "a"}]}}
        assert [one["name"] for one in merged(pod("a", "c"), order)["spec"]["containers"]] == ["c", "a"]


class TestDirectives:
    def test_delete_takes_an_item_away(self) -> None:
        patch = {"spec": {"containers": [{"name": "a", "$patch": "delete"}]}}
        assert merged(pod("a", "b"), patch) == pod("b")

    def test_replace_takes_all_others_away(self) -> None:
        patch = {"spec": {"containers": [{"name": "c"}, {"$patch": "replace"}]}}
        assert merged(pod("a", "b"), patch)["spec"]["containers"] == [{"name": "c"}]

    def test_retained_keys_are_all_that_stays(self) -> None:
        before = pod(volumes=[{"name": "v", "emptyDir": {}}])
        volume = {"name": "v", "hostPath": {"path": "/x"}}
        patch = {"spec": {"volumes": [{**volume, "$retainKeys": ["name", "hostPath"]}]}}
        assert merged(before, patch)["spec"]["volumes"] == [volume]

    def test_one_that_is_not_known_is_refused(self) -> None:
        with pytest.raises(MalformedPatch):
            merged(pod("a"), {"spec": {"$patch": "other"}})

    def test_an_item_without_its_key_is_refused(self) -> None:
        with pytest.raises(PatchError):
            merged(pod("a"), {"spec": {"containers": [{"image": "x"}]}})


def test_nothing_given_is_changed() -> None:
    before, patch = pod("a", "b"), {"spec": {"containers": [{"name": "a", "$patch": "delete"}]}}
    merged(before, patch)
    assert before == pod("a", "b")
    assert patch == {"spec": {"containers": [{"name": "a", "$patch": "delete"}]}}
