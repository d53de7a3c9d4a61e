from __future__ import annotations

import gc

import msgspec
import pytest

from kuberay.api.core import Pod, Service

POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {
        "name": "demo-head",
        "namespace": "default",
        "uid": "u1",
        "resourceVersion": "7",
        "labels": {"ray.io/node-type": "head"},
        "ownerReferences": [
            {"apiVersion": "v1", "kind": "Other", "name": "x", "uid": "u3"},
            {"apiVersion": "ray.io/v1", "kind": "RayCluster", "name": "demo", "uid": "u2", "controller": True},
        ],
        "managedFields": [{"manager": "kubelet"}],
    },
    "spec": {"containers": [{"name": "ray", "image": "x", "env": [{"name": "A"}]}], "restartPolicy": "Always"},
    "status": {
        "phase": "Running",
        "podIP": "10.0.0.1",
        "conditions": [{"type": "Ready", "status": "True"}],
        "containerStatuses": [
            {
                "name": "ray",
                "ready": True,
                "restartCount": 2,
                "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}},
                "lastState": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}},
            }
        ],
    },
}


def pod(**changes: object) -> Pod:
    return msgspec.convert({**POD, **changes}, Pod)


class TestPods:
    def test_what_decisions_read_is_there(self) -> None:
        found = pod()
        assert found.name == "demo-head"
        assert found.metadata.controller is not None
        assert found.metadata.controller.uid == "u2"
        assert found.spec.containers[0].name == "ray"
        assert found.status.pod_ip == "10.0.0.1"
        ended = found.status.container_statuses[0].last_state.terminated
        assert ended is not None
        assert (ended.exit_code, ended.reason) == (137, "OOMKilled")

    def test_a_pod_is_ready_when_its_condition_says_so(self) -> None:
        assert pod().is_ready
        assert not pod(status={"conditions": [{"type": "Ready", "status": "False"}]}).is_ready
        assert not pod(status={}).is_ready

    def test_a_pod_is_leaving_from_the_moment_its_deletion_was_asked_for(self) -> None:
        assert not pod().is_leaving
        assert pod(metadata={"name": "a", "deletionTimestamp": "2026-01-01T00:00:00Z"}).is_leaving

    def test_an_empty_object_has_empty_parts(self) -> None:
        bare = msgspec.json.decode(b"{}", type=Pod)
        assert bare.metadata.controller is None
        assert bare.status.container_statuses == []

    def test_a_cached_pod_is_frozen_and_costs_the_garbage_collector_nothing(self) -> None:
        found = pod()
        with pytest.raises(AttributeError):
            found.status = found.status  # type: ignore[misc]
        assert not gc.is_tracked(found)


class TestServices:
    def test_ports_may_be_named_or_numbered(self) -> None:
        ports = [
            {"name": "a", "port": 80, "targetPort": "web"},
            {"name": "b", "port": 81, "targetPort": 8081, "nodePort": 30000},
        ]
        service = msgspec.convert({"metadata": {"name": "s"}, "spec": {"clusterIP": "None", "ports": ports}}, Service)
        assert service.name == "s"
        assert service.spec.cluster_ip == "None"
        assert [port.target_port for port in service.spec.ports] == ["web", 8081]
        assert service.spec.ports[1].node_port == 30000
