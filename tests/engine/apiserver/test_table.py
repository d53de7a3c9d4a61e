"""What `kubectl get` is told to print."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from kuberay.engine.apiserver.ages import duration
from kuberay.engine.apiserver.jsonpath import PathError, compile_path
from kuberay.engine.apiserver.pod_columns import pod_cells, pod_state
from tests.engine.apiserver.api import (
    CONFIG_MAPS,
    DEFINITIONS,
    SERVICES,
    TABLE,
    WIDGETS,
    Api,
    config_map,
    definition,
    widget,
)

NOW = datetime(2026, 5, 1, 12, 0, 0, tzinfo=UTC)


def container(state: dict[str, Any], *, ready: bool = False, restarts: int = 0, **more: Any) -> dict[str, Any]:
    return {"name": "main", "ready": ready, "restartCount": restarts, "state": state, **more}


RUNNING: dict[str, Any] = {"running": {}}


def exited(code: int, reason: str = "") -> dict[str, Any]:
    return {"terminated": {"exitCode": code, **({"reason": reason} if reason else {})}}


def waiting(reason: str) -> dict[str, Any]:
    return {"waiting": {"reason": reason}}


class TestThePodColumns:
    @pytest.mark.parametrize(
        ("status", "shown"),
        [
            ({"phase": "Pending"}, "Pending"),
            ({"phase": "Running", "containerStatuses": [container(RUNNING, ready=True)]}, "Running"),
            ({"phase": "Running", "containerStatuses": [container(waiting("CrashLoopBackOff"))]}, "CrashLoopBackOff"),
            ({"phase": "Pending", "containerStatuses": [container(waiting("ContainerCreating"))]}, "ContainerCreating"),
            ({"phase": "Running", "containerStatuses": [container(exited(137, "OOMKilled"))]}, "OOMKilled"),
            ({"phase": "Failed", "containerStatuses": [container(exited(3))]}, "ExitCode:3"),
            ({"phase": "Succeeded", "containerStatuses": [container(exited(0, "Completed"))]}, "Completed"),
            ({"phase": "Failed", "reason": "Evicted"}, "Evicted"),
            ({"phase": "Pending", "initContainerStatuses": [container(RUNNING)]}, "Init:0/1"),
            ({"phase": "Pending", "initContainerStatuses": [container(waiting("PodInitializing"))]}, "Init:0/1"),
            ({"phase": "Pending", "initContainerStatuses": [container(exited(1, "Error"))]}, "Init:Error"),
            (
                {"phase": "Pending", "initContainerStatuses": [container(waiting("ErrImageNeverPull"))]},
                "Init:ErrImageNeverPull",
            ),
            (
                {
                    "phase": "Pending",
                    "initContainerStatuses": [container(exited(0))],
                    "containerStatuses": [container(waiting("PodInitializing"))],
                },
                "PodInitializing",
            ),
        ],
    )
    def test_say_in_a_word_how_a_pod_is_doing(self, status: dict[str, Any], shown: str) -> None:
        spec = {"containers": [{"name": "main"}], "initContainers": [{"name": "main"}]}
        assert pod_state({"metadata": {"name": "p"}, "spec": spec, "status": status}) == shown

    def test_say_that_a_pod_is_leaving(self) -> None:
        meta = {"name": "p", "deletionTimestamp": "2026-05-01T12:00:00Z"}
        running = {"phase": "Running", "containerStatuses": [container(RUNNING, ready=True)]}
        assert pod_state({"metadata": meta, "spec": {}, "status": running}) == "Terminating"
        ended = {"phase": "Failed", "containerStatuses": [container(exited(1, "Error"))]}
        assert pod_state({"metadata": meta, "spec": {}, "status": ended}) == "Error"

    def test_count_containers_and_restarts(self) -> None:
        last = {"terminated": {"finishedAt": "2026-05-01T11:58:00Z"}}
        statuses = [container(RUNNING, ready=True, restarts=2, lastState=last), container(waiting("CrashLoopBackOff"))]
        pod = {
            "metadata": {"name": "p", "creationTimestamp": "2026-05-01T11:00:00Z"},
            "spec": {"containers": [{"name": "a"}, {"name": "b"}], "nodeName": "n"},
            "status": {"phase": "Running", "podIP": "10.0.0.1", "containerStatuses": statuses},
        }
        assert pod_cells(pod, NOW)[:7] == ["p", "1/2", "CrashLoopBackOff", "2 (2m ago)", "60m", "10.0.0.1", "n"]


class TestAges:
    @pytest.mark.parametrize(
        ("seconds", "shown"),
        [
            (-5, "<invalid>"),
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (190, "3m10s"),
            (600, "10m"),
            (3600 * 3, "3h"),
            (3600 * 3 + 600, "3h10m"),
            (3600 * 9 + 600, "9h"),
            (3600 * 50, "2d2h"),
            (86400 * 9, "9d"),
            (86400 * 800, "2y70d"),
            (86400 * 365 * 9, "9y"),
        ],
    )
    def test_have_at_most_two_units(self, seconds: int, shown: str) -> None:
        assert duration(seconds) == shown


class TestTables:
    async def test_name_their_columns_and_carry_metadata(self, api: Api) -> None:
        await api.create(CONFIG_MAPS, config_map("a", {"x": "1"}))
        table = (await api.get(CONFIG_MAPS, accept=f"{TABLE},application/json")).body
        assert (table["kind"], table["apiVersion"]) == ("Table", "meta.k8s.io/v1")
        assert table["rows"][0]["cells"] == ["a", "1", "0s"]
        assert table["rows"][0]["object"]["kind"] == "PartialObjectMetadata"
        assert table["metadata"]["resourceVersion"] == str(api.storage.version)

    async def test_may_carry_nothing_or_the_whole_object(self, api: Api) -> None:
        await api.create(CONFIG_MAPS, config_map("a", {"x": "1"}))
        bare = (await api.get(f"{CONFIG_MAPS}/a", accept=TABLE, includeObject="None")).body
        whole = (await api.get(f"{CONFIG_MAPS}/a", accept=TABLE, includeObject="Object")).body
        assert "object" not in bare["rows"][0]
        assert whole["rows"][0]["object"]["data"] == {"x": "1"}

    async def test_of_services_show_ports_and_addresses(self, api: Api) -> None:
        spec = {"type": "LoadBalancer", "clusterIP": "10.96.0.9", "ports": [{"port": 80, "nodePort": 30080}]}
        await api.create(SERVICES, {"metadata": {"name": "s"}, "spec": spec})
        rows = (await api.get(SERVICES, accept=TABLE)).body["rows"]
        assert rows[0]["cells"] == ["s", "LoadBalancer", "10.96.0.9", "<pending>", "80:30080/TCP", "0s", "<none>"]

    async def test_of_custom_resources_follow_their_definition(self, api: Api) -> None:
        printed = [
            {"name": "size", "type": "integer", "jsonPath": ".spec.size"},
            {"name": "state", "type": "string", "jsonPath": ".status.state", "priority": 1},
            {"name": "age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
        ]
        await api.create(DEFINITIONS, definition(additionalPrinterColumns=printed))
        await api.create(WIDGETS, widget("w"))
        api.clock.advance(42)
        table = (await api.get(WIDGETS, accept=TABLE)).body
        assert [(c["name"], c["priority"]) for c in table["columnDefinitions"]] == [
            ("Name", 0),
            ("size", 0),
            ("state", 1),
            ("age", 0),
        ]
        assert table["rows"][0]["cells"] == ["w", 1, None, "42s"]


OBJECT: dict[str, Any] = {
    "a": {"b": [{"type": "X", "v": 1}, {"type": "Y", "v": 2}]},
    "m": {"ray.io/x": "y", "plain": True},
}


class TestPaths:
    @pytest.mark.parametrize(
        ("path", "found"),
        [
            (".a.b[0].v", [1]),
            (".a.b[-1].v", [2]),
            (".a.b[*].v", [1, 2]),
            ('.a.b[?(@.type=="Y")].v', [2]),
            (".a.b[?(@.type!='Y')].v", [1]),
            (".m['ray.io/x']", ["y"]),
            (".m.ray\\.io/x", ["y"]),
            ("{.m.plain}", [True]),
            (".nothing.here", []),
            (".a.b[7].v", []),
        ],
    )
    def test_lead_to_values(self, path: str, found: list[Any]) -> None:
        assert compile_path(path)(OBJECT) == found

    @pytest.mark.parametrize("path", ["a.b", ".a[", ".a..b", ".a[1:2]"])
    def test_that_are_not_understood_are_refused(self, path: str) -> None:
        with pytest.raises(PathError):
            compile_path(path)
