"""RayCronJob: RayJobs by the clock."""

from typing import Annotated

import msgspec

from kuberay.api.facts import Facts, Time
from kuberay.api.meta import Object
from kuberay.api.model import Model
from kuberay.api.v1.rayjob import RayJobSpec


class RayCronJobSpec(Model, frozen=True, kw_only=True):
    """Which job is made, and when."""

    schedule: Annotated[str | None, Facts(required=True)] = None
    """Five fields of cron, or `@hourly`, `@every 1h30m` and the like."""
    time_zone: Annotated[str | None, Facts(min_length=1)] = None
    """Name of a time zone; absent: the operator's own."""
    job_template: Annotated[RayJobSpec, Facts(required=True)] = msgspec.field(default_factory=RayJobSpec)
    """The spec of each job."""
    suspend: bool | None = None
    """Make no more jobs; those that run go on."""


class RayCronJobStatus(Model, frozen=True, kw_only=True):
    """What was done last."""

    last_schedule_time: Time = None
    """The tick that was handled last, not the time it was handled at."""


class RayCronJob(Object, frozen=True, kw_only=True):
    """Jobs on Ray that come again and again."""

    api_version: str = "ray.io/v1"
    kind: str = "RayCronJob"
    spec: RayCronJobSpec = msgspec.field(default_factory=RayCronJobSpec)
    status: RayCronJobStatus = msgspec.field(default_factory=RayCronJobStatus)
