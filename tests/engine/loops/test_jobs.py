"""Running Jobs to their end."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from kuberay.engine.loops import GarbageCollector, Jobs
from kuberay.engine.loops.jobs import Job, Pod, judge
from tests.engine.apiserver.api import PODS

if TYPE_CHECKING:
    from tests.engine.loops.world import World

JOBS = "/apis/batch/v1/namespaces/default/jobs"
NOW = datetime(2026, 5, 1, 12, 0, 0, tzinfo=UTC)


def job(**spec: Any) -> dict[str, Any]:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "busybox:1"}]}}
    return {"metadata": {"name": "j"}, "spec": {"template": template, **spec}}


async def pods(world: World) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await world.api.get(PODS)).body["items"]
    return found


async def has_pods(world: World, count: int) -> list[dict[str, Any]]:
    async def holds() -> bool:
        return len(await pods(world)) == count

    await world.until(holds)
    return await pods(world)


async def ends(world: World, name: str, phase: str) -> None:
    """Let a Pod end, long ago: nobody has to wait for the next."""
    state = {"terminated": {"exitCode": 0, "finishedAt": "2026-05-01T00:00:00Z"}}
    container = {"name": "main", "image": "", "imageID": "", "ready": False, "restartCount": 0, "state": state}
    status = {"phase": phase, "containerStatuses": [container]}
    await world.api.merge(f"{PODS}/{name}/status", {"status": status})


async def end(world: World) -> dict[str, Any]:
    """Wait until the Job has ended, and return how."""

    async def ended() -> Any:
        conditions = (await world.api.get(f"{JOBS}/j")).body["status"].get("conditions", [])
        return next((one for one in conditions if one["type"] in ("Complete", "Failed")), None)

    found: dict[str, Any] = await world.until(ended)
    return found


async def status(world: World) -> dict[str, Any]:
    found: dict[str, Any] = (await world.api.get(f"{JOBS}/j")).body["status"]
    return found


class TestAJob:
    async def test_runs_one_pod_that_it_owns(self, world: World) -> None:
        async with world.running(Jobs(world.client, clock=world.api.clock)):
            made = (await world.api.create(JOBS, job())).body
            (pod,) = await has_pods(world, 1)
            await world.quiet()
        assert pod["metadata"]["name"].startswith("j-")
        assert pod["metadata"]["labels"]["job-name"] == "j"
        (owner,) = pod["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["uid"], owner["controller"]) == ("Job", made["metadata"]["uid"], True)
        assert await status(world) == {"startTime": "2026-05-01T12:00:00Z", "active": 1}

    async def test_is_complete_when_its_pod_has_succeeded_and_then_rests(self, world: World) -> None:
        async with world.running(Jobs(world.client, clock=world.api.clock)):
            await world.api.create(JOBS, job())
            (pod,) = await has_pods(world, 1)
            await ends(world, pod["metadata"]["name"], "Succeeded")
            assert (await end(world))["type"] == "Complete"
            before = await world.quiet()
            assert await world.quiet() == before
        assert (await status(world))["completionTime"] == "2026-05-01T12:00:00Z"
        assert (await status(world))["succeeded"] == 1
        assert len(await pods(world)) == 1

    async def test_tries_again_and_fails_in_the_end(self, world: World) -> None:
        async with world.running(Jobs(world.client, clock=world.api.clock)):
            await world.api.create(JOBS, job(backoffLimit=1))
            (first,) = await has_pods(world, 1)
            await ends(world, first["metadata"]["name"], "Failed")
            (second,) = [
                one for one in await has_pods(world, 2) if one["metadata"]["name"] != first["metadata"]["name"]
            ]
            await ends(world, second["metadata"]["name"], "Failed")
            found = await end(world)
            await world.quiet()
        assert (found["type"], found["reason"]) == ("Failed", "BackoffLimitExceeded")
        assert (await status(world))["failed"] == 2
        assert len(await pods(world)) == 2

    async def test_that_takes_too_long_fails_and_its_pod_goes(self, world: World) -> None:
        async with world.running(Jobs(world.client, clock=world.api.clock)):
            await world.api.create(JOBS, job(activeDeadlineSeconds=60))
            (pod,) = await has_pods(world, 1)
            world.api.clock.advance(61)
            await world.api.merge(f"{PODS}/{pod['metadata']['name']}/status", {"status": {"phase": "Running"}})
            assert (await end(world))["reason"] == "DeadlineExceeded"
            await has_pods(world, 0)

    async def test_that_is_suspended_has_no_pods_until_it_goes_on(self, world: World) -> None:
        async with world.running(Jobs(world.client, clock=world.api.clock)):
            await world.api.create(JOBS, job())
            await has_pods(world, 1)
            await world.api.merge(f"{JOBS}/j", {"spec": {"suspend": True}})
            await has_pods(world, 0)
            await world.api.merge(f"{JOBS}/j", {"spec": {"suspend": False}})
            await has_pods(world, 1)

    async def test_goes_by_itself_if_it_asks_for_that(self, world: World) -> None:
        async with world.running(Jobs(world.client, clock=world.api.clock), GarbageCollector(world.client)):
            await world.api.create(JOBS, job(ttlSecondsAfterFinished=0))
            (pod,) = await has_pods(world, 1)
            await ends(world, pod["metadata"]["name"], "Succeeded")
            await world.gone(f"{JOBS}/j")
            await has_pods(world, 0)


class TestALoopThatStartsAgain:
    async def test_makes_no_second_pod(self, world: World) -> None:
        async with world.running(Jobs(world.client, clock=world.api.clock)):
            await world.api.create(JOBS, job())
            await has_pods(world, 1)
        async with world.running(Jobs(world.client, clock=world.api.clock)):
            before = await world.quiet()
            assert await world.quiet() == before
        assert len(await pods(world)) == 1


def known(status: dict[str, Any] | None = None, **spec: Any) -> Job:
    return msgspec.convert(
        {"metadata": {"name": "j", "uid": "u"}, "spec": spec, "status": status or {}}, type=Job, strict=False
    )


def pod(phase: str = "Running", *, ended: datetime = NOW, restarts: int = 0, **meta: Any) -> Pod:
    state = {"terminated": {"finishedAt": ended.isoformat()}} if phase in ("Failed", "Succeeded") else {}
    statuses = [{"restartCount": restarts, "state": state}]
    metadata = {"name": "p", "uid": "p", **meta}
    return msgspec.convert({"metadata": metadata, "status": {"phase": phase, "containerStatuses": statuses}}, type=Pod)


class TestJudging:
    @pytest.mark.parametrize(("failures", "delay"), [(1, 10), (2, 20), (3, 40), (7, 360)])
    def test_each_failure_is_waited_for_longer(self, failures: int, delay: float) -> None:
        failed = [pod("Failed")] * failures
        early = judge(known(backoffLimit=9), failed, NOW)
        assert (early.creates, early.look_again) == (0, delay)
        assert judge(known(backoffLimit=9), failed, NOW + timedelta(seconds=delay)).creates == 1

    def test_containers_that_are_restarted_in_place_count(self) -> None:
        (condition,) = judge(known(backoffLimit=2), [pod(restarts=3)], NOW).status.conditions
        assert condition.reason == "BackoffLimitExceeded"
        assert judge(known(backoffLimit=2), [pod(restarts=2)], NOW).status.conditions == []

    def test_a_pod_that_somebody_removed_is_replaced(self) -> None:
        assert judge(known({"startTime": "2026-05-01T12:00:00Z", "active": 1}), [], NOW).creates == 1

    def test_a_pod_that_is_leaving_is_replaced(self) -> None:
        assert judge(known(), [pod(deletionTimestamp="2026-05-01T12:00:00Z")], NOW).creates == 1

    def test_successes_that_somebody_removed_are_remembered(self) -> None:
        step = judge(known({"succeeded": 1}), [], NOW)
        assert (step.creates, step.status.conditions[0].type) == (0, "Complete")

    def test_several_completions_run_as_many_at_a_time_as_told(self) -> None:
        three = known(completions=3, parallelism=2)
        assert judge(three, [], NOW).creates == 2
        assert judge(three, [pod("Succeeded"), pod("Succeeded"), pod()], NOW).creates == 0
        assert judge(three, [pod("Succeeded"), pod("Succeeded")], NOW).creates == 1

    def test_what_is_too_much_goes(self) -> None:
        assert len(judge(known(parallelism=1, completions=9), [pod(), pod()], NOW).deletes) == 1

    def test_a_deadline_is_looked_at_in_time(self) -> None:
        running = known({"startTime": "2026-05-01T12:00:00Z"}, activeDeadlineSeconds=60)
        assert judge(running, [pod()], NOW + timedelta(seconds=20)).look_again == 40

    def test_an_indexed_job_fails_and_says_why(self) -> None:
        step = judge(known(completionMode="Indexed"), [], NOW)
        assert step.creates == 0
        assert "spec.completionMode" in step.status.conditions[0].message
