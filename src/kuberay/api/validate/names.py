"""How objects of each kind may be called, so that the names derived from theirs fit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kuberay.api import names
from kuberay.api.problems import Problem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kuberay.api.meta import ObjectMeta

RAY_CLUSTER_NAME = 53
"""A Service's name has 63 characters, and the longest that is added to a cluster's name is `-serve-svc`."""
RAY_JOB_NAME = 47
"""The cluster of a job has six more characters: `-` and five random ones."""
RAY_SERVICE_NAME = 47
RAY_CRON_JOB_NAME = 36
"""The job of a tick has eleven more characters: `-` and the minute."""


def name_problems(kind: str, metadata: ObjectMeta, limit: int) -> Iterator[Problem]:
    """A name must be short enough for what is appended to it, and start like the name of a Service."""
    name = metadata.name or ""
    if not name:
        if not metadata.generate_name:
            yield Problem("metadata.name", f"a {kind} needs a name")
    elif len(name) > limit:
        yield Problem("metadata.name", f"{kind} name has {len(name)} characters, at most {limit} are allowed")
    elif wrong := names.dns_1035_label(name):
        yield Problem("metadata.name", wrong)
