"""Clusters that are closed but for their own traffic."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from kuberay.api.gates import FeatureGates, Gate
from kuberay.kube.resources import NETWORK_POLICIES
from tests.build.clusters import group
from tests.operator.world import OPTIONS, World, living, operating

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from kuberay.kube.client import Client

pytestmark = pytest.mark.timeout(120)

CLOSED = replace(OPTIONS, gates=FeatureGates({Gate.RAY_CLUSTER_NETWORK_POLICY: True}))


@pytest.fixture
async def world(api: Client) -> AsyncIterator[World]:
    async with living(api) as world, operating(api, world.namespace, CLOSED):
        yield world


async def are(world: World, *names: str) -> None:
    async def holds() -> bool:
        page = await world.client.list(NETWORK_POLICIES, namespace=world.namespace)
        return sorted(each["metadata"]["name"] for each in page.items) == sorted(names)

    await world.becomes(holds)


async def test_follow_the_groups_of_the_cluster(world: World) -> None:
    await world.apply(networkPolicy={}, groups=[group("a"), group("b")])
    await are(world, "rc-head", "rc-workers-a", "rc-workers-b")
    note = await world.has_event("CreatedNetworkPolicy")
    assert note.startswith(f"Created 3 NetworkPolicies: {world.namespace}/rc-head, ")
    await world.ready(2)
    await world.patch({"spec": {"workerGroupSpecs": [group("a")]}})
    await are(world, "rc-head", "rc-workers-a")
    await world.patch({"spec": {"networkPolicy": None}})
    await are(world)


async def test_are_closed_again_when_somebody_opens_them(world: World) -> None:
    await world.apply(networkPolicy={})
    await are(world, "rc-head", "rc-workers-wg")
    opened: dict[str, Any] = {"spec": {"ingress": [{}]}}
    await world.client.patch(NETWORK_POLICIES, "rc-head", opened, namespace=world.namespace)

    async def is_closed() -> bool:
        policy = await world.client.get(NETWORK_POLICIES, "rc-head", namespace=world.namespace)
        return bool(policy["spec"]["ingress"][0])

    await world.becomes(is_closed)
    await world.has_event("UpdatedNetworkPolicy")
