from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from kubernetes.utils.quantity import parse_quantity

from kuberay.kube import quantity
from kuberay.kube.quantity import Quantity, parse

SUFFIXES = ["", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"]
LARGEST = 2**63 - 1


@st.composite
def texts(draw: st.DrawFn) -> str:
    number = str(draw(st.integers(min_value=-(10**6), max_value=10**6)))
    fraction = draw(st.sampled_from(["", ".5", ".25", ".125", ".001", ".0"]))
    return number + fraction + draw(st.sampled_from(SUFFIXES))


quantities = st.builds(
    Quantity, st.integers(min_value=-(10**30), max_value=10**30), st.sampled_from(list(quantity.Notation))
)


class TestParsing:
    @pytest.mark.parametrize(
        ("text", "nano"),
        [
            ("0", 0),
            ("1", 10**9),
            ("500m", 5 * 10**8),
            ("0.5", 5 * 10**8),
            (".5", 5 * 10**8),
            ("5.", 5 * 10**9),
            ("+2k", 2 * 10**12),
            ("-1Ki", -1024 * 10**9),
            ("1.5Gi", 1536 * 1024**2 * 10**9),
            ("12e6", 12 * 10**15),
            ("12E-3", 12 * 10**6),
            ("1E", 10**27),
            ("3u", 3000),
            ("7n", 7),
        ],
    )
    def test_every_notation_is_understood(self, text: str, nano: int) -> None:
        assert parse(text).nano == nano

    @pytest.mark.parametrize("value", [2, 0.5, 1e3])
    def test_a_json_number_is_taken_as_its_text(self, value: float) -> None:
        assert parse(value).nano == int(value * 10**9)

    @pytest.mark.parametrize(
        "text", ["", "abc", "1.2.3", "1 Gi", "1KB", "Gi", ".", "1ki", "--1", "1e", "1Mi5", "inf", "1e999", "٣", "1\n"]
    )
    def test_bad_text_is_refused_with_the_text_shown(self, text: str) -> None:
        with pytest.raises(ValueError, match="is not a quantity") as refused:
            parse(text)
        assert repr(text) in str(refused.value)

    @pytest.mark.parametrize("value", [True, float("nan"), float("inf")])
    def test_what_is_no_amount_is_refused(self, value: float) -> None:
        with pytest.raises(ValueError, match="is not a quantity"):
            parse(value)

    def test_endless_text_is_refused_without_being_computed(self) -> None:
        with pytest.raises(ValueError, match="is 5000 characters long"):
            parse("9" * 5000)

    def test_less_than_a_billionth_is_rounded_up(self) -> None:
        assert (parse("0.1n").nano, parse("-0.1n").nano) == (1, -1)

    def test_binary_amounts_are_capped_as_kubernetes_caps_them(self) -> None:
        assert (int(parse("100Ei")), int(parse("100E"))) == (LARGEST, 100 * 10**18)

    @given(texts())
    def test_values_agree_with_the_official_client(self, text: str) -> None:
        wanted = Fraction(Decimal(parse_quantity(text)))  # type: ignore[no-untyped-call]
        nano = wanted * 10**9
        rounded = -((-nano.numerator) // nano.denominator) if nano > 0 else nano.numerator // nano.denominator
        if text.endswith("i"):
            rounded = max(-LARGEST * 10**9, min(LARGEST * 10**9, rounded))
        assert parse(text).nano == rounded


class TestPrinting:
    @pytest.mark.parametrize(
        ("text", "canonical"),
        [
            ("0", "0"),
            ("0Gi", "0"),
            ("1000m", "1"),
            ("1500m", "1500m"),
            ("0.1", "100m"),
            ("1024Mi", "1Gi"),
            ("1.5Gi", "1536Mi"),
            ("1000Mi", "1000Mi"),
            ("0.5Ki", "512"),
            ("1.3Ki", "1331200m"),
            ("2000", "2k"),
            ("2048", "2048"),
            ("1e3", "1e3"),
            ("1200e-1", "120"),
            ("0.00001", "10u"),
            ("-2000Mi", "-2000Mi"),
            ("8Ei", "9223372036854775807"),
            ("10000E", "10e21"),
            ("1000E", "1e21"),
            ("1000000", "1M"),
        ],
    )
    def test_the_text_is_the_one_kubernetes_stores(self, text: str, canonical: str) -> None:
        assert str(parse(text)) == canonical

    @given(texts())
    @example("79062.5Ki")  # 80960000: a binary amount for which no suffix is left, and so a decimal one from then on
    def test_the_text_means_the_same_amount_and_soon_stays_as_it_is(self, text: str) -> None:
        amount = parse(text)
        again = parse(str(amount))
        assert again == amount
        assert str(parse(str(again))) == str(again)


class TestArithmetic:
    def test_equal_amounts_are_equal_and_hash_alike_whatever_the_notation(self) -> None:
        assert parse("1Ki") == parse("1024") == parse("1024000m")
        assert len({parse("1Ki"), parse("1024")}) == 1

    def test_a_sum_keeps_the_notation_of_its_first_part_that_is_not_zero(self) -> None:
        assert str(parse("1Gi") + parse("1024Mi")) == "2Gi"
        assert str(quantity.ZERO + parse("1Gi") + parse("1Gi")) == "2Gi"

    def test_ten_tenths_are_one(self) -> None:
        assert sum([parse("0.1")] * 10, quantity.ZERO) == parse("1")

    def test_multiplying_counts_replicas(self) -> None:
        assert str(parse("250m") * 3) == "750m"

    @pytest.mark.parametrize(("text", "whole"), [("0", 0), ("100m", 1), ("1", 1), ("1001m", 2), ("-1500m", -1)])
    def test_the_integer_is_rounded_up(self, text: str, whole: int) -> None:
        assert int(parse(text)) == whole

    def test_thousandths_are_rounded_up(self) -> None:
        assert parse("1u").milli == 1

    @given(quantities, quantities)
    def test_order_is_the_order_of_amounts(self, a: Quantity, b: Quantity) -> None:
        assert (a < b, a <= b, a > b, a >= b) == (a.nano < b.nano, a.nano <= b.nano, a.nano > b.nano, a.nano >= b.nano)

    @given(quantities, quantities)
    def test_subtracting_undoes_adding(self, a: Quantity, b: Quantity) -> None:
        assert a + b - b == a
        assert a + -a == quantity.ZERO
