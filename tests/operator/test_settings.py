"""Switches of the environment, with KubeRay's names and rules."""

from __future__ import annotations

import pytest

from kuberay.operator.settings import from_environment, listening


class TestDefaults:
    def test_an_empty_environment_means_the_defaults(self) -> None:
        build = from_environment({}).controllers.build
        assert build.init_container_injection
        assert build.probes_injection
        assert build.deterministic_head_name
        assert not build.login_shell
        assert not build.head_cluster_ip_service
        assert build.cluster_domain == "cluster.local"

    def test_an_empty_domain_means_the_default(self) -> None:
        assert from_environment({"CLUSTER_DOMAIN": ""}).controllers.build.cluster_domain == "cluster.local"
        assert from_environment({"CLUSTER_DOMAIN": "corp"}).controllers.build.cluster_domain == "corp"


class TestSwitches:
    @pytest.mark.parametrize(
        ("variable", "option"),
        [
            ("ENABLE_INIT_CONTAINER_INJECTION", "init_container_injection"),
            ("ENABLE_PROBES_INJECTION", "probes_injection"),
            ("ENABLE_DETERMINISTIC_HEAD_POD_NAME", "deterministic_head_name"),
        ],
    )
    @pytest.mark.parametrize(("value", "expected"), [("false", False), ("FALSE", False), ("0", True), ("", True)])
    def test_only_false_switches_these_off(self, variable: str, option: str, value: str, expected: bool) -> None:
        assert getattr(from_environment({variable: value}).controllers.build, option) is expected

    @pytest.mark.parametrize(
        ("variable", "option"),
        [("ENABLE_LOGIN_SHELL", "login_shell"), ("ENABLE_RAY_HEAD_CLUSTER_IP_SERVICE", "head_cluster_ip_service")],
    )
    @pytest.mark.parametrize(("value", "expected"), [("true", True), ("True", True), ("1", False), ("", False)])
    def test_only_true_switches_these_on(self, variable: str, option: str, value: str, expected: bool) -> None:
        assert getattr(from_environment({variable: value}).controllers.build, option) is expected


class TestResync:
    @pytest.mark.parametrize(
        ("text", "seconds"),
        [(None, 300.0), ("60", 60.0), ("abc", 300.0), ("", 300.0), ("0", None), ("-5", None), ("9" * 400, 300.0)],
    )
    def test_it_follows_the_variable(self, text: str | None, seconds: float | None) -> None:
        """raycluster EX-05."""
        environment = {} if text is None else {"RAYCLUSTER_DEFAULT_REQUEUE_SECONDS_ENV": text}
        assert from_environment(environment).controllers.resync == seconds


class TestControllers:
    @pytest.mark.parametrize(
        ("variable", "option"),
        [("USE_INGRESS_ON_OPENSHIFT", "ingress_on_openshift"), ("ENABLE_RANDOM_POD_DELETE", "random_pod_delete")],
    )
    @pytest.mark.parametrize(("value", "expected"), [("", False), ("1", False), ("TRUE", True)])
    def test_only_true_switches_these_on(self, variable: str, option: str, value: str, expected: bool) -> None:
        assert getattr(from_environment({variable: value}).controllers, option) is expected


class TestListening:
    @pytest.mark.parametrize(
        ("address", "expected"), [(":8082", ("", 8082)), ("127.0.0.1:0", ("127.0.0.1", 0)), ("[::1]:80", ("::1", 80))]
    )
    def test_an_address_is_a_host_and_a_port(self, address: str, expected: tuple[str, int]) -> None:
        assert listening(address) == expected

    @pytest.mark.parametrize("address", ["nowhere", "127.0.0.1:", "127.0.0.1:http", "127.0.0.1:80800"])
    def test_one_that_cannot_be_read_says_so(self, address: str) -> None:
        with pytest.raises(ValueError, match="host:port is wanted"):
            listening(address)
