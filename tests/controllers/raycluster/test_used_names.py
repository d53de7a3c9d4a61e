"""How long a name is not used again."""

from __future__ import annotations

from kuberay.controllers.raycluster.used_names import REST, UsedNames


def test_a_name_rests_for_a_while() -> None:
    names = UsedNames()
    names.note("a", 0.0)
    names.note("b", 1.0)
    assert names.at(REST - 1) == {"a", "b"}
    assert names.at(REST) == {"b"}
    assert names.at(REST + 1) == set()


def test_one_that_is_used_again_rests_anew() -> None:
    names = UsedNames()
    for name, now in (("a", 0.0), ("b", 1.0), ("a", 2.0)):
        names.note(name, now)
    assert names.at(REST + 1) == {"a"}


def test_no_more_are_kept_than_fit() -> None:
    names = UsedNames(most=2)
    for number, name in enumerate("abc"):
        names.note(name, float(number))
    assert names.at(3.0) == {"b", "c"}
