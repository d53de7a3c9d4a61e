from __future__ import annotations

from typing import Any

import pytest

from kuberay.cli.local.progress import doing, is_ready, table


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


def cluster(generation: int = 1, **status: Any) -> dict[str, Any]:
    return {"metadata": {"name": "a", "namespace": "default", "generation": generation}, "status": status}


class TestACluster:
    def test_is_ready_when_its_status_says_so_for_the_newest_generation(self) -> None:
        ready = {"state": "ready", "observedGeneration": 2, "readyWorkerReplicas": 2, "desiredWorkerReplicas": 2}
        assert is_ready(cluster(generation=2, **ready))
        assert not is_ready(cluster(generation=3, **ready))
        assert not is_ready(cluster(generation=2, **{**ready, "readyWorkerReplicas": 1}))
        assert not is_ready(cluster())

    def test_is_listed_with_its_own_pods_below_it(self) -> None:
        others = pod("b-head", cluster="b")
        rows = table([cluster(desiredWorkerReplicas=2)], [pod("a-worker"), others, pod("a-head")])
        assert [name for name, _ in rows] == ["a: starting, 0 of 2 workers ready", "a-head", "a-worker"]

    def test_tells_what_blocks_it(self) -> None:
        refused = {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreateWorkerPod", "message": "quota"}
        [(line, _)] = table([cluster(conditions=[refused])], [])
        assert line.endswith("(quota)")
