"""Nodes that are lost with Pods on them, on an API server.

Every test runs on the embedded API server and on a real kube-apiserver.
"""

from __future__ import annotations

import uuid
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from kuberay.controllers.raycluster.lost import OUT_OF_SERVICE
from kuberay.kube.resources import NODES, PODS
from tests.build.clusters import group, template
from tests.operator.world import OPTIONS, World, living, operating

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from kuberay.kube.client import Client

pytestmark = pytest.mark.timeout(120)

QUICK = {"terminationGracePeriodSeconds": 1}
HEAD = {"template": template("ray-head", pod=QUICK)}
GROUP = group(template=template("ray-worker", pod=QUICK))


@pytest.fixture
def node() -> str:
    return f"node-{uuid.uuid4().hex[:8]}"


@pytest.fixture
async def world(api: Client, node: str) -> AsyncIterator[World]:
    async with living(api, node=node) as world, operating(api, world.namespace, replace(OPTIONS, lost_after=0.2)):
        await world.apply(head=HEAD, groups=[GROUP])
        await world.ready(1)
        world.kubelet.removes = lambda _: False
        yield world
        world.kubelet.removes = lambda _: True


async def test_a_head_is_kept_while_its_node_may_be_running_it_and_forced_away_when_that_is_gone(
    world: World, node: str
) -> None:
    old = await world.uid(PODS, "rc-head")
    await world.delete(PODS, "rc-head")

    async def is_told() -> bool:
        conditions = {each.type: each for each in (await world.cluster()).status.conditions}
        return OUT_OF_SERVICE in conditions["HeadPodReady"].message

    await world.becomes(is_told)
    assert [pod.metadata.uid for pod in await world.pods("head")] == [old]
    await world.client.delete(NODES, node)
    await world.is_replaced(PODS, "rc-head", old or "")
    assert f"its node {node} is gone" in await world.has_event("DeletedHeadPod")
    await world.ready(1)


async def test_a_node_that_is_marked_as_out_of_service_counts_as_gone(world: World, node: str) -> None:
    old = await world.uid(PODS, "rc-head")
    taint: dict[str, Any] = {"key": OUT_OF_SERVICE, "value": "nodeshutdown", "effect": "NoExecute"}
    await world.client.patch(NODES, node, {"spec": {"taints": [taint]}})
    await world.delete(PODS, "rc-head")
    await world.is_replaced(PODS, "rc-head", old or "")
    assert f"its node {node} is out of service" in await world.has_event("DeletedHeadPod")


async def test_a_worker_is_replaced_at_once_and_its_node_asked_nothing(world: World) -> None:
    (old,) = await world.pods("worker")
    await world.delete(PODS, old.name)

    async def is_replaced() -> bool:
        return any(pod.is_ready and not pod.is_leaving for pod in await world.pods("worker"))

    await world.becomes(is_replaced)
    assert old.metadata.uid in {pod.metadata.uid for pod in await world.pods("worker") if pod.is_leaving}
