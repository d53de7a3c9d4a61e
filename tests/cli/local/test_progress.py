from __future__ import annotations

from typing import Any

import pytest

from kuberay.cli.local.progress import doing, given_up, is_ready, table


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

    def test_is_listed_with_its_own_pods_below_it(self) -> None:
        others = pod("b-head", cluster="b")
        rows = table([cluster(desiredWorkerReplicas=2)], [pod("a-worker"), others, pod("a-head")])
        assert [name for name, _ in rows] == ["a: starting, 0 of 2 workers ready", "a-head", "a-worker"]

    def test_tells_what_blocks_it(self) -> None:
        refused = {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreateWorkerPod", "message": "quota"}
        [(line, _)] = table([cluster(desiredWorkerReplicas=1, conditions=[refused])], [])
        assert line.endswith("(quota)")


class TestGivingUp:
    def test_a_container_that_ends_again_and_again_is_given_up(self) -> None:
        looping = container(waiting={"reason": "CrashLoopBackOff"})
        assert given_up([pod(containerStatuses=[{**looping, "restartCount": 2}])]) is None
        lost = given_up([pod("a-worker"), pod(containerStatuses=[{**looping, "restartCount": 3}])])
        assert lost is not None
        assert (lost[0]["metadata"]["name"], lost[1]) == ("a-head", "ray-head")

    def test_a_container_without_anything_to_run_is_given_up_at_once(self) -> None:
        assert given_up([pod(initContainerStatuses=[container("init", waiting={"reason": "ErrImageNeverPull"})])])

    def test_a_container_that_takes_its_time_is_waited_for(self) -> None:
        assert given_up([pod(containerStatuses=[container(running={})])]) is None
