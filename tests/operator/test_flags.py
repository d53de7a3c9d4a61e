"""The command line in Go's syntax."""

from __future__ import annotations

import pytest

from kuberay.operator.flags import FlagError, Flags, HelpWanted, parse, usage


class TestSyntax:
    @pytest.mark.parametrize(
        "arguments", [["--qps=50"], ["-qps=50"], ["--qps", "50"], ["-qps", "50"], ["--qps", "1", "--qps=50"]]
    )
    def test_a_value_stands_behind_an_equals_sign_or_in_the_next_word(self, arguments: list[str]) -> None:
        assert parse(arguments).qps == 50.0

    @pytest.mark.parametrize(
        ("word", "expected"),
        [
            ("--enable-metrics", True),
            ("-enable-metrics=T", True),
            ("--enable-metrics=1", True),
            ("--enable-metrics=false", False),
            ("--enable-metrics=F", False),
        ],
    )
    def test_a_switch_is_on_by_its_name_and_takes_a_value_behind_an_equals_sign(
        self, word: str, expected: bool
    ) -> None:
        assert parse([word]).enable_metrics is expected

    def test_an_empty_value_is_a_value(self) -> None:
        assert parse(["--watch-namespace="]).watch_namespace == ""

    def test_it_remembers_which_flags_were_named(self) -> None:
        assert parse(["--qps=1", "--zap-devel"]).given == {"qps", "zap-devel"}

    def test_nothing_said_means_the_defaults(self) -> None:
        assert parse([]) == Flags()


class TestMistakes:
    def test_an_unknown_flag_is_answered_with_the_known_ones(self) -> None:
        with pytest.raises(FlagError, match=r"--qbs is unknown; known are .*--qps.*--watch-namespace"):
            parse(["--qbs=1"])

    def test_the_value_of_a_switch_must_not_stand_apart(self) -> None:
        with pytest.raises(FlagError, match="'false' belongs to no flag; switches take a value as in"):
            parse(["--enable-leader-election", "false", "--qps=5"])

    @pytest.mark.parametrize("word", ["--", "-", "operator"])
    def test_words_that_belong_to_no_flag_are_refused(self, word: str) -> None:
        with pytest.raises(FlagError, match="belongs to no flag"):
            parse([word])

    @pytest.mark.parametrize(
        ("word", "wanted"),
        [
            ("--burst=many", "--burst=many: a whole number is wanted"),
            ("--qps=", "--qps=: a number is wanted"),
            ("--enable-metrics=yes", "--enable-metrics=yes: true or false is wanted"),
            ("--config", "--config needs a value"),
        ],
    )
    def test_a_value_that_does_not_fit_is_named(self, word: str, wanted: str) -> None:
        with pytest.raises(FlagError, match=wanted):
            parse([word])


class TestHelp:
    @pytest.mark.parametrize("word", ["-h", "--help", "-help"])
    def test_help_can_be_asked_for_among_other_flags(self, word: str) -> None:
        with pytest.raises(HelpWanted):
            parse(["--qps=1", word])

    def test_every_flag_has_a_paragraph_with_its_default(self) -> None:
        text = usage()
        assert "  --burst N\n      Requests that may be sent at once when --qps limits them. (default 200)" in text
        assert "(default :8082 in a Pod, else 127.0.0.1:8082)" in text

    @pytest.mark.parametrize(
        "name",
        ["forced-cluster-upgrade", "use-kubernetes-proxy", "zap-encoder", "zap-stacktrace-level", "zap-time-encoding"],
    )
    def test_a_flag_that_has_no_effect_says_so(self, name: str) -> None:
        _, paragraph = usage().split(f"  --{name}")
        assert "no effect" in "".join(paragraph.splitlines()[:2])
