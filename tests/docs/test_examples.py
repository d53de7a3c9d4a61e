"""Every worked example of the specs is a test, and the test says which one it is.

The specs live beside the repository (`../shared/spec`) and name their examples; what has no name of its own is numbered
within its section, or is the table of one. A test cites one in its docstring, or in that of its class, as
`raycluster EX-23`, `pod-template E5`, `pod-template 28.4` or `pod-template section 12`.
"""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

TESTS = Path(__file__).parents[1]
SPECS = TESTS.parent.parent / "shared" / "spec"

pytestmark = pytest.mark.skipif(not SPECS.exists(), reason="the specs (../shared/spec) are not on this machine")

_BATCH_SCHEDULERS = "batch schedulers are not there yet"
_MTLS = "certificates for mutual TLS are not there yet"

NOT_YET: dict[str, str] = {
    "raycluster EX-95": _MTLS,
    "raycluster EX-96": _MTLS,
    "raycluster EX-97": _MTLS,
    "raycluster EX-98": _MTLS,
    "pod-template 28.8": _BATCH_SCHEDULERS,
    "pod-template 30.3": _BATCH_SCHEDULERS,
}
"""Examples of what is not built, each with what that is."""

_NAMED = {"raycluster": r"^- (EX-\d+[a-z]?)\b", "pod-template": r"^# (E\d+) "}
_NUMBERED = {
    "21": r"^Example, ",
    "24": r"^\| (?!Rule \||---)",
    "27": r"^(?:Head$|Worker$|- )",
    "28": r"^\d+\. ",
    "30": r"^- ",
}
"""Sections of the Pods' spec whose items have no names: what begins one."""
_TABLES = ("4", "8", "10.1", "11.3", "11.5", "12", "14.1", "17", "20.2")
"""Sections of the Pods' spec that are proven as a whole: what goes in and what comes out stands in their tables."""

_CITATION = re.compile(r"\b(raycluster|pod-template) (EX-\d+[a-z]?|E\d+|\d+\.\d+|section [\d.]*\d)\b")


@cache
def examples() -> frozenset[str]:
    """The names of all examples."""
    return frozenset(_examples())


def _examples() -> Iterator[str]:
    pages = {name: (SPECS / f"{name}.md").read_text() for name in _NAMED}
    for name, pattern in _NAMED.items():
        yield from (f"{name} {label}" for label in re.findall(pattern, pages[name], re.MULTILINE))
    for section, pattern in _NUMBERED.items():
        [text] = re.findall(rf"^## {section}\. .*?(?=^## |\Z)", pages["pod-template"], re.MULTILINE | re.DOTALL)
        found = re.findall(pattern, text, re.MULTILINE)
        yield from (f"pod-template {section}.{number}" for number, _ in enumerate(found, 1))
    for section in _TABLES:
        assert re.search(rf"^##+ {section}\.? ", pages["pod-template"], re.MULTILINE), f"there is no section {section}"
        yield f"pod-template section {section}"


@cache
def cited() -> dict[str, str]:
    """The examples that tests cite, and a test for each."""
    return {
        f"{spec} {label}": f"{path.relative_to(TESTS)}: {name}"
        for path in sorted(TESTS.rglob("test_*.py"))
        for name, docstring in _docstrings(ast.parse(path.read_text()))
        for spec, label in _CITATION.findall(docstring)
    }


def _docstrings(module: ast.Module) -> Iterator[tuple[str, str]]:
    """Of the tests of a module, and of its classes that have some. Comments and helpers prove nothing."""
    for node in ast.walk(module):
        if _is_test(node) or (isinstance(node, ast.ClassDef) and any(map(_is_test, node.body))):
            yield node.name, ast.get_docstring(node) or ""  # type: ignore[attr-defined, arg-type]


def _is_test(node: ast.AST) -> bool:
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_")


def test_only_tests_can_cite() -> None:
    module = ast.parse(
        '"""In a module."""\n'
        "# In a comment.\n"
        'def helper():\n    """In a helper."""\n'
        'class TestNothing:\n    """In a class without tests."""\n'
        'class TestSomething:\n    """In a class."""\n    def test_it(self):\n        """In a test."""\n'
    )
    assert sorted(docstring for _, docstring in _docstrings(module)) == ["In a class.", "In a test."]


def test_the_specs_have_the_examples_that_are_looked_for() -> None:
    found = [label.partition(" ")[2] for label in examples()]
    assert len([label for label in found if label.startswith("EX-")]) >= 99
    assert {f"E{number}" for number in range(1, 19)} <= set(found)
    assert {"21.1", "24.15", "27.7", "28.11", "30.3"} <= set(found)


def test_every_example_is_cited_by_a_test() -> None:
    missing = examples() - cited().keys() - NOT_YET.keys()
    assert not missing, f"no test cites {', '.join(sorted(missing))}"


def test_what_is_cited_is_an_example() -> None:
    unknown = {label: place for label, place in cited().items() if label not in examples()}
    assert not unknown


def test_what_is_left_out_is_an_example_that_nobody_proves() -> None:
    assert NOT_YET.keys() <= examples()
    assert not NOT_YET.keys() & cited().keys()
