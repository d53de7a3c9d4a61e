"""What `kuberay install` prints, and that it is neither too little nor too much."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kuberay.operator import rights
from kuberay.operator.flags import parse
from kuberay.operator.install import HEALTH_PORT, METRICS_PORT, NAME, USER, Installation, objects
from kuberay.operator.startup import StartupError
from tests.operator.calls import bound, granted

if TYPE_CHECKING:
    from collections.abc import Mapping

ROOT = Path(__file__).parents[2]
EVERYWHERE = Installation(image="registry.example/kuberay:1")


def named(installation: Installation, kind: str) -> dict[str, Any]:
    [found] = [each for each in objects(installation) if each["kind"] == kind]
    return found


class TestObjects:
    def test_each_can_be_created_when_its_turn_comes(self) -> None:
        assert [each["kind"] for each in objects(EVERYWHERE)] == [
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
        assert "Namespace" not in [each["kind"] for each in objects(replace(EVERYWHERE, namespace="default"))]

    def test_tools_that_look_for_kuberays_operator_find_it(self) -> None:
        deployment = named(EVERYWHERE, "Deployment")
        assert deployment["metadata"]["name"] == "kuberay-operator"
        assert deployment["metadata"]["labels"]["app.kubernetes.io/name"] == "kuberay"

    @pytest.mark.parametrize("watched", [(), ("a",)])
    def test_of_two_installations_none_takes_what_the_other_has(self, watched: tuple[str, ...]) -> None:
        """But for the CRDs, which they share, and for the work: where both have it, they would be at odds anyway."""
        names = []
        for namespace in ("one", "two"):
            made = objects(replace(EVERYWHERE, namespace=namespace, watch_namespaces=watched))
            names.append({(each["kind"], each["metadata"].get("namespace"), each["metadata"]["name"]) for each in made})
        assert names[0] & names[1] == set()


class TestRights:
    """What bindings and roles come to together."""

    OWN = granted(rights.ELECTION, namespace="ops")

    def test_whoever_works_everywhere_may_do_everywhere_what_it_does_anywhere(self) -> None:
        everywhere = granted(rights.USED, rights.GRANTED, rights.OUTSIDE)
        assert bound(objects(replace(EVERYWHERE, namespace="ops"))) == everywhere | self.OWN
        assert granted(rights.IN_DEFAULT) <= everywhere

    def test_whoever_works_in_few_namespaces_has_few_rights_elsewhere(self) -> None:
        few = replace(EVERYWHERE, namespace="ops", watch_namespaces=("a", "b"))
        there = {each for name in "ab" for each in granted(rights.USED, rights.GRANTED, namespace=name)}
        elsewhere = granted(rights.IN_DEFAULT, namespace="default") | granted(rights.OUTSIDE)
        assert bound(objects(few)) == there | elsewhere | self.OWN
        assert "--watch-namespace=a,b" in arguments(few)

    def test_in_default_nothing_more_is_needed_by_who_works_there(self) -> None:
        there = granted(rights.USED, rights.GRANTED, namespace="default")
        few = replace(EVERYWHERE, namespace="ops", watch_namespaces=("default",))
        assert bound(objects(few)) == there | granted(rights.OUTSIDE) | self.OWN

    def test_whoever_turns_to_few_namespaces_keeps_no_right_elsewhere(self) -> None:
        few = replace(EVERYWHERE, namespace="ops", watch_namespaces=("a",))
        made = objects(replace(EVERYWHERE, namespace="ops")) + objects(few)
        left = {(each["kind"], each["metadata"].get("namespace"), each["metadata"]["name"]): each for each in made}
        assert bound(list(left.values())) == bound(objects(few))

    def test_they_follow_the_lease(self) -> None:
        moved = replace(EVERYWHERE, namespace="ops", arguments=("--leader-election-namespace=x",))
        alone = replace(EVERYWHERE, namespace="ops", arguments=("--enable-leader-election=false",))
        without = bound(objects(alone))
        assert bound(objects(moved)) - without == granted(rights.ELECTION, namespace="x")
        assert {each.resource for each in without} & {"leases"} == set()


class TestFlags:
    """A Deployment that cannot start is not printed."""

    @pytest.mark.parametrize(
        ("flag", "why"),
        [
            ("--feature-gates=Nope=true", "--feature-gates: feature gate 'Nope' is unknown"),
            ("--batch-scheduler=volcano", "--batch-scheduler (batchScheduler): volcano is not supported yet"),
            ("--config=/c.yaml", "--config=/c.yaml: the Pod has no such file"),
            ("--kubeconfig=/k", "--kubeconfig cannot be given here: in a Pod the operator uses its own account"),
            ("--log-file-path=/l", "--log-file-path cannot be given here: the Pod has no place for files"),
            ("--metrics-addr=0", "--metrics-addr cannot be given here: the Service leads to port 8080"),
            ("--health-probe-bind-address=:1", "--health-probe-bind-address cannot be given here: the Pod's probes"),
            ("--watch-namespace=a", "--watch-namespace cannot be given here: rights depend on it"),
        ],
    )
    def test_what_would_keep_it_from_starting_or_from_being_found_is_refused(self, flag: str, why: str) -> None:
        with pytest.raises(StartupError, match=re.escape(why)):
            objects(replace(EVERYWHERE, arguments=(flag,)))

    @pytest.mark.parametrize(
        ("installation", "why"),
        [
            (replace(EVERYWHERE, namespace="My_Ops"), "--namespace: 'My_Ops' is not a DNS-1123 label"),
            (replace(EVERYWHERE, namespace=""), "--namespace: '' is not a DNS-1123 label"),
            (
                replace(EVERYWHERE, watch_namespaces=("a", "B")),
                "--watch-namespace (watchNamespace): 'B' is not",
            ),
            (replace(EVERYWHERE, image=""), "--image is empty"),
        ],
    )
    def test_what_no_object_can_hold_is_refused_by_name(self, installation: Installation, why: str) -> None:
        with pytest.raises(StartupError, match=re.escape(why)):
            objects(installation)

    def test_several_without_an_election_are_refused(self) -> None:
        alone = replace(EVERYWHERE, arguments=("--enable-leader-election=false",))
        assert objects(alone)
        with pytest.raises(StartupError, match="would all work at once"):
            objects(replace(alone, replicas=2))

    def test_without_an_election_a_rollout_ends_the_old_operator_before_it_starts_the_new_one(self) -> None:
        alone = replace(EVERYWHERE, arguments=("--enable-leader-election=false",))
        assert named(alone, "Deployment")["spec"]["strategy"] == {"type": "Recreate"}
        assert named(EVERYWHERE, "Deployment")["spec"]["strategy"]["type"] == "RollingUpdate"


def arguments(installation: Installation) -> list[str]:
    [container] = named(installation, "Deployment")["spec"]["template"]["spec"]["containers"]
    found: list[str] = container["args"]
    return found


class TestPod:
    @pytest.fixture
    def pod(self) -> Mapping[str, Any]:
        spec: Mapping[str, Any] = named(EVERYWHERE, "Deployment")["spec"]["template"]["spec"]
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
        rules = rights.rules(rights.USED + rights.OUTSIDE + rights.GRANTED)
        kinds = [(rule["apiGroups"], rule["resources"]) for rule in rules]
        assert len(kinds) == len({str(kind) for kind in kinds})

    def test_no_right_is_a_wildcard(self) -> None:
        for right in (*rights.USED, *rights.IN_DEFAULT, *rights.OUTSIDE, *rights.GRANTED, *rights.ELECTION):
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
    assert named(EVERYWHERE, "ServiceAccount")["metadata"]["name"] == NAME == "kuberay-operator"
