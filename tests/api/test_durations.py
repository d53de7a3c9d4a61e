from __future__ import annotations

from fractions import Fraction

import pytest

from kuberay.api import durations


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("5m", 300),
        ("1h30m", 5400),
        ("1.5h", 5400),
        (".5s", Fraction(1, 2)),
        ("1.s", 1),
        ("100ms", Fraction(1, 10)),
        ("-5m", -300),
        ("+1s", 1),
        ("0", 0),
        ("1h1m1s1ms1us1ns", 3661 + Fraction(1_001_001, 10**9)),
        ("2µs", Fraction(2, 10**6)),
    ],
)
def test_a_duration_is_read_exactly(text: str, seconds: Fraction | int) -> None:
    assert durations.parse(text) == seconds


@pytest.mark.parametrize("text", ["", "5", "m", "5 m", "5m ", "1d", "--1s", ".s", "1h-1m", "9999999h", "٣s"])
def test_other_texts_are_none(text: str) -> None:
    assert durations.parse(text) is None
