from __future__ import annotations

import pytest

from kuberay.api import cron


def schedule(text: str) -> cron.Schedule:
    parsed = cron.parse(text)
    assert isinstance(parsed, cron.Schedule)
    return parsed


class TestFields:
    def test_a_star_is_every_value(self) -> None:
        parsed = schedule("* ? * * *")
        assert (len(parsed.minutes), len(parsed.hours), len(parsed.days)) == (60, 24, 31)
        assert (len(parsed.months), len(parsed.weekdays)) == (12, 7)

    def test_lists_ranges_and_steps(self) -> None:
        parsed = schedule("0,30 8-10 */10 1-6/2 5/1")
        assert parsed.minutes == {0, 30}
        assert parsed.hours == {8, 9, 10}
        assert parsed.days == {1, 11, 21, 31}
        assert parsed.months == {1, 3, 5}
        assert parsed.weekdays == {5, 6}

    def test_names_of_months_and_weekdays_in_any_case(self) -> None:
        parsed = schedule("0 0 * JAN,feb Mon-fri")
        assert parsed.months == {1, 2}
        assert parsed.weekdays == {1, 2, 3, 4, 5}

    @pytest.mark.parametrize(
        ("text", "either"),
        [
            ("0 0 1 * 1", True),
            ("0 0 * * 1", False),
            ("0 0 1 * *", False),
            ("0 0 */2 * 1", True),
            ("0 0 */1 * 1", False),
        ],
    )
    def test_two_restricted_days_match_by_either(self, text: str, either: bool) -> None:
        assert schedule(text).either_day is either


class TestWords:
    def test_words_stand_for_fields(self) -> None:
        assert cron.parse("@hourly") == cron.parse("0 * * * *")
        assert cron.parse("@weekly") == cron.parse("0 0 * * sun")

    @pytest.mark.parametrize(("text", "seconds"), [("@every 1h30m", 5400), ("@every 1.9s", 1), ("@every 1ms", 1)])
    def test_an_interval_is_whole_seconds_and_at_least_one(self, text: str, seconds: int) -> None:
        assert cron.parse(text) == cron.Every(seconds)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "has 0 fields"),
        ("* * * *", "has 4 fields"),
        ("0 0 * * * *", "has 6 fields"),
        ("60 * * * *", "minute '60'"),
        ("* * 0 * *", "day of month '0'"),
        ("* * * * 7", "day of week '7'"),
        ("* * * foo *", "'foo' is not a number"),
        ("*/0 * * * *", "step must be at least 1"),
        ("5-1 * * * *", "ends before it starts"),
        ("-1 * * * *", "is not a number"),
        ("1,,2 * * * *", "is not a number"),
        ("* * L * *", "is not a number"),
        ("@soon", "is not one of"),
        ("@every x", "duration"),
        ("*/99999999999999 * * * *", "is not a number"),
        ("٣ * * * *", "is not a number"),
    ],
)
def test_what_is_no_schedule_is_told_by_its_part(text: str, why: str) -> None:
    with pytest.raises(cron.ScheduleError, match=why):
        cron.parse(text)
