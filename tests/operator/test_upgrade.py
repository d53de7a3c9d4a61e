"""Upgrades by recreation, on an API server.

Every test runs on the embedded API server and on a real kube-apiserver.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kuberay.api.crd import crd
from kuberay.engine.apiserver import ApiServer, InProcessTransport, MemoryStorage
from kuberay.kube.client import Client
from kuberay.kube.patches import merge_patch
from kuberay.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, PODS
from tests.build.clusters import group, template
from tests.operator.world import World, living, operating

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

pytestmark = pytest.mark.timeout(120)

RECREATE = {"type": "Recreate"}


@pytest.fixture
async def world(api: Client) -> AsyncIterator[World]:
    async with living(api) as world, operating(api, world.namespace):
        yield world


async def uids(world: World) -> set[str]:
    return {pod.metadata.uid for pod in await world.pods()}


async def test_a_new_image_replaces_every_pod(world: World) -> None:
    await world.apply(upgradeStrategy=RECREATE, groups=[group(replicas=2)])
    await world.ready(2)
    before = await uids(world)
    await world.patch({"spec": {"workerGroupSpecs": [group(replicas=2, template=template("ray-worker", image="new"))]}})

    async def is_replaced() -> bool:
        found = await uids(world)
        return len(found) == 3 and not found & before

    await world.becomes(is_replaced)
    await world.ready(2)
    assert "upgradeStrategy is Recreate" in await world.has_event("DeletedPod")


async def test_other_replicas_replace_none(world: World) -> None:
    await world.apply(upgradeStrategy=RECREATE)
    await world.ready(1)
    before = await uids(world)
    await world.scale(2)
    await world.ready(2)
    assert before < await uids(world)


@pytest.mark.parametrize("version", ["v1.3.2", "0.1.0"])
async def test_a_head_of_another_operator_is_adopted_without_a_restart(api: Client, version: str) -> None:
    """KubeRay, or an earlier version of this one that gave the same spec another name."""
    name, made_by = "ray.io/upgrade-strategy-recreate-hash", "ray.io/kuberay-version"
    async with living(api) as world:
        async with operating(api, world.namespace):
            await world.apply(upgradeStrategy=RECREATE)
            await world.ready(1)
        before = await uids(world)
        (head,) = await world.pods("head")
        ours = {key: head.metadata.annotations[key] for key in (name, made_by)}
        foreign = {made_by: version, name: "OTHER"}
        await api.patch(PODS, "rc-head", {"metadata": {"annotations": foreign}}, namespace=world.namespace)
        async with operating(api, world.namespace):

            async def is_renamed() -> bool:
                (head,) = await world.pods("head")
                return ours.items() <= head.metadata.annotations.items()

            await world.becomes(is_renamed)
            await world.scale(2)
            await world.ready(2)
        assert before < await uids(world)


async def test_without_it_a_change_waits_and_is_named_until_the_pods_are_replaced(world: World) -> None:
    await world.apply()
    await world.ready(1)
    before = await uids(world)
    await world.patch({"spec": {"workerGroupSpecs": [group(template=template("ray-worker", image="new"))]}})
    found = await world.condition("SpecChangesPending")
    assert found.message.startswith("spec.workerGroupSpecs[0].template.spec.containers[0].image (group 'wg'): ")
    assert await uids(world) == before
    (worker,) = await world.pods("worker")
    await world.delete(PODS, worker.name)

    async def is_told_no_more() -> bool:
        return "SpecChangesPending" not in [each.type for each in (await world.cluster()).status.conditions]

    await world.becomes(is_told_no_more)
    await world.ready(1)


async def test_other_crds_replace_none() -> None:
    """On the embedded API server: a real one is shared, and so are its CRDs."""
    client = Client(InProcessTransport(ApiServer(MemoryStorage())))
    await client.create(CUSTOM_RESOURCE_DEFINITIONS, crd("RayCluster", slim=True))
    ports = [{"name": "dashboard", "containerPort": 8265}]
    async with living(client) as world, operating(client, world.namespace):
        given = template("ray-head", ports=ports, metadata={"creationTimestamp": None, "labels": {"a": "b"}})
        await world.apply(upgradeStrategy=RECREATE, head={"template": given})
        await world.ready(1)
        before = await uids(world)
        for slim in (False, True):
            there = await client.get(CUSTOM_RESOURCE_DEFINITIONS, "rayclusters.ray.io")
            other = merge_patch(crd("RayCluster", slim=slim), {"metadata": there["metadata"]})
            await client.replace(CUSTOM_RESOURCE_DEFINITIONS, "rayclusters.ray.io", other)
            await world.scale(3 if slim else 2)
            await world.ready(3 if slim else 2)
            stored = (await world.cluster()).spec.head_group_spec.template
            assert stored["spec"]["containers"][0]["ports"][0]["protocol"] == "TCP"
        assert before < await uids(world)
