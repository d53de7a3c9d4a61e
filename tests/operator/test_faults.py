"""What goes wrong around a cluster: no room for its Pods, and Pods that break beside a healthy sidecar."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kuberay.kube.resources import PODS, RESOURCE_QUOTAS
from tests.build.clusters import group, template
from tests.operator.world import World, living, operating

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from kuberay.kube.client import Client

pytestmark = pytest.mark.timeout(120)

SIDECAR = {"containers": [{"name": "ray", "image": "ray"}, {"name": "logs", "image": "logs"}]}


@pytest.fixture
async def world(api: Client) -> AsyncIterator[World]:
    async with living(api) as world, operating(api, world.namespace):
        yield world


async def ray_ends(world: World, name: str) -> None:
    """Let the Ray container of a Pod end while its sidecar goes on."""
    ended = {"terminated": {"exitCode": 1, "reason": "Error"}}
    statuses: list[dict[str, Any]] = [
        {"name": container, "image": "x", "imageID": "", "ready": True, "restartCount": 0, "state": state}
        for container, state in (("logs", {"running": {}}), ("ray", ended))
    ]
    patch = {"status": {"containerStatuses": statuses}}
    await world.client.patch(PODS, name, patch, namespace=world.namespace, subresource="status")


class TestSidecars:
    """The order of container statuses is anybody's: the Ray container is found by its name."""

    async def test_a_worker_whose_ray_has_ended_for_good_is_replaced(self, world: World) -> None:
        never = template("ray", pod={**SIDECAR, "restartPolicy": "Never"})
        await world.apply(groups=[group(template=never)])
        await world.ready(1)
        (victim,) = await world.pods("worker")
        await ray_ends(world, victim.name)
        await world.has_event("DeletedWorkerPod")
        await world.ready(1)
        (worker,) = await world.pods("worker")
        assert worker.metadata.uid != victim.metadata.uid

    async def test_a_worker_that_the_kubelet_restarts_is_left(self, world: World) -> None:
        always: dict[str, Any] = template("ray", pod={**SIDECAR, "restartPolicy": "Always"})
        await world.apply(groups=[group(template=always)])
        await world.ready(1)
        (kept,) = await world.pods("worker")
        await ray_ends(world, kept.name)
        await world.scale(2)  # somebody looks at all of them
        await world.ready(2)
        assert kept.metadata.uid in {pod.metadata.uid for pod in await world.pods("worker")}


async def test_a_quota_is_told_and_waited_for(world: World) -> None:
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": {"hard": {"pods": "2"}}}
    await world.client.create(RESOURCE_QUOTAS, quota, namespace=world.namespace)

    async def is_in_force() -> bool:
        found = await world.client.get(RESOURCE_QUOTAS, "q", namespace=world.namespace)
        return bool(found.get("status", {}).get("hard"))

    await world.becomes(is_in_force)
    await world.apply(groups=[group(replicas=3)])
    failure = await world.condition("ReplicaFailure")
    assert failure.reason == "FailedCreateWorkerPod"
    assert "exceeded quota" in failure.message
    assert "exceeded quota" in await world.has_event("FailedToCreateWorkerPod")
    before = {pod.metadata.uid for pod in await world.pods()}
    assert len(before) == 2
    await world.client.patch(RESOURCE_QUOTAS, "q", {"spec": {"hard": {"pods": "9"}}}, namespace=world.namespace)
    await world.ready(3)
    assert before < {pod.metadata.uid for pod in await world.pods()}
