from __future__ import annotations

from typing import Any

import pytest

from kuberay.api.expressions import RuleError, compile_rule


@pytest.mark.parametrize(
    ("rule", "value", "holds"),
    [
        ("!(has(self.a) && has(self.b))", {"a": 1}, True),
        ("!(has(self.a) && has(self.b))", {"a": 1, "b": 2}, False),
        ("has(self.a) || has(self.b)", {}, False),
        ("((has(self.a) && has(self.b)) || has(self.c))", {"c": []}, True),
        ("self.a == 1 && self.b != 'x'", {"a": 1, "b": "y"}, True),
        ("self.a <= self.b", {"a": 2, "b": 1}, False),
        ("size(self.list) > 1 || self.list[0] == 'a'", {"list": ["a"]}, True),
        ("self.name.startsWith('ray') && self.name.size() < 5", {"name": "rayx"}, True),
        ("self.flag == true", {"flag": 1}, False),
        ("self.a in [1, 2, -3]", {"a": -3}, True),
        ('self["a.b"] == null', {"a.b": None}, True),
    ],
)
def test_what_they_can_say(rule: str, value: Any, holds: bool) -> None:
    assert compile_rule(rule).holds(value) is holds


@pytest.mark.parametrize(
    "rule", ["self.all(x, x > 1)", "self.a + 1 == 2", "a ? b : c", "", "self ==", "other == 1", "has(self.a"]
)
def test_what_they_cannot_say_does_not_compile(rule: str) -> None:
    with pytest.raises(RuleError):
        compile_rule(rule)


def test_a_field_that_is_not_there_is_an_error_not_a_falsehood() -> None:
    with pytest.raises(RuleError, match="no such key: a"):
        compile_rule("self.a == 1").holds({})
