"""Environment and command line of a container, compared with what a kubelet makes of the same Pod."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from kuberay.engine.node import environment
from kuberay.engine.node.environment import ConfigError, Facts, References
from kuberay.kube import quantity

FACTS = Facts(
    pod_ip="10.244.0.5",
    host_ip="10.244.0.1",
    cpu=quantity.parse(8),
    memory=quantity.parse("16Gi"),
    service_host="10.96.0.1",
)
REFERENCES = References(
    config_maps={"settings": {"data": {"COLOUR": "red", "SHAPE": "round"}}},
    secrets={"password": {"data": {"KEY": base64.b64encode(b"s3cret").decode()}}},
)


def pod(container: dict[str, Any]) -> dict[str, Any]:
    return {
        "metadata": {
            "name": "head",
            "namespace": "default",
            "uid": "u-1",
            "labels": {"ray.io/cluster": "rc"},
            "annotations": {"note": "hello"},
        },
        "spec": {"nodeName": "local", "containers": [container]},
    }


def resolved(**container: Any) -> dict[str, str]:
    spec = {"name": "ray", **container}
    found = environment.variables(pod(spec), spec, FACTS, REFERENCES)
    return {key: value for key, value in found.items() if not key.startswith("KUBERNETES_")}


class TestExpansion:
    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("$(A)", "1"),
            ("-$(A)-$(A)-", "-1-1-"),
            ("$$(A)", "$(A)"),
            ("$$$(A)", "$1"),
            ("$(UNKNOWN)", "$(UNKNOWN)"),
            ("$A ${A} $", "$A ${A} $"),
            ("$(A", "$(A"),
            ("100$$", "100$"),
        ],
    )
    def test_only_known_names_in_parentheses_are_replaced(self, text: str, expected: str) -> None:
        assert environment.expand(text, {"A": "1"}) == expected


class TestVariables:
    def test_a_later_entry_sees_an_earlier_one(self) -> None:
        env = [{"name": "A", "value": "1"}, {"name": "B", "value": "$(A)2$(C)"}, {"name": "C", "value": "3"}]
        assert resolved(env=env) == {"A": "1", "B": "12$(C)", "C": "3"}

    @pytest.mark.parametrize(
        ("path", "expected"),
        [
            ("metadata.name", "head"),
            ("metadata.namespace", "default"),
            ("metadata.uid", "u-1"),
            ("metadata.labels['ray.io/cluster']", "rc"),
            ("metadata.labels['absent']", ""),
            ("metadata.annotations['note']", "hello"),
            ("spec.nodeName", "local"),
            ("status.podIP", "10.244.0.5"),
            ("status.hostIP", "10.244.0.1"),
        ],
    )
    def test_fields_of_the_pod(self, path: str, expected: str) -> None:
        assert resolved(env=[{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": path}}}]) == {"A": expected}

    def test_a_field_nobody_may_ask_for_is_named(self) -> None:
        with pytest.raises(ConfigError, match=r"spec\.containers"):
            resolved(env=[{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "spec.containers"}}}])

    @pytest.mark.parametrize(
        ("reference", "expected"),
        [
            ({"resource": "limits.cpu"}, "2"),
            ({"resource": "limits.cpu", "divisor": "1m"}, "1500"),
            ({"resource": "limits.memory"}, str(16 << 30)),
            ({"resource": "requests.memory", "divisor": "1Mi"}, "1024"),
            ({"resource": "requests.cpu"}, "0"),
        ],
    )
    def test_resources_of_the_container_or_of_the_machine(self, reference: dict[str, str], expected: str) -> None:
        resources = {"limits": {"cpu": "1500m"}, "requests": {"memory": "1Gi"}}
        env = [{"name": "A", "valueFrom": {"resourceFieldRef": reference}}]
        assert resolved(env=env, resources=resources) == {"A": expected}

    def test_keys_of_config_maps_and_secrets(self) -> None:
        env = [
            {"name": "A", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "COLOUR"}}},
            {"name": "B", "valueFrom": {"secretKeyRef": {"name": "password", "key": "KEY"}}},
        ]
        assert resolved(env=env) == {"A": "red", "B": "s3cret"}

    def test_whole_config_maps_give_way_to_entries_of_their_own(self) -> None:
        sources = [{"configMapRef": {"name": "settings"}}, {"prefix": "P_", "secretRef": {"name": "password"}}]
        found = resolved(envFrom=sources, env=[{"name": "COLOUR", "value": "blue"}])
        assert found == {"COLOUR": "blue", "SHAPE": "round", "P_KEY": "s3cret"}

    @pytest.mark.parametrize(
        ("entry", "message"),
        [
            ({"configMapKeyRef": {"name": "absent", "key": "K"}}, 'configmap "absent" not found'),
            ({"secretKeyRef": {"name": "absent", "key": "K"}}, 'secret "absent" not found'),
            ({"secretKeyRef": {"name": "password", "key": "K"}}, "couldn't find key K in Secret default/password"),
            (
                {"configMapKeyRef": {"name": "settings", "key": "K"}},
                "couldn't find key K in ConfigMap default/settings",
            ),
        ],
    )
    def test_what_is_missing_is_said_as_a_kubelet_says_it(self, entry: dict[str, Any], message: str) -> None:
        with pytest.raises(ConfigError) as caught:
            resolved(env=[{"name": "A", "valueFrom": entry}])
        assert str(caught.value) == message

    def test_what_is_missing_but_optional_is_left_out(self) -> None:
        entry = {"secretKeyRef": {"name": "absent", "key": "K", "optional": True}}
        sources = [{"configMapRef": {"name": "absent", "optional": True}}]
        assert resolved(env=[{"name": "A", "valueFrom": entry}], envFrom=sources) == {}

    def test_the_api_server_can_be_found(self) -> None:
        found = environment.variables(pod({"name": "ray"}), {"name": "ray"}, FACTS, REFERENCES)
        assert found["KUBERNETES_SERVICE_HOST"] == "10.96.0.1"
        assert found["KUBERNETES_SERVICE_PORT_HTTPS"] == found["KUBERNETES_SERVICE_PORT"] == "443"


class TestCommandLine:
    def test_is_command_and_args_with_variables_in_place(self) -> None:
        container = {"command": ["sh", "-c"], "args": ["echo $(A) $B"]}
        assert environment.command_line(container, {"A": "1"}) == ["sh", "-c", "echo 1 $B"]

    def test_without_a_command_there_is_nothing_to_run(self) -> None:
        with pytest.raises(ConfigError, match="no command"):
            environment.command_line({"name": "ray"}, {})


class TestReferences:
    def test_names_everything_the_pod_needs_from_elsewhere(self) -> None:
        wanted = pod(
            {
                "name": "ray",
                "env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s1", "key": "k"}}}],
                "envFrom": [{"configMapRef": {"name": "c1"}}],
            }
        )
        wanted["spec"]["volumes"] = [
            {"name": "a", "secret": {"secretName": "s2"}},
            {"name": "b", "configMap": {"name": "c2"}},
            {"name": "c", "projected": {"sources": [{"secret": {"name": "s3"}}, {"configMap": {"name": "c3"}}]}},
        ]
        assert environment.referenced(wanted) == ({"c1", "c2", "c3"}, {"s1", "s2", "s3"})
