"""Whatever is wrong with a spec: it is told by an event and a condition that name the field, and starts nothing.

All invalid clusters are there at once, half a hundred beside one operator with its feature gates open and a few beside
one with them closed; every test looks at what became of one of them. What the CRD refuses by itself never comes so far.
"""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kuberay.api.gates import FeatureGates, Gate
from kuberay.controllers.kinds import RAY_CLUSTERS
from kuberay.kube.errors import Invalid as Refused
from kuberay.kube.patches import merge_patch
from kuberay.kube.resources import EVENTS, PODS, SERVICES
from tests.build.clusters import cluster, group, template
from tests.operator.invalid_specs import AUTOSCALING, INVALID, SPEC, Invalid
from tests.operator.world import OPTIONS, World, living, operating
from tests.servers import BOTH, serving

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from kuberay.kube.client import Client

Json = dict[str, Any]

REFUSED: dict[str, tuple[str, Json]] = {
    "U1: another upgrade strategy": ("spec.upgradeStrategy.type", {"upgradeStrategy": {"type": "Rolling"}}),
    "another manager": ("spec.managedBy", {"managedBy": "controller.com/invalid"}),
    "another store": ("spec.gcsFaultToleranceOptions.backend", {"gcsFaultToleranceOptions": {"backend": "etcd"}}),
    "another end of a claim": (
        "spec.gcsFaultToleranceOptions.storage.deletionPolicy",
        {"gcsFaultToleranceOptions": {"storage": {"deletionPolicy": "Keep"}}},
    ),
    "another way to authenticate": ("spec.authOptions.mode", {"authOptions": {"mode": "password"}}),
    "another way to close": ("spec.networkPolicy.mode", {"networkPolicy": {"mode": "Open"}}),
    "rules for a group twice": (
        "spec.networkPolicy.workerGroups[1]",
        {"networkPolicy": {"workerGroups": [{"groupName": "wg"}, {"groupName": "wg"}]}},
    ),
    "another autoscaler": ("spec.autoscalerOptions.version", {"autoscalerOptions": {"version": "v3"}}),
    "another way to grow": ("spec.autoscalerOptions.upscalingMode", {"autoscalerOptions": {"upscalingMode": "Fast"}}),
    "another kind of path": (
        "spec.headGroupSpec.ingressOptions.pathType",
        {"headGroupSpec": {"ingressOptions": {"pathType": "Regex"}}},
    ),
    "no head": ("spec.headGroupSpec", {"headGroupSpec": None}),
    "a head without template": ("spec.headGroupSpec.template", {"headGroupSpec": {"template": None}}),
    "a group without template": ("spec.workerGroupSpecs[0].template", {"workerGroupSpecs": [{"groupName": "wg"}]}),
    "a group without name": ("spec.workerGroupSpecs[0].groupName", {"workerGroupSpecs": [{"template": {}}]}),
}
"""Changes of a valid spec that the CRD does not take, with the field that the server names."""

FIXED: Json = {"managedBy": "ray.io/kuberay-operator", "gcsFaultToleranceOptions": {"backend": "redis"}}
UNCHANGEABLE: dict[str, tuple[str, Json]] = {
    "a manager that is chosen": ("spec.managedBy", {"managedBy": "kueue.x-k8s.io/multikueue"}),
    "a store that is chosen": (
        "spec.gcsFaultToleranceOptions.backend",
        {"gcsFaultToleranceOptions": {"backend": "rocksdb"}},
    ),
}
"""Changes of the spec above that the CRD does not take, with the field that the server names."""

WARNED = AUTOSCALING | {
    "autoscalerOptions": {"version": "v1"},
    "groups": [group(template=template("ray-worker", pod={"restartPolicy": "Always"}))],
}
UNBOUND = {"workerGroupSpecs": [{"groupName": "wg", "template": template("ray-worker")}]}


@dataclass
class Told:
    """What a user sees of a cluster."""

    conditions: dict[str, Json] = field(default_factory=dict)
    warnings: list[Json] = field(default_factory=list)
    children: list[str] = field(default_factory=list)


@dataclass
class Story:
    """What became of all clusters, by their names or labels."""

    told: dict[str, Told]
    refused: dict[str, str]
    """What the server said to those that it would not take."""
    unbound: Json
    """A worker group without bounds, as the server has stored it."""


async def play(client: Client, *, gates_closed: bool) -> Story:
    """Make all that is invalid for such an operator, then something valid, and wait until it is ready."""
    gates = FeatureGates({gate: not gates_closed or gate is Gate.RAY_CLUSTER_STATUS_CONDITIONS for gate in Gate})
    cases = [case for case in INVALID if case.gates_closed is gates_closed]
    names = {case.name or f"c-{index}": case for index, case in enumerate(cases)}
    async with living(client) as world:
        refused = {label: await _refusal(_create(world, "refused", change)) for label, (_, change) in REFUSED.items()}
        await _create(world, "fixed", FIXED)
        for label, (_, change) in UNCHANGEABLE.items():
            refused[label] = await _refusal(world.patch({"spec": change}, "fixed"))
        await world.delete(RAY_CLUSTERS, "fixed")
        for name, case in names.items():
            await world.apply(name, **case.spec)
            if case.status:
                status = {"status": case.status}
                await client.patch(RAY_CLUSTERS, name, status, namespace=world.namespace, subresource="status")
        async with operating(client, world.namespace, replace(OPTIONS, gates=gates)):
            for name in names:
                await world.condition("Blocked", name=name)
            unbound = await _create(world, "unbound", UNBOUND)
            await world.apply("warned", **WARNED)
            await world.apply("good")
            for name, workers in (("unbound", 0), ("warned", 1), ("good", 1)):
                await world.ready(workers, name)
            await world.becomes(lambda: _has_warnings(world, {*names, "warned"}))
            told = await _told(world)
    return Story(
        {names[name].label if name in names else name: each for name, each in told.items()},
        refused,
        unbound["spec"]["workerGroupSpecs"][0],
    )


async def _create(world: World, name: str, change: Json) -> Json:
    spec = merge_patch(cluster().to_dict()["spec"], change)
    rc = {"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": {"name": name}, "spec": spec}
    made: Json = await world.client.create(RAY_CLUSTERS, rc, namespace=world.namespace)
    return made


async def _refusal(write: Awaitable[Any]) -> str:
    try:
        await write
    except Refused as error:
        return str(error)
    return "taken"


async def _has_warnings(world: World, names: set[str]) -> bool:
    """Whether there is one for each: events are written behind everything else."""
    events = await world.client.list(EVENTS, namespace=world.namespace)
    return names <= {each["regarding"]["name"] for each in events.items if each["type"] == "Warning"}


async def _told(world: World) -> dict[str, Told]:
    told: dict[str, Told] = {}
    for rc in (await world.client.list(RAY_CLUSTERS, namespace=world.namespace)).items:
        conditions = {each["type"]: each for each in rc["status"]["conditions"]}
        told[rc["metadata"]["name"]] = Told(conditions)
    for event in (await world.client.list(EVENTS, namespace=world.namespace)).items:
        if event["type"] == "Warning":
            told[event["regarding"]["name"]].warnings.append(event)
    for resource in (PODS, SERVICES):
        for child in (await world.client.list(resource, namespace=world.namespace)).items:
            owner = child["metadata"]["labels"]["ray.io/cluster"]
            told[owner].children.append(f"{resource.kind} {child['metadata']['name']}")
    return told


@pytest.fixture(scope="module", params=BOTH)
def story(request: pytest.FixtureRequest) -> Story:
    """Played once on each API server."""

    async def all_of_it() -> Story:
        async with serving(request.param, request) as server:
            closed = await play(server.client, gates_closed=True)
            opened = await play(server.client, gates_closed=False)
        return replace(opened, told={**closed.told, **opened.told})

    return asyncio.run(all_of_it())


@pytest.mark.slow
@pytest.mark.timeout(180)
class TestOnAnApiServer:
    @pytest.mark.parametrize("case", INVALID, ids=lambda case: case.label)
    def test_the_field_is_named_and_nothing_is_started(self, story: Story, case: Invalid) -> None:
        told = story.told[case.label]
        blocked = told.conditions["Blocked"]
        assert (blocked["status"], blocked["reason"]) == ("True", case.reason)
        assert blocked["message"].startswith(f"{case.path}: ")
        (warning,) = [each for each in told.warnings if each["reason"] == case.reason]
        assert warning["action"] == "Validate"
        assert f": {case.path}: " in warning["note"]
        assert told.children == []

    def test_others_are_not_affected(self, story: Story) -> None:
        good = story.told["good"]
        assert [each.split()[0] for each in good.children] == ["Pod", "Pod", "Service"]
        assert (good.warnings, "Blocked" in good.conditions) == ([], False)

    def test_a_restart_policy_that_the_first_autoscaler_does_not_like_is_told_and_stops_nothing(
        self, story: Story
    ) -> None:
        """raycluster EX-11."""
        warned = story.told["warned"]
        (warning,) = warned.warnings
        assert warning["reason"] == SPEC
        assert "spec.workerGroupSpecs[0].template.spec.restartPolicy" in warning["note"]
        assert "Blocked" not in warned.conditions

    @pytest.mark.parametrize("label", REFUSED | UNCHANGEABLE)
    def test_what_the_crd_refuses_is_named_by_the_server(self, story: Story, label: str) -> None:
        path, _ = (REFUSED | UNCHANGEABLE)[label]
        assert path in story.refused[label]

    def test_a_group_always_has_bounds(self, story: Story) -> None:
        """raycluster EX-07: the server fills in what the rule would miss."""
        bounds = {"replicas": 0, "minReplicas": 0, "maxReplicas": 2147483647}
        assert story.unbound.items() >= bounds.items()


SPECS = Path(__file__).parents[2].parent / "shared" / "spec"


class TestTheTable:
    def test_no_two_cases_are_called_the_same(self) -> None:
        assert len({case.label for case in INVALID}) == len(INVALID)

    @pytest.mark.skipif(not SPECS.exists(), reason="the specs (../shared/spec) are not on this machine")
    def test_every_rule_has_a_case(self) -> None:
        """S5 and U1 cannot be broken through an API server, and 2a only warns: the tests above show each."""
        [chapter] = re.findall(r"^## 5\. .*?(?=^## )", (SPECS / "raycluster.md").read_text(), re.MULTILINE | re.DOTALL)
        rules = set(re.findall(r"^\| (S\d+b?)(?= [|/])", chapter, re.MULTILINE))
        rules |= set(re.findall(r"^\| S\d+ / (S\d+) \|", chapter, re.MULTILINE))
        rules |= set(re.findall(r"^- ([MU]\d|2[ab]): ", chapter, re.MULTILINE))
        assert {"M1", "S3b", "S7", "S10", "S32", "U2", "2b"} <= rules
        assert rules - {"S5", "U1", "2a"} <= {case.rule for case in INVALID}
