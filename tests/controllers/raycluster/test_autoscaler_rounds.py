"""Ray's autoscaler at work on a cluster that is recreated when its spec changes: scaling is no such change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson
import pytest

from kuberay.build import labels
from kuberay.controllers.kinds import RAY_CLUSTERS
from kuberay.kube.request import PatchType
from tests.controllers.embedded import embedded
from tests.operator.world import World, living, operating

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from kuberay.kube.client import Client
    from tests.controllers.embedded import Meddler

ROUNDS = 5


@pytest.fixture
async def server() -> tuple[Client, Meddler]:
    return await embedded()


@pytest.fixture
async def world(server: tuple[Client, Meddler]) -> AsyncIterator[World]:
    client, _ = server
    async with living(client) as world, operating(client, world.namespace):
        yield world


def pods_made(meddler: Meddler) -> list[str]:
    """The node types of all Pods that were ever asked for."""
    asked = [each for each in meddler.writes if each.method == "POST" and each.path.endswith("/pods")]
    return [orjson.loads(each.body or b"{}")["metadata"]["labels"][labels.NODE_TYPE] for each in asked]


async def scale(world: World, replicas: int, workers_to_delete: list[str] | None = None) -> None:
    """What the autoscaler writes: replicas alone, or along with the workers that shall go."""
    path = "/spec/workerGroupSpecs/0"
    changes: list[dict[str, Any]] = [{"op": "replace", "path": f"{path}/replicas", "value": replicas}]
    if workers_to_delete is not None:
        named = {"workersToDelete": workers_to_delete}
        changes.append({"op": "add", "path": f"{path}/scaleStrategy", "value": named})
    body = orjson.dumps(changes)
    await world.client.patch(RAY_CLUSTERS, "rc", body, namespace=world.namespace, kind=PatchType.JSON)


async def is_observed(world: World) -> None:
    """Wait until the operator has seen the spec as it is."""

    async def holds() -> bool:
        found = await world.cluster()
        return found.status.observed_generation == found.metadata.generation

    await world.becomes(holds)


async def test_rounds_of_the_autoscaler_restart_nothing(world: World, server: tuple[Client, Meddler]) -> None:
    """Each round leaves `workersToDelete: []` behind, where nothing stood at first."""
    _, meddler = server
    await world.apply(upgradeStrategy={"type": "Recreate"}, enableInTreeAutoscaling=True)
    await world.ready(1)
    (head,) = await world.pods("head")
    (first,) = await world.pods("worker")
    for _ in range(ROUNDS):
        await scale(world, 2)
        await world.ready(2)
        (added,) = [pod for pod in await world.pods("worker") if pod.metadata.uid != first.metadata.uid]
        await scale(world, 1, [added.name])
        await world.ready(1)
        await scale(world, 1, [])
        await is_observed(world)
        assert [pod.metadata.uid for pod in await world.pods()] == [head.metadata.uid, first.metadata.uid]
    assert sorted(pods_made(meddler)) == ["head", *["worker"] * (1 + ROUNDS)]
