from __future__ import annotations

import contextlib
import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kuberay.kube.patches import MalformedPatch, PatchError, json_patch, merge_patch, same_json

scalars = st.none() | st.booleans() | st.integers(-3, 3) | st.text(alphabet="ab", max_size=2)
keys = st.sampled_from(["a", "b", "c/d", "e~f", "0"])
documents = st.recursive(
    scalars, lambda d: st.lists(d, max_size=3) | st.dictionaries(keys, d, max_size=3), max_leaves=8
)


class TestMergePatch:
    @pytest.mark.parametrize(
        ("target", "patch", "result"),
        [
            # the table of RFC 7386, appendix A
            ({"a": "b"}, {"a": "c"}, {"a": "c"}),
            ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
            ({"a": "b"}, {"a": None}, {}),
            ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
            ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
            ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
            ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
            ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
            (["a", "b"], ["c", "d"], ["c", "d"]),
            ({"a": "b"}, ["c"], ["c"]),
            ({"a": "foo"}, None, None),
            ({"a": "foo"}, "bar", "bar"),
            ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
            ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
            ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
        ],
    )
    def test_merges_as_the_standard_says(self, target: Any, patch: Any, result: Any) -> None:
        assert merge_patch(target, patch) == result

    @given(documents, documents)
    def test_merging_twice_is_merging_once_and_changes_no_argument(self, target: Any, patch: Any) -> None:
        before = copy.deepcopy((target, patch))
        once = merge_patch(target, patch)
        assert merge_patch(once, patch) == once
        assert (target, patch) == before


class TestJsonPatch:
    @pytest.mark.parametrize(
        ("document", "operation", "result"),
        [
            ({}, {"op": "add", "path": "/a", "value": 1}, {"a": 1}),
            ({"a": 1}, {"op": "add", "path": "/a", "value": None}, {"a": None}),
            ({"a": [1]}, {"op": "add", "path": "/a/-", "value": 2}, {"a": [1, 2]}),
            ({"a": [1]}, {"op": "add", "path": "/a/0", "value": 0}, {"a": [0, 1]}),
            ({"a": [1]}, {"op": "add", "path": "/a/1", "value": 2}, {"a": [1, 2]}),
            ({"a": 1}, {"op": "replace", "path": "/a", "value": 2}, {"a": 2}),
            ({"a": [1, 2]}, {"op": "replace", "path": "/a/1", "value": 3}, {"a": [1, 3]}),
            ({"a": 1}, {"op": "remove", "path": "/a"}, {}),
            ({"a": [1, 2]}, {"op": "remove", "path": "/a/0"}, {"a": [2]}),
            ({"a": {"b": 1}}, {"op": "move", "from": "/a/b", "path": "/c"}, {"a": {}, "c": 1}),
            ({"a": [1, 2]}, {"op": "move", "from": "/a/0", "path": "/a/1"}, {"a": [2, 1]}),
            ({"a": {"b": 1}}, {"op": "copy", "from": "/a", "path": "/c"}, {"a": {"b": 1}, "c": {"b": 1}}),
            ({"a": 1}, {"op": "test", "path": "/a", "value": 1}, {"a": 1}),
            ({"x/y": 1, "m~n": 2}, {"op": "remove", "path": "/x~1y"}, {"m~n": 2}),
            ({"x/y": 1, "m~n": 2}, {"op": "remove", "path": "/m~0n"}, {"x/y": 1}),
            ({"a": 1}, {"op": "replace", "path": "", "value": {"b": 2}}, {"b": 2}),
        ],
    )
    def test_applies_as_the_standard_says(self, document: Any, operation: dict[str, Any], result: Any) -> None:
        assert json_patch(document, [operation]) == result

    @pytest.mark.parametrize(
        ("document", "operation", "result"),
        [
            ({}, {"op": "replace", "path": "/a", "value": 1}, {"a": 1}),
            ({"a": [1, 2]}, {"op": "remove", "path": "/a/-1"}, {"a": [1]}),
            ({"a": [1]}, {"op": "add", "path": "/a/-1", "value": 2}, {"a": [1, 2]}),
            ({}, {"op": "test", "path": "/a", "value": None}, {}),
            ({}, {"op": "test", "path": "/a"}, {}),
            ({}, {"op": "copy", "from": "/a", "path": "/b"}, {"b": None}),
        ],
    )
    def test_is_lax_where_kubernetes_is(self, document: Any, operation: dict[str, Any], result: Any) -> None:
        assert json_patch(document, [operation]) == result

    @pytest.mark.parametrize(
        ("document", "operation"),
        [
            ({}, {"op": "remove", "path": "/a"}),
            ({}, {"op": "remove", "path": ""}),
            ({}, {"op": "add", "path": "/a/b", "value": 1}),
            ({"a": 1}, {"op": "add", "path": "/a/b", "value": 1}),
            ({"a": [1]}, {"op": "add", "path": "/a/2", "value": 1}),
            ({"a": [1]}, {"op": "replace", "path": "/a/1", "value": 1}),
            ({"a": [1]}, {"op": "replace", "path": "/a/-", "value": 1}),
            ({"a": [1]}, {"op": "remove", "path": "/a/01"}),
            ({"a": [1]}, {"op": "remove", "path": "/a/-2"}),
            ({"a": 1}, {"op": "test", "path": "/a", "value": 2}),
            ({"a": 1}, {"op": "test", "path": "/a", "value": True}),
            ({}, {"op": "test", "path": "/a/b", "value": None}),
            ({}, {"op": "copy", "from": "/a/c", "path": "/b"}),
            ({}, {"op": "move", "from": "/a", "path": "/b"}),
            ({"a": {}}, {"op": "move", "from": "/a", "path": "/a/b"}),
        ],
    )
    def test_what_does_not_fit_is_an_error_that_names_the_operation(
        self, document: Any, operation: dict[str, Any]
    ) -> None:
        with pytest.raises(PatchError, match=rf"operation 0 \({operation['op']}") as refused:
            json_patch(document, [operation])
        assert not isinstance(refused.value, MalformedPatch)

    @pytest.mark.parametrize(
        "operations",
        [
            {"a": 1},
            ["add"],
            [{"op": "merge", "path": "/a"}],
            [{"op": "add", "path": "/a"}],
            [{"op": "add", "path": "a", "value": 1}],
            [{"op": "remove"}],
            [{"op": "move", "path": "/a"}],
        ],
    )
    def test_what_is_no_patch_is_told_apart(self, operations: Any) -> None:
        with pytest.raises(MalformedPatch):
            json_patch({}, operations)

    def test_operations_see_what_earlier_ones_did(self) -> None:
        operations: list[dict[str, Any]] = [
            {"op": "add", "path": "/a", "value": {"b": 1}},
            {"op": "add", "path": "/a/c", "value": 2},
            {"op": "test", "path": "/a", "value": {"b": 1, "c": 2}},
        ]
        assert json_patch({}, operations) == {"a": {"b": 1, "c": 2}}
        assert operations[0]["value"] == {"b": 1}

    @given(documents, keys, documents)
    def test_no_argument_is_changed(self, document: Any, key: str, value: Any) -> None:
        pointer = "/" + key.replace("~", "~0").replace("/", "~1")
        operations = [
            {"op": "add", "path": pointer, "value": value},
            {"op": "add", "path": pointer + "/a", "value": 1},
            {"op": "remove", "path": pointer},
        ]
        before = copy.deepcopy((document, operations))
        for end in range(1, 4):
            with contextlib.suppress(PatchError):
                json_patch(document, operations[:end])
        assert (document, operations) == before


@given(documents, documents)
def test_json_equality_tells_true_from_one(a: Any, b: Any) -> None:
    assert same_json(a, copy.deepcopy(a))
    assert same_json(a, b) is (repr_of(a) == repr_of(b))


def repr_of(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ",".join(f"{k!r}:{repr_of(v)}" for k, v in sorted(value.items())) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(repr_of, value)) + "]"
    return repr(value)
