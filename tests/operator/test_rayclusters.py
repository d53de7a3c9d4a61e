"""RayClusters on an API server: brought up, scaled, repaired, suspended and removed.

Every test runs on the embedded API server and on a real kube-apiserver.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from kuberay.api.crd import crd
from kuberay.api.gates import FeatureGates, Gate
from kuberay.controllers.kinds import RAY_CLUSTERS
from kuberay.controllers.options import ControllerOptions
from kuberay.engine.apiserver import ApiServer, InProcessTransport, MemoryStorage
from kuberay.kube.client import Client
from kuberay.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, PODS, SERVICES
from kuberay.sim.kubelet import Fate
from tests.build.clusters import group, template
from tests.operator.world import OPTIONS, World, living, operating

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from kuberay.api.core import Pod


pytestmark = pytest.mark.timeout(120)


@pytest.fixture
async def world(api: Client) -> AsyncIterator[World]:
    async with living(api) as world, operating(api, world.namespace):
        yield world


class TestBringUp:
    async def test_a_cluster_becomes_ready(self, world: World) -> None:
        await world.apply(groups=[group(replicas=2)])
        await world.ready(2)
        status = (await world.cluster()).status
        assert status.head is not None
        assert status.head.pod_name == "rc-head"
        assert status.head.service_name == "rc-head-svc"
        assert status.head.pod_ip
        assert status.endpoints["dashboard"] == "8265"
        assert status.observed_generation == 1
        assert [(each.type, each.status) for each in status.conditions] == [
            ("HeadPodReady", "True"),
            ("RayClusterProvisioned", "True"),
            ("RayClusterSuspended", "False"),
            ("RayClusterSuspending", "False"),
        ]

    async def test_its_events_tell_what_was_made(self, world: World) -> None:
        await world.apply(groups=[group(replicas=2)])
        space = world.namespace
        assert await world.has_event("CreatedService") == f"Created service {space}/rc-head-svc"
        assert await world.has_event("CreatedHeadPod") == f"Created head Pod {space}/rc-head"
        note = await world.has_event("CreatedWorkerPod")
        assert note.startswith(f"Created 2 worker Pods: {space}/rc-wg-worker-")

    async def test_many_clusters_side_by_side(self, world: World) -> None:
        names = [f"rc-{number}" for number in range(10)]
        for name in names:
            await world.apply(name, groups=[group(replicas=2)])
        for name in names:
            await world.ready(2, name)

    async def test_a_head_that_is_not_ready_yet_is_said_to_be_so(self, world: World) -> None:
        world.kubelet.fate = lambda pod: Fate.UNREADY if pod.name == "rc-head" else Fate.RUNNING
        await world.apply()
        await world.condition("HeadPodReady", "False")
        world.kubelet.fate = lambda _: Fate.RUNNING
        world.kubelet.look_again()
        await world.ready(1)


class TestScaling:
    async def test_out_and_in(self, world: World) -> None:
        await world.apply(groups=[group(replicas=2)])
        await world.ready(2)
        two = {pod.metadata.uid for pod in await world.pods("worker")}
        await world.scale(3)
        await world.ready(3)
        assert two < {pod.metadata.uid for pod in await world.pods("worker")}
        await world.scale(1)
        await world.ready(1)
        assert {pod.metadata.uid for pod in await world.pods("worker")} < two

    async def test_a_group_that_is_removed_from_the_spec_goes(self, world: World) -> None:
        await world.apply(groups=[group("a"), group("b")])
        await world.ready(2)
        await world.patch({"spec": {"workerGroupSpecs": [group("a")]}})
        await world.ready(1)
        assert [pod.metadata.labels["ray.io/group"] for pod in await world.pods("worker")] == ["a"]
        assert "no longer in the spec" in await world.has_event("DeletedWorkerPod")


class TestRepair:
    async def test_a_dead_worker_is_replaced(self, world: World) -> None:
        await world.apply()
        await world.ready(1)
        (victim,) = await world.pods("worker")
        kill(world, victim)

        async def is_replaced() -> bool:
            uids = [pod.metadata.uid for pod in await world.pods("worker")]
            return len(uids) == 1 and uids != [victim.metadata.uid]

        await world.becomes(is_replaced)
        await world.ready(1)
        assert victim.name in await world.has_event("DeletedWorkerPod")

    async def test_a_dead_head_is_replaced_under_its_name(self, world: World) -> None:
        await world.apply()
        await world.ready(1)
        (victim,) = await world.pods("head")
        kill(world, victim)
        await world.is_replaced(PODS, "rc-head", victim.metadata.uid)

    async def test_a_pod_that_somebody_deletes_comes_back(self, world: World) -> None:
        await world.apply()
        await world.ready(1)
        old = await world.uid(PODS, "rc-head")
        await world.delete(PODS, "rc-head")
        await world.is_replaced(PODS, "rc-head", old or "")

    async def test_a_service_that_somebody_deletes_comes_back(self, world: World) -> None:
        await world.apply()
        await world.ready(1)
        old = await world.uid(SERVICES, "rc-head-svc")
        await world.delete(SERVICES, "rc-head-svc")
        await world.is_replaced(SERVICES, "rc-head-svc", old or "")


class TestDeletion:
    async def test_a_cluster_that_goes_takes_everything_with_it(self, world: World) -> None:
        await world.apply()
        await world.ready(1)
        await world.delete(RAY_CLUSTERS, "rc")

        async def is_gone() -> bool:
            left = [await world.uid(RAY_CLUSTERS, "rc"), await world.uid(SERVICES, "rc-head-svc")]
            return left == [None, None] and not await world.pods()

        await world.becomes(is_gone)

    async def test_a_cluster_that_is_made_again_at_once_has_one_head(self, world: World) -> None:
        await world.apply()
        await world.ready(1)
        old = await world.uid(PODS, "rc-head")
        await world.delete(RAY_CLUSTERS, "rc")
        await world.apply()
        await world.is_replaced(PODS, "rc-head", old or "")
        await world.ready(1)


class TestSuspension:
    async def test_a_suspended_cluster_has_no_pods_and_comes_back(self, world: World) -> None:
        await world.apply()
        await world.ready(1)
        await world.patch({"spec": {"suspend": True}})
        await world.condition("RayClusterSuspended")
        assert await world.pods() == []
        assert (await world.cluster()).status.state == "suspended"
        await world.patch({"spec": {"suspend": False}})
        await world.ready(1)

    async def test_so_it_is_without_conditions(self, api: Client) -> None:
        options = replace(OPTIONS, gates=FeatureGates({Gate.RAY_CLUSTER_STATUS_CONDITIONS: False}))
        async with living(api) as world, operating(api, world.namespace, options):
            await world.apply()
            await world.ready(1)
            await world.patch({"spec": {"suspend": True}})

            async def is_suspended() -> bool:
                return (await world.cluster()).status.state == "suspended"

            await world.becomes(is_suspended)
            assert await world.pods() == []
            await world.patch({"spec": {"suspend": False}})
            await world.ready(1)
            assert (await world.cluster()).status.conditions == []


class TestBadInput:
    async def test_an_invalid_spec_is_told_and_starts_nothing(self, world: World) -> None:
        await world.apply(groups=[group("a"), group("a")])
        found = await world.condition("Blocked")
        assert found.reason == "InvalidRayClusterSpec"
        assert "spec.workerGroupSpecs[1].groupName" in found.message
        assert "spec.workerGroupSpecs[1].groupName" in await world.has_event("InvalidRayClusterSpec")
        assert await world.pods() == []
        await world.patch({"spec": {"workerGroupSpecs": [group("a")]}})
        await world.ready(1)
        assert "Blocked" not in [each.type for each in (await world.cluster()).status.conditions]

    async def test_a_feature_that_is_not_there_yet_is_told(self, api: Client) -> None:
        options = replace(OPTIONS, gates=FeatureGates({Gate.RAY_CLUSTER_MTLS: True}))
        async with living(api) as world, operating(api, world.namespace, options):
            await world.apply(tlsOptions={"enabled": True})
            found = await world.condition("Blocked")
            assert found.reason == "NotSupportedYet"
            assert "spec.tlsOptions" in found.message
            assert await world.pods() == []

    async def test_others_are_not_affected(self, world: World) -> None:
        await world.apply("bad", groups=[group("a"), group("a")])
        await world.apply("good")
        await world.ready(1, "good")


class TestRestart:
    async def test_an_operator_that_is_restarted_in_the_middle_goes_on(self, api: Client) -> None:
        async with living(api) as world:
            await world.apply(groups=[group(replicas=6)])
            async with operating(api, world.namespace):

                async def has_begun() -> bool:
                    return bool(await world.pods())

                await world.becomes(has_begun)
            async with operating(api, world.namespace):
                await world.ready(6)
            await world.scale(3)
            async with operating(api, world.namespace, ControllerOptions(status_delay=0.05)):
                await world.ready(3)


def kill(world: World, victim: Pod) -> None:
    """Let a Pod end in failure, and no other."""
    world.kubelet.fate = lambda pod: Fate.FAILED if pod.metadata.uid == victim.metadata.uid else Fate.RUNNING
    world.kubelet.look_again()


class TestWhatCannotBeRead:
    async def test_is_told_by_an_event_and_hurts_nobody_else(self) -> None:
        client = Client(InProcessTransport(ApiServer(MemoryStorage())))
        lenient = crd("RayCluster", slim=True)
        for version in lenient["spec"]["versions"]:
            anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
            version["schema"] = {"openAPIV3Schema": anything}
        await client.create(CUSTOM_RESOURCE_DEFINITIONS, lenient)
        async with living(client) as world, operating(client, world.namespace):
            broken = {
                "apiVersion": "ray.io/v1",
                "kind": "RayCluster",
                "metadata": {"name": "broken"},
                "spec": {"headGroupSpec": 7},
            }
            await client.create(RAY_CLUSTERS, broken, namespace=world.namespace)
            assert "headGroupSpec" in await world.has_event("InvalidRayClusterSpec")
            await world.apply()
            await world.ready(1)


class TestWhatASlimCrdLetsThrough:
    """On the embedded API server: one server has one CRD, and it is full where others share it."""

    async def test_is_told_by_an_event_and_a_condition_and_keeps_nobody_from_going(self) -> None:
        client = Client(InProcessTransport(ApiServer(MemoryStorage())))
        await client.create(CUSTOM_RESOURCE_DEFINITIONS, crd("RayCluster", slim=True))
        async with living(client) as world, operating(client, world.namespace):
            await world.apply("kept", gcsFaultToleranceOptions={"redisAddress": "redis:6379"})
            await world.ready(1, "kept")
            spoiled = template("ray-head", volumeMounts=["x"])
            await world.patch({"spec": {"headGroupSpec": {"template": spoiled}}}, "kept")
            blocked = await world.condition("Blocked", name="kept")
            field = "spec.headGroupSpec.template.spec.containers[0].volumeMounts[0]"
            wrong = f"{field}: expected an object, got a string"
            assert (blocked.reason, blocked.message) == ("InvalidRayClusterSpec", wrong)
            assert field in await world.has_event("InvalidRayClusterSpec")
            await world.apply("new", head={"template": spoiled})
            assert field in (await world.condition("Blocked", name="new")).message
            await world.apply("other")
            await world.ready(1, "other")
            await world.delete(RAY_CLUSTERS, "kept")

            async def is_gone() -> bool:
                left = (await client.list(RAY_CLUSTERS, namespace=world.namespace)).items
                return "kept" not in [each["metadata"]["name"] for each in left]

            await world.becomes(is_gone)
            assert field in await world.has_event("SkippedRedisCleanup")


async def test_a_group_may_have_an_empty_name(world: World) -> None:
    """Its Pods carry the empty name, are counted, scaled and kept apart from those of the other group."""
    await world.apply(groups=[group(""), group("b")])
    await world.ready(2)
    workers = {pod.metadata.labels["ray.io/group"]: pod for pod in await world.pods("worker")}
    assert sorted(workers) == ["", "b"]
    assert workers[""].name.startswith("rc--worker-")
    await world.patch({"spec": {"workerGroupSpecs": [group("", replicas=3), group("b")]}})
    await world.ready(4)
    await world.condition("RayClusterProvisioned")
    assert (await world.cluster()).status.desired_worker_replicas == 4
    gone = workers[""].name
    named = group("", replicas=2, scaleStrategy={"workersToDelete": [gone]})
    await world.patch({"spec": {"workerGroupSpecs": [named, group("b")]}})
    await world.ready(3)
    left = await world.pods("worker")
    assert sorted(pod.metadata.labels["ray.io/group"] for pod in left) == ["", "", "b"]
    assert gone not in [pod.name for pod in left]
    assert workers["b"].metadata.uid in [pod.metadata.uid for pod in left]
    await world.patch({"spec": {"workerGroupSpecs": [group("b")]}})
    await world.ready(1)
    assert [pod.metadata.uid for pod in await world.pods("worker")] == [workers["b"].metadata.uid]
