"""What `kuberay install` prints, and that it is neither too little nor too much."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kuberay.operator import rights
from kuberay.operator.flags import parse
from kuberay.operator.install import HEALTH_PORT, METRICS_PORT, NAME, USER, Installation, objects

if TYPE_CHECKING:
    from collections.abc import Mapping

ROOT = Path(__file__).parents[2]


def named(installation: Installation, kind: str) -> dict[str, Any]:
    [found] = [each for each in objects(installation) if each["kind"] == kind]
    return found


class TestObjects:
    def test_each_can_be_created_when_its_turn_comes(self) -> None:
        assert [each["kind"] for each in objects(Installation())] == [
            "Namespace",
            "ServiceAccount",
            "ClusterRole",
            "ClusterRoleBinding",
            "Role",
            "RoleBinding",
            "Service",
            "Deployment",
        ]

    def test_a_namespace_that_is_always_there_is_not_made(self) -> None:
        assert "Namespace" not in [each["kind"] for each in objects(Installation(namespace="default"))]

    def test_tools_that_look_for_kuberays_operator_find_it(self) -> None:
        deployment = named(Installation(), "Deployment")
        assert deployment["metadata"]["name"] == "kuberay-operator"
        assert deployment["metadata"]["labels"]["app.kubernetes.io/name"] == "kuberay"

    def test_whoever_may_work_in_few_namespaces_has_rights_only_there(self) -> None:
        made = objects(Installation(namespace="ops", watch_namespaces=("a", "b")))
        assert not [each for each in made if each["kind"] == "ClusterRoleBinding"]
        bound = [each["metadata"]["namespace"] for each in made if each["kind"] == "RoleBinding"]
        assert bound == ["a", "b", "ops"]
        [container] = named(Installation(watch_namespaces=("a", "b")), "Deployment")["spec"]["template"]["spec"][
            "containers"
        ]
        assert "--watch-namespace=a,b" in container["args"]


class TestPod:
    @pytest.fixture
    def pod(self) -> Mapping[str, Any]:
        spec: Mapping[str, Any] = named(Installation(), "Deployment")["spec"]["template"]["spec"]
        return spec

    def test_it_runs_as_nobody_and_can_change_nothing(self, pod: Mapping[str, Any]) -> None:
        [container] = pod["containers"]
        assert pod["securityContext"]["runAsUser"] == USER
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
            "runAsNonRoot": True,
        }

    def test_its_flags_are_flags_of_the_operator_and_say_where_to_listen(self, pod: Mapping[str, Any]) -> None:
        flags = parse(pod["containers"][0]["args"])
        assert flags.metrics_addr == f":{METRICS_PORT}"
        assert flags.health_probe_bind_address == f":{HEALTH_PORT}"
        assert flags.enable_metrics

    def test_it_may_take_as_long_to_stop_as_it_takes_at_most(self, pod: Mapping[str, Any]) -> None:
        assert pod["terminationGracePeriodSeconds"] > 30 + 5 + 2


class TestRules:
    def test_rights_on_one_kind_are_one_rule(self) -> None:
        rules = rights.rules(rights.USED + rights.GRANTED)
        kinds = [(rule["apiGroups"], rule["resources"]) for rule in rules]
        assert len(kinds) == len({str(kind) for kind in kinds})

    def test_no_right_is_a_wildcard(self) -> None:
        for right in (*rights.USED, *rights.GRANTED, *rights.ELECTION):
            assert "*" not in (right.group, right.resource, *right.verbs)


class TestImage:
    """Docker is no part of the tests: the file is read, not built."""

    @pytest.fixture
    def instructions(self) -> list[tuple[str, str]]:
        text = (ROOT / "Dockerfile").read_text().replace("\\\n", " ")
        lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")]
        return [(word, rest) for word, _, rest in (line.partition(" ") for line in lines)]

    def test_it_is_built_in_two_stages_so_that_no_tools_are_left_in_it(
        self, instructions: list[tuple[str, str]]
    ) -> None:
        stages = [rest for word, rest in instructions if word == "FROM"]
        assert len(stages) == 2
        assert all(re.fullmatch(r"python:3\.\d+-slim( AS build)?", stage) for stage in stages)

    def test_it_runs_as_the_user_of_the_deployment(self, instructions: list[tuple[str, str]]) -> None:
        assert [rest for word, rest in instructions if word == "USER"] == [f"{USER}:{USER}"]
        assert instructions[-1] == ("ENTRYPOINT", '["/manager"]')

    def test_it_needs_no_file_to_write(self, instructions: list[tuple[str, str]]) -> None:
        variables = " ".join(rest for word, rest in instructions if word == "ENV")
        assert "PYTHONDONTWRITEBYTECODE=1" in variables

    def test_everything_it_copies_is_there(self, instructions: list[tuple[str, str]]) -> None:
        copied = [rest.split() for word, rest in instructions if word == "COPY" and "--from" not in rest]
        for *sources, _ in copied:
            for source in sources:
                assert (ROOT / source).exists(), source


def test_the_name_is_that_of_kuberays_account() -> None:
    assert named(Installation(), "ServiceAccount")["metadata"]["name"] == NAME == "kuberay-operator"
