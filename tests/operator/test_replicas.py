"""Groups whose replicas span several hosts, on an API server.

Every test runs on the embedded API server and on a real kube-apiserver.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kuberay.kube.resources import PODS, SERVICES
from tests.build.clusters import group
from tests.operator.world import World, living, operating

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from kuberay.kube.client import Client

pytestmark = pytest.mark.timeout(120)


@pytest.fixture
async def world(api: Client) -> AsyncIterator[World]:
    async with living(api) as world, operating(api, world.namespace):
        yield world


def tpus(replicas: int, **fields: Any) -> dict[str, Any]:
    return group("tpu", replicas=replicas, numOfHosts=2, **fields)


async def replicas(world: World) -> dict[str, list[str]]:
    """The hosts of each replica, by its name."""
    found: dict[str, list[str]] = {}
    for pod in await world.pods("worker"):
        labels = pod.metadata.labels
        found.setdefault(labels["ray.io/worker-group-replica-name"], []).append(labels["ray.io/replica-host-index"])
    return {name: sorted(hosts) for name, hosts in found.items()}


async def test_they_come_and_go_as_one(world: World) -> None:
    await world.apply(groups=[tpus(2)])
    await world.ready(4)
    assert sorted((await replicas(world)).values()) == [["0", "1"], ["0", "1"]]
    assert await world.uid(SERVICES, "rc-headless")
    await world.patch({"spec": {"workerGroupSpecs": [tpus(1)]}})
    await world.ready(2)
    assert list((await replicas(world)).values()) == [["0", "1"]]


async def test_a_host_that_is_lost_takes_the_others_with_it(world: World) -> None:
    await world.apply(groups=[tpus(1)])
    await world.ready(2)
    (old,) = await replicas(world)
    first, _ = await world.pods("worker")
    await world.delete(PODS, first.name)

    async def is_replaced() -> bool:
        return [*await replicas(world)] not in ([], [old]) and old not in await replicas(world)

    await world.becomes(is_replaced)
    await world.ready(2)
    assert list((await replicas(world)).values()) == [["0", "1"]]


async def test_a_pod_that_is_named_stands_for_its_replica(world: World) -> None:
    await world.apply(groups=[tpus(2)])
    await world.ready(4)
    victim, *_ = await world.pods("worker")
    gone = victim.metadata.labels["ray.io/worker-group-replica-name"]
    await world.patch({"spec": {"workerGroupSpecs": [tpus(1, scaleStrategy={"workersToDelete": [victim.name]})]}})
    await world.ready(2)
    assert gone not in await replicas(world)
