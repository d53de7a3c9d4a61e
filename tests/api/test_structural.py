from __future__ import annotations

from typing import Any

import pytest

from kuberay.api import structural
from kuberay.api.schema import quantity_schema

NUMBER = {"type": "integer", "format": "int32"}
TEXT = {"type": "string"}


def told(value: Any, schema: dict[str, Any], before: Any = None) -> list[str]:
    return [str(problem) for problem in structural.problems(value, schema, before)]


def fields(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


class TestTypes:
    @pytest.mark.parametrize(
        ("value", "schema", "message"),
        [
            ("1", NUMBER, "expected an integer, got a string"),
            (True, NUMBER, "expected an integer, got a boolean"),
            (1.5, NUMBER, "expected an integer, got a number"),
            (None, NUMBER, "expected an integer, got null"),
            (2**31, NUMBER, "must be from -2147483648 to 2147483647, got 2147483648"),
            (1, TEXT, "expected a string, got an integer"),
            ([], {"type": "object"}, "expected an object, got a list"),
            ({}, {"type": "array", "items": TEXT}, "expected a list, got an object"),
            (1.5, quantity_schema(), "expected an integer or a string, got a number"),
            ("1.5e3m", quantity_schema(), "expected a quantity like 500m or 2Gi, got '1.5e3m'"),
            (2**63, quantity_schema(), f"must be from {-(2**63)} to {2**63 - 1}, got {2**63}"),
        ],
    )
    def test_a_wrong_type_is_told_in_words(self, value: Any, schema: dict[str, Any], message: str) -> None:
        assert told(value, schema) == [message]

    @pytest.mark.parametrize(
        ("value", "schema"),
        [(1.0, NUMBER), (1, {"type": "number"}), (None, TEXT | {"nullable": True}), ("5", quantity_schema())],
    )
    def test_what_json_cannot_tell_apart_is_the_same(self, value: Any, schema: dict[str, Any]) -> None:
        assert told(value, schema) == []


class TestBounds:
    @pytest.mark.parametrize(
        ("value", "schema", "message"),
        [
            ("b", TEXT | {"enum": ["a"]}, "must be one of 'a', got 'b'"),
            (0, NUMBER | {"minimum": 1}, "must be at least 1, got 0"),
            ("", TEXT | {"minLength": 1}, "must have at least 1 character(s)"),
            ("ab", TEXT | {"maxLength": 1}, "must have at most 1 characters, has 2"),
            ("a\n", TEXT | {"pattern": "^a$"}, "expected text that matches ^a$, got 'a\\n'"),
            ("now", TEXT | {"format": "date-time"}, "expected a time like 2026-01-31T12:00:00Z, got 'now'"),
            ([], {"type": "array", "items": TEXT, "minItems": 1}, "must have at least 1 element(s)"),
        ],
    )
    def test_each_bound_has_its_message(self, value: Any, schema: dict[str, Any], message: str) -> None:
        assert told(value, schema) == [message]


class TestObjects:
    def test_required_fields_must_be_there(self) -> None:
        assert told({}, fields(a=TEXT) | {"required": ["a"]}) == ["a: is required"]

    @pytest.mark.parametrize(
        ("name", "suggestion"),
        [
            ("workerGroupSpec", "; did you mean workerGroupSpecs?"),
            ("workergroupspecs", "; did you mean workerGroupSpecs?"),
            ("other", ""),
        ],
    )
    def test_an_unknown_field_is_told_with_the_nearest_known(self, name: str, suggestion: str) -> None:
        assert told({name: 1}, fields(workerGroupSpecs=TEXT, suspend=TEXT)) == [f"{name}: unknown field{suggestion}"]

    def test_an_unknown_field_that_is_null_says_nothing(self) -> None:
        assert told({"creationTimestamp": None}, fields(name=TEXT)) == []

    def test_open_objects_and_maps_take_any_key(self) -> None:
        assert told({"x": 1}, {"type": "object", "x-kubernetes-preserve-unknown-fields": True}) == []
        assert told({"x": "1"}, {"type": "object", "additionalProperties": TEXT}) == []


class TestLists:
    KEYED = {  # noqa: RUF012
        "type": "array",
        "items": {"type": "object"},
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name"],
    }

    def test_two_elements_cannot_have_the_same_keys(self) -> None:
        assert told([{"name": "a"}, {"name": "b"}, {"name": "a"}], self.KEYED) == ["[2]: duplicate of [0]: name 'a'"]

    def test_a_set_has_no_element_twice(self) -> None:
        schema = {"type": "array", "items": NUMBER, "x-kubernetes-list-type": "set"}
        assert told([1, 2, 1], schema) == ["[2]: duplicate of [0]: 1"]


class TestRules:
    SCHEMA = fields(backend=TEXT | {"x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "fixed"}]})

    def test_a_rule_about_changes_needs_something_before(self) -> None:
        assert told({"backend": "a"}, self.SCHEMA) == []
        assert told({"backend": "a"}, self.SCHEMA, {}) == []
        assert told({"backend": "a"}, self.SCHEMA, {"backend": "a"}) == []
        assert told({"backend": "a"}, self.SCHEMA, {"backend": "b"}) == ["backend: fixed"]


class TestDefaults:
    def test_absent_and_null_fields_get_their_default(self) -> None:
        schema = fields(a=NUMBER | {"default": 1}, b=TEXT)
        assert structural.defaulted({}, schema) == {"a": 1}
        assert structural.defaulted({"a": None, "b": None}, schema) == {"a": 1}
        assert structural.defaulted({"a": 0}, schema) == {"a": 0}

    def test_they_reach_into_lists_and_maps_but_make_no_objects(self) -> None:
        inner = fields(x=NUMBER | {"default": 1})
        schema = fields(
            one=inner, many={"type": "array", "items": inner}, by={"type": "object", "additionalProperties": inner}
        )
        assert structural.defaulted({"many": [{}], "by": {"k": {}}}, schema) == {
            "many": [{"x": 1}],
            "by": {"k": {"x": 1}},
        }

    def test_the_given_value_is_not_changed(self) -> None:
        given: dict[str, Any] = {"many": [{}]}
        structural.defaulted(given, fields(many={"type": "array", "items": fields(x=NUMBER | {"default": 1})}))
        assert given == {"many": [{}]}
