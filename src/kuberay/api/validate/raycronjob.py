"""The operator's rules for a RayCronJob, beyond what its schema says."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kuberay.api import cron
from kuberay.api.problems import Problem, shown, warning
from kuberay.api.validate.names import RAY_CRON_JOB_NAME, name_problems
from kuberay.api.validate.rayjob import job_spec_problems

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kuberay.api.gates import FeatureGates
    from kuberay.api.v1 import RayCronJob


def metadata_problems(job: RayCronJob) -> list[Problem]:
    """The name must leave room for those of its jobs, and start like theirs."""
    return list(name_problems("RayCronJob", job.metadata, RAY_CRON_JOB_NAME))


def spec_problems(job: RayCronJob, gates: FeatureGates, knows_time_zone: Callable[[str], bool]) -> list[Problem]:
    """Everything about the spec.

    :param knows_time_zone: whether there is a time zone of a name; the names lie in files, which nothing here reads.
    """
    return [
        *_schedule_problems(job),
        *_zone_problems(job, knows_time_zone),
        *job_spec_problems(job.spec.job_template, {}, gates, "spec.jobTemplate"),
    ]


def _schedule_problems(job: RayCronJob) -> Iterator[Problem]:
    schedule = job.spec.schedule or ""
    if "TZ" in schedule:
        yield Problem("spec.schedule", "must not hold TZ or CRON_TZ; use timeZone")
        return
    try:
        parsed = cron.parse(schedule)
    except cron.ScheduleError as error:
        yield Problem("spec.schedule", str(error))
        return
    if isinstance(parsed, cron.Every) and parsed.seconds < 60:
        yield warning("spec.schedule", "at most one job is made in a minute")


def _zone_problems(job: RayCronJob, knows_time_zone: Callable[[str], bool]) -> Iterator[Problem]:
    zone = job.spec.time_zone
    if zone is None:
        return
    if not zone:
        yield Problem("spec.timeZone", "must not be empty; leave it out for the operator's own zone")
    elif zone != "Local" and not knows_time_zone(zone):
        yield Problem("spec.timeZone", f"{shown(zone)} is not a known time zone")
