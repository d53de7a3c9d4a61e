from __future__ import annotations

from typing import Any

import pytest

from kuberay.api.v1 import RayCronJob
from kuberay.api.validate import raycronjob
from tests.api.clusters import ALL_GATES, manifest


def problems(**spec: Any) -> list[str]:
    spec = {"schedule": "@hourly", "jobTemplate": {"rayClusterSpec": manifest()["spec"]}, **spec}
    job = RayCronJob.from_dict({"spec": spec})
    found = raycronjob.spec_problems(job, ALL_GATES, lambda zone: zone == "Europe/Berlin")
    return [str(problem) for problem in found]


class TestSchedules:
    def test_a_schedule_is_needed_and_must_parse(self) -> None:
        assert problems() == []
        assert problems(schedule="61 * * * *") == ["spec.schedule: minute '61': must be from 0 to 59"]
        assert problems(schedule=None)[0].startswith("spec.schedule: '' has 0 fields")

    @pytest.mark.parametrize("schedule", ["TZ=UTC * * * * *", "CRON_TZ=UTC * * * * *"])
    def test_the_zone_has_its_own_field(self, schedule: str) -> None:
        assert problems(schedule=schedule) == ["spec.schedule: must not hold TZ or CRON_TZ; use timeZone"]

    def test_jobs_do_not_come_more_often_than_minutes(self) -> None:
        assert problems(schedule="@every 30s") == ["spec.schedule: at most one job is made in a minute"]


class TestZones:
    @pytest.mark.parametrize("zone", [None, "Europe/Berlin", "Local"])
    def test_known_zones_are_fine(self, zone: str | None) -> None:
        assert problems(timeZone=zone) == []

    def test_others_are_not(self) -> None:
        assert problems(timeZone="Mars/Olympus") == ["spec.timeZone: 'Mars/Olympus' is not a known time zone"]
        assert problems(timeZone="") == ["spec.timeZone: must not be empty; leave it out for the operator's own zone"]


class TestTheJob:
    def test_its_rules_hold_under_the_templates_path(self) -> None:
        assert problems(jobTemplate={}) == ["spec.jobTemplate: one of rayClusterSpec and clusterSelector must be set"]

    @pytest.mark.parametrize(("name", "fine"), [("a" * 36, True), ("a" * 37, False), ("1a", False)])
    def test_its_name_leaves_room_for_the_jobs(self, name: str, fine: bool) -> None:
        assert (raycronjob.metadata_problems(RayCronJob.from_dict({"metadata": {"name": name}})) == []) is fine
