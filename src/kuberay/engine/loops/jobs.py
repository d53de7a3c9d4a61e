"""Runs Jobs to their end: Pods until enough of them have succeeded, or too many have failed, or time is up.

`judge` decides and is pure; `Jobs` carries it out. The Pods of a Job that has ended stay until the Job goes: their logs
tell what happened.
"""

# ruff: noqa: RUF012 (a Struct makes a new list or dict for each instance)

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import msgspec

from kuberay.api.core import Metadata, Owner, Slim
from kuberay.engine.loops.running import run_loop
from kuberay.kube.controller import Controller, Result, itself, owner
from kuberay.kube.errors import Conflict, NotFound
from kuberay.kube.informer import Informer
from kuberay.kube.queue import Queue
from kuberay.kube.request import Propagation
from kuberay.kube.resources import JOBS, PODS
from kuberay.kube.store import Store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from kuberay.kube.client import Client
    from kuberay.kube.identity import Key

FIRST_DELAY = 10.0
LONGEST_DELAY = 360.0
"""Seconds between a failure and the next attempt: at first, and at most."""


class Terminated(Slim, frozen=True, kw_only=True):
    finished_at: str | None = None


class ContainerState(Slim, frozen=True, kw_only=True):
    terminated: Terminated | None = None


class ContainerStatus(Slim, frozen=True, kw_only=True):
    restart_count: int = 0
    state: ContainerState = ContainerState()


class PodCondition(Slim, frozen=True, kw_only=True):
    type: str
    status: str


class PodStatus(Slim, frozen=True, kw_only=True):
    phase: str = ""
    conditions: list[PodCondition] = []
    container_statuses: list[ContainerStatus] = []


class Pod(Slim, frozen=True, kw_only=True):
    metadata: Metadata
    status: PodStatus = PodStatus()

    @property
    def is_active(self) -> bool:
        return self.metadata.deletion_timestamp is None and self.status.phase not in ("Succeeded", "Failed")

    @property
    def is_ready(self) -> bool:
        return any(one.type == "Ready" and one.status == "True" for one in self.status.conditions)


class JobSpec(Slim, frozen=True, kw_only=True):
    completion_mode: str = "NonIndexed"
    completions: int = 1
    parallelism: int = 1
    backoff_limit: int = 6
    active_deadline_seconds: int | None = None
    ttl_seconds_after_finished: int | None = None
    suspend: bool = False
    template: dict[str, Any] = {}


class JobCondition(Slim, frozen=True, kw_only=True):
    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_probe_time: str | None = None
    last_transition_time: str | None = None


class JobStatus(Slim, frozen=True, kw_only=True):
    start_time: str | None = None
    completion_time: str | None = None
    active: int = 0
    ready: int = 0
    succeeded: int = 0
    failed: int = 0
    conditions: list[JobCondition] = []


class Job(Slim, frozen=True, kw_only=True):
    metadata: Metadata
    spec: JobSpec = JobSpec()
    status: JobStatus = JobStatus()

    @property
    def end(self) -> JobCondition | None:
        """How it ended, if it has."""
        return next((one for one in self.status.conditions if one.type in ("Complete", "Failed")), None)


@dataclass(frozen=True, slots=True)
class Step:
    """What a Job needs now."""

    status: JobStatus
    creates: int = 0
    deletes: tuple[Pod, ...] = ()
    look_again: float | None = None
    """Seconds after which time alone changes what it needs."""


def judge(job: Job, pods: Sequence[Pod], now: datetime) -> Step:
    """The next step of a Job that has not ended.

    Pods that have ended count even when somebody has removed them: the status remembers.
    """
    spec = job.spec
    active = [pod for pod in pods if pod.is_active]
    if spec.suspend:
        return Step(_status(job, active=[], start_time=None), deletes=tuple(active))
    start = job.status.start_time or _text(now)
    succeeded = max(job.status.succeeded, _count(pods, "Succeeded"))
    failed = max(job.status.failed, _count(pods, "Failed"))
    status = _status(job, active=active, start_time=start, succeeded=succeeded, failed=failed)
    if spec.completion_mode != "NonIndexed":
        return Step(_ended(status, now, "Failed", "NotSupportedYet", _INDEXED))
    if succeeded >= spec.completions:
        return Step(_ended(status, now, "Complete", "CompletionsReached", _ENOUGH), deletes=tuple(active))
    restarts = sum(container.restart_count for pod in active for container in pod.status.container_statuses)
    if failed > spec.backoff_limit or restarts > spec.backoff_limit:
        return Step(_ended(status, now, "Failed", "BackoffLimitExceeded", _TOO_OFTEN), deletes=tuple(active))
    left = None if spec.active_deadline_seconds is None else _age(start, now, spec.active_deadline_seconds)
    if left is not None and left <= 0:
        return Step(_ended(status, now, "Failed", "DeadlineExceeded", _TOO_LONG), deletes=tuple(active))
    missing = min(spec.parallelism, spec.completions - succeeded) - len(active)
    if missing < 0:
        return Step(status, deletes=tuple(active[missing:]), look_again=left)
    wait = _back_off(pods, failed, now) if missing else 0.0
    if wait > 0:
        return Step(status, look_again=wait if left is None else min(left, wait))
    return Step(status, creates=missing, look_again=left)


_INDEXED = "spec.completionMode: Pods of a Job have no indices here, only NonIndexed works"
_ENOUGH = "Reached expected number of succeeded pods"
_TOO_OFTEN = "Job has reached the specified backoff limit"
_TOO_LONG = "Job was active longer than specified deadline"


def pod_of(job: Job) -> dict[str, Any]:
    """A Pod for a Job. The server gives it its name."""
    meta = job.spec.template.get("metadata", {})
    holder = Owner(
        api_version=JOBS.api_version,
        kind=JOBS.kind,
        name=job.metadata.name,
        uid=job.metadata.uid,
        controller=True,
        block_owner_deletion=True,
    )
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            **{key: meta[key] for key in ("labels", "annotations", "finalizers") if key in meta},
            "generateName": f"{job.metadata.name}-",
            "ownerReferences": [msgspec.to_builtins(holder)],
        },
        "spec": job.spec.template.get("spec", {}),
    }


class Jobs:
    """Runs all Jobs."""

    def __init__(self, client: Client, *, clock: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._client = client
        self._clock = clock
        self._jobs: Store[Job] = Store()
        self._pods: Store[Pod] = Store(indexes={"owner": _owner_uid})
        self._controller: Controller[Key] = Controller("jobs", Queue(), self._reconcile, workers=4)
        self._controller.watches(self._jobs, itself)
        self._controller.watches(self._pods, owner("Job", "batch"))

    async def run(self) -> None:
        """Go on until cancelled."""
        pods = Informer(self._client, PODS, self._pods, type=Pod)
        await run_loop(self._controller, Informer(self._client, JOBS, self._jobs, type=Job), pods)

    async def _reconcile(self, key: Key) -> Result | None:
        job = self._jobs.get(*key)
        if job is None or job.metadata.deletion_timestamp is not None:
            return None
        if job.end is not None:
            return await self._retire(job, job.end)
        step = judge(job, self._pods.by("owner", job.metadata.uid), self._clock())
        for pod in step.deletes:
            await self._delete(pod)
        for _ in range(step.creates):
            self._pods.wrote(await self._client.create(PODS, pod_of(job), namespace=key.namespace, type=Pod))
        active = len([pod for pod in self._pods.by("owner", job.metadata.uid) if pod.is_active])
        await self._tell(job, msgspec.structs.replace(step.status, active=active))
        return Result(requeue_after=step.look_again)

    async def _retire(self, job: Job, end: JobCondition) -> Result | None:
        """Remove a Job that has ended, if and when it asks for that."""
        if job.spec.ttl_seconds_after_finished is None or end.last_transition_time is None:
            return None
        left = _age(end.last_transition_time, self._clock(), job.spec.ttl_seconds_after_finished)
        if left > 0:
            return Result(requeue_after=left)
        meta = job.metadata
        with suppress(NotFound, Conflict):  # gone, or another one by now
            await self._client.delete(
                JOBS, meta.name, namespace=meta.namespace, uid=meta.uid, propagation=Propagation.BACKGROUND
            )
        return None

    async def _delete(self, pod: Pod) -> None:
        meta = pod.metadata
        try:
            answer = await self._client.delete(PODS, meta.name, namespace=meta.namespace, uid=meta.uid, type=Pod)
        except (NotFound, Conflict):
            return  # gone already: its event is on the way
        if answer is not None and answer.metadata.deletion_timestamp is not None:
            self._pods.wrote(answer)

    async def _tell(self, job: Job, status: JobStatus) -> None:
        if status == job.status:
            return
        patch = {
            "metadata": {"uid": job.metadata.uid},
            "status": {key: getattr(status, field) or None for field, key in _STATUS_KEYS}
            | {"conditions": msgspec.to_builtins(status.conditions) or None},
        }
        meta = job.metadata
        try:
            written = await self._client.patch(
                JOBS, meta.name, patch, namespace=meta.namespace, subresource="status", type=Job
            )
        except (NotFound, Conflict):
            return
        self._jobs.wrote(written)


_STATUS_KEYS = tuple(
    (field.name, field.encode_name) for field in msgspec.structs.fields(JobStatus) if field.name != "conditions"
)


def _status(
    job: Job, *, active: Sequence[Pod], start_time: str | None, succeeded: int | None = None, failed: int | None = None
) -> JobStatus:
    return msgspec.structs.replace(
        job.status,
        start_time=start_time,
        active=len(active),
        ready=sum(pod.is_ready for pod in active),
        succeeded=job.status.succeeded if succeeded is None else succeeded,
        failed=job.status.failed if failed is None else failed,
    )


def _ended(status: JobStatus, now: datetime, kind: str, reason: str, message: str) -> JobStatus:
    then = _text(now)
    condition = JobCondition(
        type=kind, status="True", reason=reason, message=message, last_probe_time=then, last_transition_time=then
    )
    return msgspec.structs.replace(
        status,
        ready=0,
        completion_time=then if kind == "Complete" else None,
        conditions=[*status.conditions, condition],
    )


def _back_off(pods: Iterable[Pod], failed: int, now: datetime) -> float:
    """Seconds until another Pod may be tried."""
    if not failed:
        return 0.0
    delay = min(FIRST_DELAY * 2 ** min(failed - 1, 16), LONGEST_DELAY)
    return max((_age(_end_of(pod), now, delay) for pod in pods if pod.status.phase == "Failed"), default=0.0)


def _end_of(pod: Pod) -> str:
    """When a Pod ended, or at the least was there."""
    ended = [one.state.terminated for one in pod.status.container_statuses]
    return max(
        (one.finished_at for one in ended if one and one.finished_at), default=pod.metadata.creation_timestamp or ""
    )


def _age(since: str, now: datetime, limit: float) -> float:
    """Seconds until something is as old as a limit."""
    return limit - (now - datetime.fromisoformat(since)).total_seconds()


def _count(pods: Iterable[Pod], phase: str) -> int:
    return sum(pod.status.phase == phase for pod in pods)


def _owner_uid(pod: Pod) -> tuple[str, ...]:
    controller = pod.metadata.controller
    return (controller.uid,) if controller is not None else ()


def _text(now: datetime) -> str:
    return now.strftime("%Y-%m-%dT%H:%M:%SZ")
