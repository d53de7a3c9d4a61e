from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kuberay.api import names

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.mark.parametrize(
    ("check", "good", "bad"),
    [
        (names.dns_1123_label, ["a", "1a", "a-b", "a" * 63], ["", "A", "-a", "a-", "a.b", "a_b", "a" * 64, "a\n"]),
        (names.dns_1035_label, ["a", "a1", "a-b", "a" * 63], ["", "1a", "A", "-a", "a-", "a.b", "a" * 64, "ä"]),
        (names.dns_1123_subdomain, ["a", "a.b", "1.2", "a" * 253], ["", "a..b", ".a", "a.", "A.b", "a" * 254]),
        (names.qualified_name, ["a", "A_b.c-d", "x.io/Name"], ["", "/a", "x.io/", "-a", "a b", "X.io/a", "a/b/c"]),
        (names.label_value, ["", "a", "A_b.c-d", "a" * 63], ["-a", "a-", "a b", "a/b", "a" * 64]),
    ],
)
def test_names_are_judged_as_kubernetes_judges_them(
    check: Callable[[str], str | None], good: list[str], bad: list[str]
) -> None:
    assert [name for name in good if check(name)] == []
    assert [name for name in bad if not check(name)] == []


def test_the_message_holds_the_name_and_the_limit() -> None:
    assert "'Demo' is not a DNS-1035 label" in (names.dns_1035_label("Demo") or "")
    assert "has 64 characters, at most 63" in (names.label_value("a" * 64) or "")
