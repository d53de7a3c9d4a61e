"""Which container runs when, and what the status says about it."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from kuberay.engine.node import pod as pods
from kuberay.engine.node import status
from kuberay.engine.node.pod import Container, Plan, Running, Start, Terminated, Waiting

NOW = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)
RUNNING = Container(Running(NOW), ready=True, started=True)


def pod(*containers: str, init: tuple[str, ...] = (), policy: str = "Always", **more: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "p", "namespace": "default", "uid": "u-1"},
        "spec": {
            "restartPolicy": policy,
            "containers": [{"name": name} for name in containers or ("main",)],
            "initContainers": [{"name": name} for name in init],
            **more,
        },
    }


def ended(code: int = 1, *, at: datetime = NOW, in_a_row: int = 1) -> Container:
    return Container(Terminated(code, "Error" if code else "Completed", at, at), ended_in_a_row=in_a_row)


def plan(wanted: dict[str, Any], now: datetime = NOW, **histories: Container) -> Plan:
    return pods.decide(wanted, {name: histories.get(name, Container()) for name in pods.specs(wanted)}, now)


def starts(wanted: dict[str, Any], now: datetime = NOW, **histories: Container) -> list[str]:
    return [start.container for start in plan(wanted, now, **histories).starts]


def shown(wanted: dict[str, Any], **histories: Container) -> dict[str, Any]:
    everybody = {name: histories.get(name, Container()) for name in pods.specs(wanted)}
    return status.of_pod(wanted, everybody, pod_ip="10.244.0.5", host_ip="10.244.0.1", started_at=NOW, now=NOW)


def condition(found: dict[str, Any], kind: str) -> dict[str, Any]:
    return next(each for each in found["conditions"] if each["type"] == kind)


class TestStarting:
    def test_all_containers_start_together(self) -> None:
        assert starts(pod("a", "b")) == ["a", "b"]

    def test_init_containers_go_first_and_one_after_the_other(self) -> None:
        wanted = pod("main", init=("first", "second"))
        assert starts(wanted) == ["first"]
        assert starts(wanted, first=RUNNING) == []
        assert starts(wanted, first=ended(0)) == ["second"]
        assert starts(wanted, first=ended(0), second=ended(0)) == ["main"]

    def test_a_running_container_is_left_alone(self) -> None:
        assert plan(pod(), main=RUNNING) == Plan()

    def test_a_sidecar_does_not_hold_up_the_others_once_it_has_started(self) -> None:
        wanted = pod("main", init=("sidecar",))
        wanted["spec"]["initContainers"][0]["restartPolicy"] = "Always"
        assert starts(wanted) == ["sidecar"]
        assert starts(wanted, sidecar=Container(Running(NOW))) == []
        assert starts(wanted, sidecar=RUNNING) == ["main"]

    def test_a_sidecar_that_ends_is_started_again_beside_the_others(self) -> None:
        wanted = pod("main", init=("sidecar",), policy="Never")
        wanted["spec"]["initContainers"][0]["restartPolicy"] = "Always"
        assert starts(wanted, sidecar=replace(ended(0), attempt=1), main=RUNNING) == ["sidecar"]


class TestRestarting:
    @pytest.mark.parametrize(
        ("policy", "code", "expected"),
        [
            ("Always", 0, ["main"]),
            ("Always", 1, ["main"]),
            ("OnFailure", 0, []),
            ("OnFailure", 1, ["main"]),
            ("Never", 0, []),
            ("Never", 1, []),
        ],
    )
    def test_follows_the_policy(self, policy: str, code: int, expected: list[str]) -> None:
        assert starts(pod(policy=policy), main=ended(code)) == expected

    def test_a_failed_init_container_is_tried_again_unless_never(self) -> None:
        assert starts(pod(init=("first",)), first=ended(1)) == ["first"]
        assert starts(pod(init=("first",), policy="Never"), first=ended(1)) == []

    def test_rests_longer_each_time(self) -> None:
        seconds = [ended(in_a_row=count).back_off.total_seconds() for count in range(1, 12)]
        assert seconds == [0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 300]

    def test_looks_again_when_the_rest_is_over(self) -> None:
        resting = ended(in_a_row=4)
        assert plan(pod(), main=resting) == Plan(look_again_at=NOW + timedelta(seconds=4))
        assert starts(pod(), now=NOW + timedelta(seconds=4), main=resting) == ["main"]

    def test_is_forgiven_after_ten_good_minutes(self) -> None:
        running = Container(Running(NOW), ended_in_a_row=9)
        later = NOW + timedelta(minutes=10)
        assert running.ended(Terminated(1, "Error", later, NOW)).back_off == timedelta(0)
        assert running.ended(Terminated(1, "Error", NOW, NOW)).back_off == timedelta(minutes=4, seconds=16)

    def test_counts_attempts_and_remembers_the_last(self) -> None:
        first = Container().running(NOW).ended(Terminated(1, "Error", NOW, NOW))
        assert first.attempt == 0
        second = first.running(NOW)
        assert second.attempt == 1
        assert second.last == first.state

    def test_an_attempt_that_fails_before_it_runs_counts_too(self) -> None:
        failed = Terminated(128, "StartError", NOW)
        once = Container().ended(failed)
        twice = once.ended(failed)
        assert (once.attempt, twice.attempt) == (0, 1)
        assert twice.back_off == timedelta(seconds=1)


class TestPhase:
    @pytest.mark.parametrize(
        ("policy", "containers", "expected"),
        [
            ("Always", {"a": Container(), "b": Container()}, "Pending"),
            ("Always", {"a": RUNNING, "b": Container()}, "Pending"),
            ("Always", {"a": RUNNING, "b": RUNNING}, "Running"),
            ("Always", {"a": ended(0), "b": ended(1)}, "Running"),
            ("OnFailure", {"a": ended(0), "b": ended(1)}, "Running"),
            ("OnFailure", {"a": ended(0), "b": ended(0)}, "Succeeded"),
            ("Never", {"a": ended(0), "b": RUNNING}, "Running"),
            ("Never", {"a": ended(0), "b": ended(0)}, "Succeeded"),
            ("Never", {"a": ended(0), "b": ended(1)}, "Failed"),
        ],
    )
    def test_is_what_a_kubelet_says(self, policy: str, containers: dict[str, Container], expected: str) -> None:
        assert shown(pod("a", "b", policy=policy), **containers)["phase"] == expected

    def test_is_pending_while_init_containers_run(self) -> None:
        assert shown(pod(init=("first",)), first=RUNNING)["phase"] == "Pending"

    def test_has_failed_when_an_init_container_has_for_good(self) -> None:
        assert shown(pod(init=("first",), policy="Never"), first=ended(1))["phase"] == "Failed"


class TestStatus:
    def test_a_container_that_rests_is_in_a_crash_loop(self) -> None:
        (found,) = shown(pod(), main=ended(3, in_a_row=5))["containerStatuses"]
        assert found["state"]["waiting"] == {
            "reason": "CrashLoopBackOff",
            "message": "back-off 8s restarting failed container=main pod=p_default(u-1)",
        }
        assert found["lastState"]["terminated"]["exitCode"] == 3

    def test_containers_stand_in_the_order_of_the_spec(self) -> None:
        found = shown(pod("ray-head", "autoscaler"))["containerStatuses"]
        assert [each["name"] for each in found] == ["ray-head", "autoscaler"]

    def test_says_why_a_container_waits(self) -> None:
        waits = shown(pod(init=("first",)), first=Container().blocked("ErrImageNeverPull", "no Ray"))
        assert waits["initContainerStatuses"][0]["state"]["waiting"] == {
            "reason": "ErrImageNeverPull",
            "message": "no Ray",
        }
        assert waits["containerStatuses"][0]["state"]["waiting"] == {"reason": "PodInitializing"}

    def test_a_running_container_shows_how_it_ended_before(self) -> None:
        (found,) = shown(pod(), main=ended(1).running(NOW))["containerStatuses"]
        assert found["restartCount"] == 1
        assert found["state"] == {"running": {"startedAt": "2026-01-01T12:00:00Z"}}
        assert found["lastState"]["terminated"]["exitCode"] == 1

    def test_addresses_are_there_in_both_forms(self) -> None:
        found = shown(pod())
        assert (found["podIP"], found["podIPs"], found["hostIP"]) == (
            "10.244.0.5",
            [{"ip": "10.244.0.5"}],
            "10.244.0.1",
        )


class TestConditions:
    def test_a_pod_is_ready_when_all_its_containers_are(self) -> None:
        found = shown(pod("a", "b"), a=RUNNING, b=replace(RUNNING, ready=False))
        assert condition(found, "Ready")["status"] == "False"
        assert condition(found, "ContainersReady")["message"] == "containers with unready status: [b]"
        assert condition(shown(pod("a"), a=RUNNING), "Ready")["status"] == "True"

    def test_initialization_names_who_is_missing(self) -> None:
        found = shown(pod(init=("first", "second")), first=ended(0))
        assert condition(found, "Initialized")["message"] == "containers with incomplete status: [second]"

    def test_a_completed_pod_is_not_ready(self) -> None:
        found = shown(pod(policy="Never"), main=ended(0))
        assert condition(found, "Ready")["reason"] == "PodCompleted"

    def test_times_change_only_with_the_status(self) -> None:
        before = pod()
        early = "2025-01-01T00:00:00Z"
        before["status"] = {"conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": early}]}
        assert condition(shown(before, main=RUNNING), "Ready")["lastTransitionTime"] == early
        assert condition(shown(before), "Ready")["lastTransitionTime"] == "2026-01-01T12:00:00Z"

    def test_conditions_of_others_stay_and_gates_wait_for_them(self) -> None:
        gated = pod(readinessGates=[{"conditionType": "example.com/gate"}])
        assert condition(shown(gated, main=RUNNING), "Ready")["reason"] == "ReadinessGatesNotReady"
        gate = {"type": "example.com/gate", "status": "True"}
        gated["status"] = {"conditions": [gate]}
        found = shown(gated, main=RUNNING)
        assert condition(found, "Ready")["status"] == "True"
        assert gate in found["conditions"]


class TestAfterTheEngineStopped:
    def again(self, wanted: dict[str, Any], **histories: Container) -> dict[str, Container]:
        return status.restored({**wanted, "status": shown(wanted, **histories)}, NOW)

    def test_what_ran_was_ended_by_it_and_is_started_again(self) -> None:
        found = self.again(pod(), main=replace(RUNNING, attempt=2))
        assert isinstance(found["main"].state, Terminated)
        assert found["main"].state.reason == status.ENGINE_STOPPED
        assert pods.decide(pod(), found, NOW).starts == (Start("main"),)
        assert found["main"].running(NOW).attempt == 3

    def test_init_containers_run_again(self) -> None:
        wanted = pod(init=("first",))
        found = self.again(wanted, first=ended(0), main=RUNNING)
        assert pods.decide(wanted, found, NOW).starts == (Start("first"),)

    def test_a_pod_that_had_finished_stays_finished(self) -> None:
        wanted = pod(init=("first",), policy="Never")
        found = self.again(wanted, first=ended(0), main=ended(0))
        assert pods.decide(wanted, found, NOW) == Plan()
        assert shown(wanted, **found)["phase"] == "Succeeded"

    def test_a_pod_that_never_restarts_has_failed(self) -> None:
        wanted = pod(policy="Never")
        assert shown(wanted, **self.again(wanted, main=RUNNING))["phase"] == "Failed"

    def test_a_pod_that_had_not_begun_begins(self) -> None:
        assert self.again(pod()) == {"main": Container(Waiting())}
