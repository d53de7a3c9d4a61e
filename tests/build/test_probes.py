"""Probes by Ray version, node type and creator."""

from __future__ import annotations

from typing import Any

import pytest

from kuberay.build import probes

RAYLET = "wget --tries 1 -T 2 -q -O- http://localhost:52365/api/local_raylet_healthz | grep success"
GCS = "wget --tries 1 -T 10 -q -O- http://localhost:8265/api/gcs_healthz | grep success"
SERVE = "wget --tries 1 -T 10 -q -O- http://localhost:8000/-/healthz | grep success"
HTTP = {"httpGet": {"path": "/api/healthz", "port": 52365}}


def script(*parts: str) -> dict[str, Any]:
    return {"exec": {"command": ["bash", "-c", " && ".join(parts)]}}


def injected(node_type: str, version: str, creator: str = "RayCluster", **container: Any) -> dict[str, Any]:
    ray: dict[str, Any] = {"name": "ray", **container}
    probes.inject(ray, node_type, {}, version, creator)
    return ray


def handler(probe: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in probe.items() if key in ("exec", "httpGet")}


class TestHandlers:
    """pod-template section 20.2."""

    @pytest.mark.parametrize(
        ("node_type", "creator", "version", "liveness", "readiness", "failures"),
        [
            ("head", "RayCluster", "2.52.0", script(RAYLET, GCS), script(RAYLET, GCS), 10),
            ("head", "RayService", "2.52.0", script(RAYLET, GCS), script(RAYLET, GCS), 10),
            ("head", "RayCluster", "2.53.0", HTTP, HTTP, 10),
            ("worker", "RayCluster", "2.52.0", script(RAYLET), script(RAYLET), 10),
            ("worker", "RayJob", "2.53.0", HTTP, HTTP, 10),
            ("worker", "RayService", "2.52.0", script(RAYLET), script(RAYLET, SERVE), 1),
            ("worker", "RayService", "2.53.0", HTTP, script(RAYLET, SERVE), 1),
        ],
    )
    def test_they_follow_version_and_role(
        self,
        node_type: str,
        creator: str,
        version: str,
        liveness: dict[str, Any],
        readiness: dict[str, Any],
        failures: int,
    ) -> None:
        """pod-template 28.4."""
        ray = injected(node_type, version, creator)
        assert handler(ray["livenessProbe"]) == liveness
        assert handler(ray["readinessProbe"]) == readiness
        assert ray["readinessProbe"]["failureThreshold"] == failures

    @pytest.mark.parametrize("version", ["2.53", "v2.53.0", "2.53.0rc1", "2.60.1", "3.0", " 2.53.0"])
    def test_one_request_is_enough_since_ray_2_53(self, version: str) -> None:
        assert probes.has_unified_check(version)

    @pytest.mark.parametrize("version", ["2.52.9", "", "nightly", "3", None])
    def test_older_and_unreadable_versions_ask_the_parts(self, version: str | None) -> None:
        assert not probes.has_unified_check(version)


class TestTimes:
    """pod-template section 20.2."""

    def test_of_a_head(self) -> None:
        ray = injected("head", "2.53.0")
        times = ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold")
        assert [ray["livenessProbe"][name] for name in times] == [30, 5, 5, 1, 120]
        assert [ray["readinessProbe"][name] for name in times] == [10, 5, 5, 1, 10]

    def test_a_worker_answers_sooner(self) -> None:
        ray = injected("worker", "2.53.0")
        assert ray["livenessProbe"]["timeoutSeconds"] == 2
        assert ray["readinessProbe"]["timeoutSeconds"] == 2


class TestUsersOwn:
    def test_a_probe_of_the_user_is_kept_and_the_other_is_added(self) -> None:
        """pod-template 27.7."""
        ray = injected("head", "2.53.0", readinessProbe={"tcpSocket": {"port": 1}})
        assert ray["readinessProbe"] == {"tcpSocket": {"port": 1}}
        assert handler(ray["livenessProbe"]) == HTTP

    def test_custom_ports_are_followed(self) -> None:
        ray: dict[str, Any] = {}
        params = {"dashboard-agent-listen-port": "8266", "dashboard-port": "8365"}
        probes.inject(ray, "head", params, "2.52.0", "RayCluster")
        command = ray["livenessProbe"]["exec"]["command"][2]
        assert ":8266/" in command
        assert ":8365/" in command

    @pytest.mark.parametrize("text", ["many", "99999999999", "9" * 5000, "", "1.5", "0x10"], ids=lambda text: text[:12])
    def test_a_port_that_is_no_number_is_taken_for_the_default(self, text: str) -> None:
        ray: dict[str, Any] = {}
        probes.inject(ray, "worker", {"dashboard-agent-listen-port": text}, "2.53.0", "RayCluster")
        assert handler(ray["livenessProbe"]) == HTTP

    @pytest.mark.parametrize("text", ["+8266", "08266", "0" * 5000 + "8266"], ids=lambda text: text[:12])
    def test_a_port_is_a_number_however_it_is_written(self, text: str) -> None:
        ray: dict[str, Any] = {}
        probes.inject(ray, "worker", {"dashboard-agent-listen-port": text}, "2.53.0", "RayCluster")
        assert handler(ray["livenessProbe"]) == {"httpGet": {"path": "/api/healthz", "port": 8266}}

    def test_the_serve_port_is_the_one_declared(self) -> None:
        ray = injected("worker", "2.53.0", "RayService", ports=[{"name": "serve", "containerPort": 9000}])
        assert "http://localhost:9000/-/healthz" in ray["readinessProbe"]["exec"]["command"][2]
