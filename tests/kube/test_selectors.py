from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kuberay.kube.selectors import FieldSelector, FieldTest, LabelSelector, Operator, Requirement, SelectorError

KEYS = ["app", "tier", "ray.io/cluster"]
VALUES = ["", "a", "b", "3"]
label_sets = st.dictionaries(st.sampled_from(KEYS), st.sampled_from(VALUES))


@st.composite
def requirements(draw: st.DrawFn) -> Requirement:
    key = draw(st.sampled_from(KEYS))
    operator = draw(st.sampled_from(list(Operator)))
    if operator in (Operator.EXISTS, Operator.DOES_NOT_EXIST):
        return Requirement(key, operator)
    if operator in (Operator.GREATER, Operator.LESS):
        return Requirement(key, operator, (str(draw(st.integers(0, 5))),))
    return Requirement(key, operator, tuple(sorted(draw(st.sets(st.sampled_from(VALUES), min_size=1)))))


class TestLabelSelectorText:
    @pytest.mark.parametrize(
        ("text", "labels", "selected"),
        [
            ("", {}, True),
            ("app=a", {"app": "a"}, True),
            ("app==a", {"app": "b"}, False),
            ("app=", {"app": ""}, True),
            ("app=", {}, False),
            ("app!=a", {"app": "a"}, False),
            ("app!=a", {}, True),
            ("app in (a, b)", {"app": "b"}, True),
            ("app in (a,b)", {}, False),
            ("app in ()", {"app": ""}, True),
            ("app notin (a,b)", {"app": "a"}, False),
            ("app notin (a,b)", {}, True),
            ("app", {"app": ""}, True),
            ("!app", {"app": "a"}, False),
            (" ! app , tier = a", {"tier": "a"}, True),
            ("ray.io/cluster=x,app in (a),!gone", {"ray.io/cluster": "x", "app": "a"}, True),
            ("app>2", {"app": "3"}, True),
            ("app<2", {"app": "3"}, False),
            ("app>2", {"app": "many"}, False),
            ("in in (in)", {"in": "in"}, True),
        ],
    )
    def test_selects_what_kubectl_selects(self, text: str, labels: dict[str, str], selected: bool) -> None:
        assert LabelSelector.parse(text).matches(labels) is selected

    @pytest.mark.parametrize(
        "text",
        [
            ",",
            "a,",
            "a,,b",
            "=b",
            "a=b c",
            "a in b",
            "a in (b",
            "a in (b c)",
            "a in (b,(c))",
            "a ~ b",
            "!",
            "a=!b",
            "a>x",
            "-a=b",
            "A_/x=b",
            "a=" + "v" * 64,
            "a=b/c",
        ],
    )
    def test_bad_text_is_refused_with_the_text_shown(self, text: str) -> None:
        with pytest.raises(SelectorError) as refused:
            LabelSelector.parse(text)
        assert repr(text) in str(refused.value)

    @given(st.lists(requirements()), label_sets)
    def test_the_text_of_a_selector_selects_the_same(self, wanted: list[Requirement], labels: dict[str, str]) -> None:
        selector = LabelSelector(tuple(wanted))
        assert LabelSelector.parse(str(selector)) == selector
        assert selector.matches(labels) is all(requirement.matches(labels) for requirement in wanted)

    @given(st.text(alphabet="ab=!,() in<>/", max_size=12))
    def test_any_text_is_read_or_refused(self, text: str) -> None:
        try:
            selector = LabelSelector.parse(text)
        except SelectorError:
            return
        assert LabelSelector.parse(str(selector)) == selector


class TestLabelSelectorObject:
    def test_labels_and_expressions_must_all_hold(self) -> None:
        selector = LabelSelector.from_dict(
            {
                "matchLabels": {"app": "a"},
                "matchExpressions": [
                    {"key": "tier", "operator": "In", "values": ["x", "y"]},
                    {"key": "gone", "operator": "DoesNotExist"},
                ],
            }
        )
        assert selector.matches({"app": "a", "tier": "y"})
        assert not selector.matches({"app": "a", "tier": "y", "gone": ""})
        assert str(selector) == "app=a,tier in (x,y),!gone"

    def test_an_empty_selector_matches_everything_and_an_absent_one_nothing(self) -> None:
        assert LabelSelector.from_dict({}).matches(None)
        assert not LabelSelector.from_dict(None).matches({"app": "a"})

    @pytest.mark.parametrize(
        "selector",
        [
            {"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["1"]}]},
            {"matchExpressions": [{"key": "a", "operator": "Near"}]},
            {"matchExpressions": [{"key": "a", "operator": "In"}]},
            {"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["b"]}]},
            {"matchExpressions": [{"operator": "Exists"}]},
            {"matchLabels": {"a": 1}},
        ],
    )
    def test_a_bad_field_is_refused(self, selector: dict[str, Any]) -> None:
        with pytest.raises(SelectorError, match="label selector"):
            LabelSelector.from_dict(selector)

    def test_a_service_selector_wants_exactly_its_labels(self) -> None:
        assert str(LabelSelector.of({"b": "2", "a": "1"})) == "a=1,b=2"


class TestFieldSelector:
    @pytest.mark.parametrize(
        ("text", "fields", "selected"),
        [
            ("", {}, True),
            ("metadata.name=x", {"metadata.name": "x"}, True),
            ("metadata.name==x", {"metadata.name": "y"}, False),
            ("status.phase!=Running", {"status.phase": "Pending"}, True),
            ("spec.nodeName=", {}, True),
            ("a=1,b!=2", {"a": "1", "b": "2"}, False),
            (r"a=x\,y\=z\\", {"a": "x,y=z\\"}, True),
        ],
    )
    def test_selects_by_equality(self, text: str, fields: dict[str, str], selected: bool) -> None:
        assert FieldSelector.parse(text).matches(fields) is selected

    @pytest.mark.parametrize("text", ["metadata.name", "=x", "a=b=c", "a>1", r"a=\x", "a=b\\"])
    def test_bad_text_is_refused_with_the_text_shown(self, text: str) -> None:
        with pytest.raises(SelectorError) as refused:
            FieldSelector.parse(text)
        assert repr(text) in str(refused.value)

    def test_tells_which_fields_it_tests_and_the_one_value_wanted(self) -> None:
        selector = FieldSelector.parse("metadata.name=x,status.phase!=Failed")
        assert selector.paths == ("metadata.name", "status.phase")
        assert (selector.value_of("metadata.name"), selector.value_of("status.phase")) == ("x", None)

    @given(st.lists(st.builds(FieldTest, st.sampled_from(["a", "b.c"]), st.text(alphabet="x\\,=!", max_size=5))))
    def test_the_text_of_a_selector_reads_as_the_selector(self, tests: list[FieldTest]) -> None:
        selector = FieldSelector(tuple(tests))
        assert FieldSelector.parse(str(selector)) == selector
