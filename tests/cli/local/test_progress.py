from __future__ import annotations

from typing import Any

import pytest

from kuberay.cli.local.progress import crash_loops, doing, is_ready, is_settled, newest_warnings, table


def pod(name: str = "a-head", *, cluster: str = "a", node: str = "local", **status: Any) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "default", "labels": {"ray.io/cluster": cluster}}
    return {"metadata": metadata, "spec": {"nodeName": node}, "status": status}


def container(name: str = "ray-head", *, ready: bool = False, **state: Any) -> dict[str, Any]:
    return {"name": name, "ready": ready, "state": state}


@pytest.mark.parametrize(
    ("seen", "words"),
    [
        (pod(node=""), "waiting for a node"),
        (pod(), "starting"),
        (pod(initContainerStatuses=[container("wait-gcs-ready", running={})]), "waiting in wait-gcs-ready"),
        (pod(containerStatuses=[container(waiting={"reason": "PodInitializing"})]), "starting"),
        (pod(containerStatuses=[container(running={})]), "running, not ready yet"),
        (pod(containerStatuses=[container(running={}, ready=True)]), "ready"),
        (
            pod(containerStatuses=[container(waiting={"reason": "ErrImageNeverPull", "message": "no Ray here"})]),
            "ray-head: ErrImageNeverPull (no Ray here)",
        ),
        (
            pod(containerStatuses=[container(terminated={"exitCode": 3, "message": "first\nlast words\n"})]),
            "ray-head ended with code 3 (last words)",
        ),
    ],
)
def test_a_pod_is_described_by_what_it_is_doing(seen: dict[str, Any], words: str) -> None:
    assert doing(seen) == words


def test_a_pod_on_its_way_out_is_stopping_whatever_its_containers_do() -> None:
    leaving = pod(containerStatuses=[container(running={}, ready=True)])
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert doing(leaving) == "stopping"


READY = container(running={}, ready=True)


def cluster(generation: int = 1, *, suspend: bool = False, **status: Any) -> dict[str, Any]:
    metadata = {"name": "a", "namespace": "default", "generation": generation}
    return {"metadata": metadata, "spec": {"suspend": suspend}, "status": status}


class TestACluster:
    def test_is_ready_when_status_and_pods_say_so_for_the_newest_generation(self) -> None:
        status: dict[str, Any] = {"state": "ready", "observedGeneration": 2, "desiredWorkerReplicas": 1}
        pods = [pod("a-head", containerStatuses=[READY]), pod("a-worker", containerStatuses=[READY])]
        assert is_ready(cluster(generation=2, **status), pods)
        assert not is_ready(cluster(generation=3, **status), pods)
        assert not is_ready(cluster(), pods)

    def test_is_not_ready_while_pods_that_were_ready_once_start_again(self) -> None:
        status: dict[str, Any] = {"state": "ready", "observedGeneration": 1, "desiredWorkerReplicas": 1}
        pods = [pod("a-head", containerStatuses=[READY]), pod("a-worker", containerStatuses=[container(running={})])]
        assert not is_ready(cluster(**status), pods)

    def test_is_ready_when_suspended_as_asked_and_empty(self) -> None:
        status: dict[str, Any] = {"state": "suspended", "observedGeneration": 1, "desiredWorkerReplicas": 2}
        assert is_ready(cluster(suspend=True, **status), [])
        assert not is_ready(cluster(suspend=True, **status), [pod(containerStatuses=[READY])])

    def test_is_listed_with_its_own_pods_below_it_and_other_pods_at_the_end(self) -> None:
        others = pod("b-head", cluster="b")
        rows = table([cluster(desiredWorkerReplicas=2)], [pod("a-worker"), others, pod("a-head")])
        assert [name for name, _ in rows] == ["a: starting, 0 of 2 workers ready", "a-head", "a-worker", "b-head"]

    def test_tells_what_blocks_it(self) -> None:
        refused = {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreateWorkerPod", "message": "quota"}
        [(line, _)] = table([cluster(desiredWorkerReplicas=1, conditions=[refused])], [])
        assert line.endswith("(quota)")

    def test_without_workers_is_told_by_its_state(self) -> None:
        assert table([cluster(state="ready")], []) == [("a: ready, 0 of 0 workers ready", "")]
        assert table([cluster()], []) == [("a: accepted", "")]


class TestAPodThatDoesNotStart:
    def test_is_shown_with_the_newest_warning_about_it(self) -> None:
        waiting = pod("web", cluster="none")
        waiting["metadata"]["uid"] = "1"
        events = [
            {
                "type": "Warning",
                "note": "no such volume",
                "eventTime": "2026-01-01T00:00:02Z",
                "regarding": {"uid": "1"},
            },
            {"type": "Warning", "note": "older", "eventTime": "2026-01-01T00:00:01Z", "regarding": {"uid": "1"}},
            {"type": "Normal", "note": "fine", "eventTime": "2026-01-01T00:00:03Z", "regarding": {"uid": "1"}},
        ]
        assert table([], [waiting], newest_warnings(events)) == [("web", "starting: no such volume")]

    def test_holds_up_no_longer_than_until_it_has_ended(self) -> None:
        assert not is_settled(pod())
        assert is_settled(pod(containerStatuses=[READY]))
        assert is_settled(pod(phase="Succeeded"))
        assert is_settled(pod(phase="Failed"))


class TestCrashLoops:
    def test_are_containers_that_ended_again_and_again(self) -> None:
        looping = container(waiting={"reason": "CrashLoopBackOff"})
        assert not list(crash_loops([pod(containerStatuses=[{**looping, "restartCount": 2}])]))
        found = list(crash_loops([pod("a-worker"), pod(containerStatuses=[{**looping, "restartCount": 3}])]))
        assert [(each["metadata"]["name"], name) for each, name in found] == [("a-head", "ray-head")]

    def test_are_not_containers_that_take_their_time(self) -> None:
        assert not list(crash_loops([pod(containerStatuses=[container(running={})])]))
