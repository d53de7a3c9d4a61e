from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from kuberay.api.documents import DEEPEST, Document, Unreadable, read


def only(text: str) -> Document:
    [document] = read(text)
    return document


# The writer leaves 1e3 without quotes where it means text; kubectl reads a number.
WORDS = st.text(max_size=9).filter(lambda text: not text[:1] or text[0] not in "+-.0123456789")


class TestValues:
    @pytest.mark.parametrize(
        ("text", "value"),
        [
            ("1", 1), ("-7", -7), ("0x1f", 31), ("-0x10", -16), ("0o17", 15), ("0644", 420), ("1_000", 1000),
            ("1.5", 1.5), ("+.5", 0.5), ("1.", 1.0), ("1e3", 1000.0), ("1e400", "1e400"), ("089", 89.0),
            ("0x", "0x"), ("1,000", "1,000"), ("y", "y"), ("Off", False), ("!!int '7'", 7),
            ("!foo bar", "bar"), ("! 5", "5"), ("=", "="), ("'~'", "~"),
            ("true", True), ("no", False), ("ON", True), ("~", None), ("", None), ("'1'", "1"), ('"true"', "true"),
            ("2.52.0", "2.52.0"), ("2026-01-31", "2026-01-31"), ("1:30", "1:30"), ("!!str 5", "5"), ("500m", "500m"),
            ("|\n    a\n    b", "a\nb\n"),
        ],
    )  # fmt: skip
    def test_scalars_become_what_kubectl_sends(self, text: str, value: Any) -> None:
        found = only(f"a: {text}\nend: x").value["a"]
        assert found == value
        assert type(found) is type(value)

    def test_several_documents_and_empty_ones(self) -> None:
        found = list(read("---\n---\na: 1\n---\n# nothing\n---\n- b\n"))
        assert [(document.value, document.line) for document in found] == [({"a": 1}, 3), (["b"], 7)]

    def test_aliases_and_merged_mappings(self) -> None:
        document = only("base: &b {x: 1, y: 2}\nmade: {<<: *b, y: 3}\nsame: *b")
        assert document.value["made"] == {"x": 1, "y": 3}
        assert document.value["same"] == {"x": 1, "y": 2}

    def test_keys_are_text(self) -> None:
        assert only("1: a\ntrue: b\nnull: c").value == {"1": "a", "true": "b", "null": "c"}

    def test_json_indented_by_tabs_is_read_too(self) -> None:
        assert only('{\n\t"a": 1\n}').value == {"a": 1}

    def test_json_may_escape_a_character_in_two_halves(self) -> None:
        assert only(r'{"a": "\ud83d\ude00"}').value == {"a": "\N{GRINNING FACE}"}

    def test_json_needs_no_blanks(self) -> None:
        assert only('{"a":1,"b":[true,{"c":null}]}').value == {"a": 1, "b": [True, {"c": None}]}

    @given(
        st.recursive(
            st.none() | st.booleans() | st.integers(-(2**63), 2**63) | WORDS,
            lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
            max_leaves=20,
        ).filter(lambda value: value is not None)
    )
    def test_what_yaml_writes_is_read_back(self, value: Any) -> None:
        assert only(yaml.dump(value, Dumper=yaml.CSafeDumper)).value == value

    @given(st.dictionaries(st.text(max_size=5), st.floats(allow_nan=False, allow_infinity=False) | st.integers()))
    def test_json_is_read_as_json_reads_it(self, value: dict[str, Any]) -> None:
        assert only(json.dumps(value)).value == value


class TestLines:
    TEXT = """\
metadata:
  annotations:
    ray.io/ft-enabled: "true"
    a.b: c
spec:
  groups:
  - name: a
    replicas: 1
  - name: b
    template: {x: 1}
"""

    @pytest.mark.parametrize(
        ("path", "line"),
        [
            ("", 1), ("metadata", 1), ("metadata.annotations", 2), ("metadata.annotations[ray.io/ft-enabled]", 3),
            ("metadata.annotations[a.b]", 4), ("spec.groups[0]", 7), ("spec.groups[0].replicas", 8),
            ("spec.groups[1].name", 9), ("spec.groups[1].template.x", 10),
        ],
    )  # fmt: skip
    def test_every_field_has_its_line(self, path: str, line: int) -> None:
        assert only(self.TEXT).line_of(path) == line

    @pytest.mark.parametrize(
        ("path", "line"),
        [("spec.groups[1].replicas", 9), ("spec.groups[7].name", 6), ("status", 1), ("spec.groupsX", 5)],
    )
    def test_a_missing_field_has_the_line_of_what_lacks_it(self, path: str, line: int) -> None:
        assert only(self.TEXT).line_of(path) == line

    def test_a_boolean_of_kubectl_that_is_text_to_others_is_noted(self) -> None:
        assert only("a:\n  b: y\n  c: 'y'\n").doubtful == [("a.b", 2, "y")]

    def test_a_repeated_key_is_noted_with_both_lines(self) -> None:
        assert only("a:\n  b: 1\n  b: 2\n").repeated == [("a.b", 3, 2)]


class TestUnreadable:
    @pytest.mark.parametrize(
        ("text", "line", "why"),
        [
            ("a: [1", 1, "not YAML"),
            ("a:\n\tb: 1", 2, "indent with spaces"),
            ("a: 1\nb: {c: 1}}", 2, "not YAML"),
            ("a: &x [*x]", 1, "refers to itself"),
            ("a: *gone", 1, "nothing before it"),
            ("? [1]\n: 2", 1, "key of a mapping must be text"),
            ("a: .inf", 1, "not a number that JSON has"),
            ("a: \x00", 1, "not YAML"),
            (r'{"a": "\ud83d\ude00", "b": NaN}', 1, "not YAML"),
            (r'{"a": "\ud83d\ude00", "b": ' + "[" * 300 + "]" * 300 + "}", 1, "not YAML"),
            ("[" * 100_000, 1, f"deeper than {DEEPEST}"),
            ("{a: " * 100_000, 1, f"deeper than {DEEPEST}"),
        ],
    )
    def test_what_cannot_be_read_is_told_with_its_line(self, text: str, line: int, why: str) -> None:
        with pytest.raises(Unreadable, match=why) as caught:
            list(read(text))
        assert caught.value.line == line

    def test_aliases_that_multiply_are_refused_before_they_do(self) -> None:
        lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
        lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 10)]
        with pytest.raises(Unreadable, match="once its aliases are followed"):
            list(read("\n".join(lines)))

    @given(st.text() | st.text(alphabet="ab:-[]{}&*!|>'\"#%@`,? \n\t1.~<"))
    def test_no_text_brings_the_reader_down(self, text: str) -> None:
        with contextlib.suppress(Unreadable):
            for document in read(text):
                assert json.loads(json.dumps(document.value)) == document.value
