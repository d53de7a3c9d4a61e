"""What the real kubectl shows: get, describe, explain, events, logs, wait."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.kubectl.cluster import Cluster


def columns(text: str) -> list[list[str]]:
    """Lines of a table as words; ages become AGE, because they change while the test runs."""
    return [[re.sub(r"^\d+[smh]$", "0s", word) for word in line.split()] for line in text.splitlines()]


class TestTheServer:
    def test_tells_its_version(self, served: Cluster) -> None:
        assert "Server Version: v1.36.3" in served.kubectl("version")

    def test_is_ready(self, served: Cluster) -> None:
        assert served.kubectl("get", "--raw", "/readyz") == "ok"

    def test_lists_its_kinds(self, demo: Cluster) -> None:
        rows = columns(demo.kubectl("api-resources"))
        assert ["pods", "po", "v1", "true", "Pod"] in rows
        assert ["rayclusters", "ray.io/v1", "true", "RayCluster"] in rows
        assert ["events", "ev", "events.k8s.io/v1", "true", "Event"] in rows

    def test_does_not_know_every_kind(self, served: Cluster) -> None:
        assert served.kubectl("get", "deployments") == 'error: the server doesn\'t have a resource type "deployments"'


TABLE = [
    ("get pods", "NAME READY STATUS RESTARTS AGE / web 1/1 Running 0 0s"),
    (
        "get po -o wide",
        "NAME READY STATUS RESTARTS AGE IP NODE NOMINATED NODE READINESS GATES"
        " / web 1/1 Running 0 0s 10.244.0.7 laptop <none> <none>",
    ),
    ("get pods -A", "NAMESPACE NAME READY STATUS RESTARTS AGE / default web 1/1 Running 0 0s"),
    ("get svc", "NAME TYPE CLUSTER-IP EXTERNAL-IP PORT(S) AGE / web ClusterIP 10.96.0.20 <none> 80/TCP 0s"),
    (
        "get raycluster",
        "NAME DESIRED WORKERS AVAILABLE WORKERS CPUS MEMORY GPUS STATUS AGE / demo 2 1 3 5G 0 ready 0s",
    ),
    (
        "get raycluster -o wide",
        "NAME DESIRED WORKERS AVAILABLE WORKERS CPUS MEMORY GPUS TPUS STATUS AGE HEAD POD IP HEAD SERVICE IP"
        " / demo 2 1 3 5G 0 ready 0s 10.244.0.5",
    ),
    ("get raycluster -l team=blue -o name", "raycluster.ray.io/demo"),
    ("get raycluster -l team!=blue", "No resources found in default namespace."),
    ("get pods --field-selector status.phase=Running -o name", "pod/web"),
    ("get raycluster demo -o jsonpath={.spec.workerGroupSpecs[*].replicas}", "2"),
    ("get pod,svc,raycluster -o name", "pod/web / service/web / raycluster.ray.io/demo"),
    ("get all -o name", "pod/web / service/web / raycluster.ray.io/demo"),
    ("get ns", "NAME STATUS AGE / default Active 0s / kube-system Active 0s"),
    ("get pods -n kube-system", "No resources found in kube-system namespace."),
    ("get pod nope", 'Error from server (NotFound): pods "nope" not found'),
    ("logs web", "main: first / main: second / main: third"),
    ("logs web -c main --tail=1", "main: third"),
    ("logs web -c other", "error: container other is not valid for pod web out of: main"),
    ("wait --for=condition=Ready pod/web --timeout=5s", "pod/web condition met"),
    ("wait --for=jsonpath={.status.state}=ready raycluster/demo --timeout=5s", "raycluster.ray.io/demo condition met"),
    (
        "exec web -- ls",
        "error: unable to upgrade connection: pods/exec is not served by the local engine: to run a command beside Ray"
        " use `ray job submit`; `kubectl logs` shows what a container prints",
    ),
]


class TestCommands:
    @pytest.mark.parametrize(("command", "expected"), TABLE, ids=[command for command, _ in TABLE])
    def test_print_what_they_print_against_kubernetes(self, demo: Cluster, command: str, expected: str) -> None:
        shown = columns(demo.kubectl(*command.split()))
        assert " / ".join(" ".join(line) for line in shown) == expected

    def test_yaml_is_the_whole_object(self, demo: Cluster) -> None:
        text = demo.kubectl("get", "raycluster", "demo", "-o", "yaml")
        assert text.startswith("apiVersion: ray.io/v1\nkind: RayCluster\nmetadata:\n  creationTimestamp:")
        assert "groupName: small" in text
        assert "state: ready" in text

    def test_describe_shows_an_object_with_its_events(self, demo: Cluster) -> None:
        uid = demo.kubectl("get", "raycluster", "demo", "-o", "jsonpath={.metadata.uid}")
        demo.send(
            "POST",
            "/apis/events.k8s.io/v1/namespaces/default/events",
            {
                "metadata": {"name": "demo.1"},
                "regarding": {
                    "apiVersion": "ray.io/v1",
                    "kind": "RayCluster",
                    "name": "demo",
                    "namespace": "default",
                    "uid": uid,
                },
                "reason": "CreatedHeadPod",
                "note": "Created head Pod default/demo-head",
                "type": "Normal",
                "reportingController": "raycluster-controller",
                "eventTime": "2026-05-01T12:00:00.000000Z",
            },
        )
        text = demo.kubectl("describe", "raycluster", "demo")
        assert re.search(r"^Name: +demo$", text, re.MULTILINE)
        assert re.search(r"Group Name: +small$", text, re.MULTILINE)
        assert re.search(r"Normal +CreatedHeadPod .* raycluster-controller +Created head Pod default/demo-head", text)
        assert "RayCluster/demo" in demo.kubectl("events", "--for", "raycluster/demo")

    def test_describe_knows_pods_and_services(self, demo: Cluster) -> None:
        assert re.search(r"^Status: +Running$", demo.kubectl("describe", "pod", "web"), re.MULTILINE)
        assert re.search(r"^TargetPort: +http/TCP$", demo.kubectl("describe", "svc", "web"), re.MULTILINE)

    def test_explain_knows_custom_and_built_in_fields(self, demo: Cluster) -> None:
        assert re.search(r"^  workerGroupSpecs\t<\[\]Object>", demo.kubectl("explain", "raycluster.spec"), re.MULTILINE)
        assert "name\t<string> -required-" in demo.kubectl("explain", "pod.spec.containers")


class TestWatching:
    def test_get_w_shows_every_change(self, demo: Cluster) -> None:
        watching = demo.start("get", "raycluster", "-w", "--no-headers")
        assert watching.stdout is not None
        try:
            assert watching.stdout.readline().split()[:3] == ["demo", "2", "1"]
            demo.status("/apis/ray.io/v1/namespaces/default/rayclusters/demo", {"availableWorkerReplicas": 2})
            assert watching.stdout.readline().split()[:3] == ["demo", "2", "2"]
        finally:
            watching.terminate()
            watching.wait(10)
            watching.stdout.close()

    def test_wait_for_deletion_ends_when_the_object_is_gone(self, demo: Cluster) -> None:
        waiting = demo.start("wait", "--for=delete", "svc/web", "--timeout=20s")
        demo.until_watched("services")
        demo.kubectl("delete", "svc", "web")
        output, _ = waiting.communicate(timeout=20)
        assert output == "service/web condition met\n"
