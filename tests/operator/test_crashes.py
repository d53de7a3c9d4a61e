"""An operator that dies in the middle of things, at every point there is, and another that goes on.

Wherever it happens, the end is the same as if nobody had died: there is never a second head or a second cleanup Job,
no healthy Pod goes that would not have gone, and nothing is left over. On the embedded API server every write is tried,
on a real one a few.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from kuberay.api.gates import FeatureGates, Gate
from kuberay.build.options import BuildOptions
from kuberay.controllers.kinds import RAY_CLUSTERS
from kuberay.controllers.raycluster.deletion import TIMEOUT
from kuberay.kube.errors import NotFound
from kuberay.kube.resources import NAMESPACES, NETWORK_POLICIES, PODS
from kuberay.sim.kubelet import Fate
from tests.build.clusters import group, template
from tests.operator.crashes import Outcome, Played, Scenario, played
from tests.operator.world import OPTIONS, World, serve_rayclusters
from tests.servers import BOTH, serving

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from tests.operator.crashes import Claim

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

Json = dict[str, Any]

RANDOM_HEADS = replace(OPTIONS, build=BuildOptions(deterministic_head_name=False))
OPEN_GATES = {Gate.GCS_FAULT_TOLERANCE_EMBEDDED_STORAGE: True, Gate.RAY_CLUSTER_NETWORK_POLICY: True}
GATES = replace(OPTIONS, gates=FeatureGates(OPEN_GATES))
TWO: Json = {"groups": [group(replicas=2)]}
RECREATE: Json = {**TWO, "upgradeStrategy": {"type": "Recreate"}}
REDIS: Json = {**TWO, "gcsFaultToleranceOptions": {"redisAddress": "redis:6379"}}
HASTY: Json = {**REDIS, "metadata": {"annotations": {TIMEOUT: "1"}}}
FURNISHED: Json = {
    **TWO,
    "gcsFaultToleranceOptions": {"backend": "rocksdb"},
    "networkPolicy": {},
    "head": {"enableIngress": True},
}
AUTOSCALED: Json = {**TWO, "enableInTreeAutoscaling": True, "authOptions": {"mode": "token"}}


def slices(replicas: int, **fields: Any) -> Json:
    return {"groups": [group(replicas=replicas, numOfHosts=2, **fields)]}


# What happens.


def apply(spec: Json) -> Callable[[World], Awaitable[object]]:
    return lambda world: world.apply(**spec)


def edit(**spec: Any) -> Callable[[World], Awaitable[object]]:
    if "groups" in spec:
        spec["workerGroupSpecs"] = spec.pop("groups")
    return lambda world: world.patch({"spec": spec})


async def delete(world: World) -> None:
    await world.delete(RAY_CLUSTERS, "rc")


async def delete_namespace(world: World) -> None:
    await world.client.delete(NAMESPACES, world.namespace)


async def name_a_worker(world: World) -> None:
    """As the autoscaler does: one less, and which."""
    first, *_ = await world.pods("worker")
    named = group(replicas=1, scaleStrategy={"workersToDelete": [first.name]})
    await world.patch({"spec": {"workerGroupSpecs": [named]}})


async def lose_a_host(world: World) -> None:
    first, *_ = await world.pods("worker")
    await world.delete(PODS, first.name)


# How it ends.


def whole(workers: int) -> Claim:
    async def holds(world: World, _: frozenset[str]) -> bool:
        return await world.is_ready(workers) and len(await world.pods()) == workers + 1

    return holds


async def furnished(world: World, before: frozenset[str]) -> bool:
    page = await world.client.list(NETWORK_POLICIES, namespace=world.namespace)
    return len(page.items) == 2 and await whole(2)(world, before)


async def renewed(world: World, before: frozenset[str]) -> bool:
    is_new = not before & {pod.metadata.uid for pod in await world.pods()}
    return is_new and await whole(2)(world, before)


async def repaired(world: World, before: frozenset[str]) -> bool:
    """Whether one replica of two was replaced."""
    kept = before & {pod.metadata.uid for pod in await world.pods()}
    return len(kept) == 3 and await whole(4)(world, before)


async def suspended(world: World, _: frozenset[str]) -> bool:
    return (await world.cluster()).status.state == "suspended" and not await world.pods()


async def gone(world: World, _: frozenset[str]) -> bool:
    try:
        await world.cluster()
    except NotFound:
        return not await world.pods()
    return False


SCENARIOS = (
    Scenario("a cluster comes up", apply(TWO), whole(2)),
    Scenario("a cluster comes up whose head has any name", apply(TWO), whole(2), options=RANDOM_HEADS),
    Scenario("an autoscaled cluster comes up", apply(AUTOSCALED), whole(2)),
    Scenario("a fault tolerant cluster comes up", apply(REDIS), whole(2)),
    Scenario("a cluster comes up with all there is", apply(FURNISHED), furnished, options=GATES),
    Scenario("replicas of several hosts come up", apply(slices(2)), whole(4), hosts=2),
    Scenario("a cluster grows", edit(groups=[group(replicas=5)]), whole(5), TWO, whole(2)),
    Scenario("a cluster shrinks", edit(groups=[group(replicas=0)]), whole(0), TWO, whole(2)),
    Scenario("an autoscaler takes a worker away", name_a_worker, whole(1), AUTOSCALED, whole(2)),
    Scenario("a replica of several hosts is too many", edit(**slices(1)), whole(2), slices(2), whole(4), hosts=2),
    Scenario("a replica loses a host", lose_a_host, repaired, slices(2), whole(4), hosts=2),
    Scenario("a group is removed", edit(groups=[]), whole(0), TWO, whole(2)),
    Scenario("a cluster is suspended", edit(suspend=True), suspended, TWO, whole(2)),
    Scenario("a cluster comes back", edit(suspend=False), whole(2), {**TWO, "suspend": True}, suspended),
    Scenario("a group is suspended", edit(groups=[group(replicas=2, suspend=True)]), whole(0), TWO, whole(2)),
    Scenario(
        "a cluster is recreated",
        edit(groups=[group(replicas=2, template=template("ray-worker", image="new"))]),
        renewed,
        RECREATE,
        whole(2),
    ),
    Scenario(
        "a cluster is recreated whose head has any name",
        edit(groups=[group(replicas=2, template=template("ray-worker", image="new"))]),
        renewed,
        RECREATE,
        whole(2),
        options=RANDOM_HEADS,
    ),
    Scenario("Redis is cleaned up", delete, gone, REDIS, whole(2)),
    Scenario("Redis cannot be cleaned up", delete, gone, REDIS, whole(2), cleanup=Fate.FAILED),
    Scenario("the cleanup never ends", delete, gone, HASTY, whole(2), cleanup=Fate.PENDING),
    Scenario("the namespace is deleted", delete_namespace, gone, REDIS, whole(2)),
)


@pytest.fixture(scope="session", params=BOTH)
def plays(request: pytest.FixtureRequest) -> dict[str, Played]:
    """All of them, played; by name."""

    async def play() -> dict[str, Played]:
        async with serving(request.param, request) as server:
            await serve_rayclusters(server.client)
            return await played(server.client, SCENARIOS, few=request.param == "kubernetes")

    return asyncio.run(play())


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda each: each.name.replace(" ", "-"))
class TestWhen:
    def test_nobody_dies_there_is_one_head_and_nothing_is_done_in_vain(
        self, plays: dict[str, Played], scenario: Scenario
    ) -> None:
        found = plays[scenario.name].undisturbed
        assert isinstance(found, Outcome), found
        assert found.most_heads <= 1
        assert found.lost_new == 0
        assert found.jobs == (1 if scenario.change is delete else 0)
        assert found.writes > 0

    def test_the_operator_dies_the_end_is_the_same(self, plays: dict[str, Played], scenario: Scenario) -> None:
        play = plays[scenario.name]
        assert play.disturbed
        others = {death: each for death, each in play.disturbed.items() if each != play.undisturbed}
        found = [("nobody", play.undisturbed), *others.items()]
        assert not others, "\n".join(f"{who}: {outcome}" for who, outcome in found)
