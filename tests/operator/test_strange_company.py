"""What somebody else has put beside a cluster, and what an API server will not have: told, and nobody else suffers.

Every test runs on the embedded API server and on a real kube-apiserver, unless it says why not.
"""

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

Json = dict[str, Any]
REAL = [pytest.param("kubernetes", marks=pytest.mark.kubernetes)]
"""The embedded API server has quotas for numbers of objects, and none for what Pods ask for."""


@pytest.fixture
async def world(api: Client) -> AsyncIterator[World]:
    async with living(api) as world, operating(api, world.namespace):
        yield world


async def copy(world: World, name: str, original: str, **metadata: Any) -> None:
    """Make another Pod like one that is there."""
    found: Json = await world.client.get(PODS, original, namespace=world.namespace)
    spec = {"containers": [{"name": "ray", "image": "ray"}]}
    pod = {"apiVersion": "v1", "kind": "Pod", "spec": spec}
    kept = {"name": name, "labels": found["metadata"]["labels"], **metadata}
    await world.client.create(PODS, {**pod, "metadata": kept}, namespace=world.namespace)


async def owners(world: World, name: str) -> Any:
    return (await world.client.get(PODS, name, namespace=world.namespace))["metadata"]["ownerReferences"]


class TestAPodWithTheLabelsOfACluster:
    async def test_it_is_told_of_neither_counted_nor_removed(self, world: World) -> None:
        await world.apply()
        await world.ready(1)
        (worker,) = await world.pods("worker")
        await copy(world, "stranger", worker.name)
        assert f"{world.namespace}/stranger" in await world.has_event("ForeignPod")
        await world.scale(2)

        async def has_two_of_its_own() -> bool:
            return (await world.cluster()).status.ready_worker_replicas == 2 and len(await world.pods("worker")) == 3

        await world.becomes(has_two_of_its_own)
        await world.patch({"spec": {"suspend": True}})
        await world.condition("RayClusterSuspended")
        assert [pod.name for pod in await world.pods()] == ["stranger"]


class TestASecondHead:
    async def test_it_is_told_of_and_none_is_chosen_at_random(self, world: World) -> None:
        await world.apply()
        await world.ready(1)
        await copy(world, "other-head", "rc-head", ownerReferences=await owners(world, "rc-head"))

        async def is_told() -> bool:
            (found,) = [each for each in (await world.cluster()).status.conditions if each.type == "HeadPodReady"]
            return found.reason == "MultipleHeadPods" and "other-head, rc-head" in found.message

        await world.becomes(is_told)
        assert [pod.name for pod in await world.pods("head")] == ["other-head", "rc-head"]
        await world.delete(PODS, "other-head")
        assert (await world.condition("HeadPodReady")).reason == "HeadPodRunningAndReady"


class TestAHeadServiceThatIsRefused:
    @pytest.mark.parametrize(
        ("head", "told"),
        [
            ({"template": template("ray-head", ports=[{"name": "mine", "containerPort": 8080}])}, "8080"),
            (
                {
                    "template": template("ray-head"),
                    "headService": {"spec": {"ports": [{"name": "dashboard", "port": 1}]}},
                },
                "dashboard",
            ),
        ],
        ids=["the port of metrics under another name", "a port with a name that is ours"],
    )
    async def test_the_port_is_named_and_the_cluster_starts_when_it_is_mended(
        self, world: World, head: Json, told: str
    ) -> None:
        await world.apply(head=head)
        failure = await world.condition("ReplicaFailure")
        assert failure.reason == "FailedCreateService"
        assert told in failure.message
        assert told in await world.has_event("FailedToCreateService")
        assert await world.pods() == []
        await world.patch({"spec": {"headGroupSpec": {"template": template("ray-head"), "headService": None}}})
        await world.ready(1)


class TestAGroupThatIsRefused:
    @staticmethod
    async def others_come(world: World, reason: str) -> None:
        failure = await world.condition("ReplicaFailure")
        assert failure.reason == "FailedCreateWorkerPod"
        assert reason in failure.message

        async def has_the_others() -> bool:
            return (await world.cluster()).status.ready_worker_replicas == 2

        await world.becomes(has_the_others)
        assert {pod.metadata.labels["ray.io/group"] for pod in await world.pods("worker")} == {"good"}
        await world.condition("RayClusterProvisioned", "False")
        assert (await world.cluster()).status.state != "ready"

    async def test_for_its_template_does_not_keep_another_from_coming(self, world: World) -> None:
        bad = group("bad", template={"spec": {"containers": [{"name": "ray"}]}})
        await world.apply(groups=[bad, group("good", replicas=2)])
        await self.others_come(world, "spec.containers[0].image")
        await world.patch({"spec": {"workerGroupSpecs": [group("bad"), group("good", replicas=2)]}})
        await world.ready(3)

    @pytest.mark.parametrize("api", REAL, indirect=True)
    async def test_for_want_of_quota_does_not_either(self, world: World) -> None:
        quota: Json = {"metadata": {"name": "q"}, "spec": {"hard": {"requests.nvidia.com/gpu": "0"}}}
        await world.client.create(
            RESOURCE_QUOTAS, {"apiVersion": "v1", "kind": "ResourceQuota", **quota}, namespace=world.namespace
        )

        async def is_in_force() -> bool:
            found = await world.client.get(RESOURCE_QUOTAS, "q", namespace=world.namespace)
            return bool(found.get("status", {}).get("hard"))

        await world.becomes(is_in_force)
        gpu = template("ray-worker", resources={"limits": {"nvidia.com/gpu": "1"}})
        await world.apply(groups=[group("bad", template=gpu), group("good", replicas=2)])
        await self.others_come(world, "exceeded quota: q")
        await world.client.delete(RESOURCE_QUOTAS, "q", namespace=world.namespace)
        await world.ready(3)
