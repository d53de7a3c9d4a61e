from __future__ import annotations

import pytest

from kuberay.api.versions import TOKEN_AUTH, RayVersion


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("2.52.0", "2.52.0"),
        ("2.52", "2.52.0"),
        (" v2.52.1 ", "2.52.1"),
        ("2.52.0rc1", "2.52.0"),
        ("3.0.0.dev0", "3.0.0"),
    ],
)
def test_a_version_is_its_numbers(text: str, version: str) -> None:
    assert str(RayVersion.parse(text)) == version


@pytest.mark.parametrize("text", ["", "nightly", "2", "latest-py311", "x2.5", "-2.5"])
def test_other_words_are_no_version(text: str) -> None:
    assert RayVersion.parse(text) is None


def test_versions_compare_by_number_not_by_text() -> None:
    assert RayVersion(2, 9) < TOKEN_AUTH <= RayVersion(2, 52, 0) < RayVersion(2, 100)
