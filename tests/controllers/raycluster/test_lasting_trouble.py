"""Servers that are slow or contended, Pods that have to stay, and a definition that drops what is written: each costs
what it must, and nothing is repeated without a pause."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kuberay.api.core import Pod
from kuberay.api.crd import crd
from kuberay.controllers.kinds import RAY_CLUSTERS
from kuberay.controllers.options import ControllerOptions
from kuberay.controllers.raycluster.controller import RayClusterController
from kuberay.kube.errors import Conflict, Forbidden, Timeout
from kuberay.kube.identity import Key
from kuberay.kube.recorder import Recorder
from kuberay.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, JOBS, PODS
from kuberay.sim.kubelet import FakeKubelet
from tests.build.clusters import group
from tests.controllers.acting import webhook
from tests.controllers.embedded import embedded
from tests.controllers.raycluster.test_controller import fill, is_create, status_writes
from tests.operator.world import World, living, new_namespace, operating

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from kuberay.kube.client import Client
    from kuberay.kube.transport import Request
    from tests.controllers.embedded import Meddler


@pytest.fixture
async def server() -> tuple[Client, Meddler]:
    return await embedded()


@pytest.fixture
async def meddler(server: tuple[Client, Meddler]) -> Meddler:
    return server[1]


@pytest.fixture
async def world(server: tuple[Client, Meddler]) -> AsyncIterator[World]:
    client, _ = server
    async with living(client) as world, operating(client, world.namespace):
        yield world


class TestFailuresInPassing:
    async def test_a_group_that_gets_no_answer_is_told_and_keeps_no_other_waiting(
        self, server: tuple[Client, Meddler]
    ) -> None:
        client, meddler = server
        meddler.before = lambda request: (
            Timeout("did not complete in time") if is_create(request, "pods", b'"ray.io/group":"a"') else None
        )
        now = 0.0
        recorder = Recorder(client, "test")
        controller = RayClusterController(client, recorder, ControllerOptions(), now=lambda: now)
        async with living(client) as world:
            await world.apply(groups=[group("a", replicas=40, maxReplicas=40), group("b", replicas=40, maxReplicas=40)])
            await fill(controller, client)
            await controller.reconcile(Key(world.namespace, "rc"))
            assert len(await world.pods("worker")) == 40, "those of the other group"
            for moment in (1.0, 2.0, 4.0):
                now = moment
                with pytest.raises(Timeout):
                    await controller.reconcile(Key(world.namespace, "rc"))
            await controller.reconcile(Key(world.namespace, "rc"))
            found = await world.condition("ReplicaFailure")
            assert (found.reason, "did not complete in time" in found.message) == ("FailedCreateWorkerPod", True)
            recorder.stop()
            await recorder.run()
            assert "did not complete in time" in await world.has_event("FailedToCreateWorkerPod")

    async def test_a_contended_quota_does_not_slow_a_group_down_and_is_no_news(
        self, world: World, meddler: Meddler
    ) -> None:
        creates = 0

        def contend(request: Request) -> Exception | None:
            nonlocal creates
            if not is_create(request, "pods"):
                return None
            creates += 1
            return Conflict('resourcequotas "compute": the object has been modified') if creates % 3 == 0 else None

        meddler.before = contend
        await world.apply(groups=[group(replicas=60, maxReplicas=60)])
        await world.ready(60)
        assert not [reason for reason, _ in await world.events() if reason.startswith("Failed")]


class TestAWebhookThatTakesWhatPodsAreKnownBy:
    @pytest.mark.parametrize("node_type", ["head", "worker"])
    @pytest.mark.parametrize("taken", ["labels", "ray.io/group", "ownerReferences"])
    @pytest.mark.parametrize("may_delete", [True, False])
    async def test_costs_a_few_pods_and_not_one_after_another_without_end(
        self, server: tuple[Client, Meddler], node_type: str, taken: str, may_delete: bool
    ) -> None:
        client, meddler = server
        mark = f'"ray.io/node-type":"{node_type}"'.encode()
        change = webhook(lambda metadata: (metadata if taken in metadata else metadata["labels"]).pop(taken))
        meddler.admit = lambda request: change(request) if is_create(request, "pods", mark) else request
        meddler.before = lambda request: (
            Forbidden("a policy protects it") if request.method == "DELETE" and not may_delete else None
        )
        now = 0.0
        recorder = Recorder(client, "test")
        options = ControllerOptions(resync=None)
        controller = RayClusterController(client, recorder, options, now=lambda: now)
        namespace = await new_namespace(client)
        world = World(client, namespace, FakeKubelet(client, node="none", namespace=namespace))
        await world.apply(groups=[group(replicas=2)])
        await fill(controller, client)
        passes = 0
        while now < 600:
            passes += 1
            assert passes < 200
            result = await controller.reconcile(Key(namespace, "rc"))
            shown = await client.list(PODS, labels="ray.io/node-type in (head,worker)", type=Pod)
            controller.pods.replaced(shown.items, shown.resource_version)
            now += 600 if result is None or result.requeue_after is None else result.requeue_after
        asked_for = sum(is_create(request, "pods", mark) for request in meddler.writes)
        assert asked_for <= 50
        if may_delete:
            found = await world.condition("ReplicaFailure")
            assert found.reason == f"FailedCreate{node_type.capitalize()}Pod"
            assert asked_for >= 10, "it is tried again, with longer and longer pauses"
            assert "an admission webhook changed what it is known by" in found.message
            assert node_type not in {pod.metadata.labels.get("ray.io/node-type") for pod in await world.pods()}
            assert all(pod.metadata.labels and pod.metadata.controller for pod in await world.pods())


class TestAPodThatHasToStay:
    @pytest.mark.slow
    async def test_keeps_no_other_when_its_cluster_is_suspended(self, world: World, meddler: Meddler) -> None:
        await world.apply(groups=[group(replicas=30, maxReplicas=30)])
        await world.ready(30)
        protected = (await world.pods("worker"))[0].name
        meddler.before = lambda request: (
            Forbidden("a policy protects it")
            if request.method == "DELETE" and request.path.endswith(protected)
            else None
        )
        await world.patch({"spec": {"suspend": True}})

        async def is_alone() -> bool:
            return [pod.name for pod in await world.pods()] == [protected]

        await world.becomes(is_alone)
        assert "a policy protects it" in (await world.condition("ReplicaFailure")).message
        meddler.before = lambda _: None
        await world.condition("RayClusterSuspended")

    async def test_is_asked_to_go_with_pauses_when_its_cluster_is_deleted_and_not_waited_for(
        self, world: World, meddler: Meddler
    ) -> None:
        await world.apply(gcsFaultToleranceOptions={"redisAddress": "redis:6379"})
        await world.ready(1)
        refused: list[Request] = []

        def refuse(request: Request) -> Exception | None:
            if request.method != "DELETE" or "-worker-" not in request.path:
                return None
            refused.append(request)
            return Forbidden("a policy protects it")

        meddler.before = refuse
        await world.delete(RAY_CLUSTERS, "rc")

        async def has_job() -> bool:
            return await world.uid(JOBS, "rc-redis-cleanup") is not None

        await world.becomes(has_job)
        await world.condition("ReplicaFailure")
        assert len(refused) <= 3
        meddler.before = lambda _: None


async def test_a_definition_that_drops_conditions_is_told_once_and_not_written_to_without_end(
    server: tuple[Client, Meddler],
) -> None:
    client, meddler = server
    old = crd("RayCluster", slim=True)
    for version in old["spec"]["versions"]:
        version["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"].pop("conditions", None)
    await client.replace(CUSTOM_RESOURCE_DEFINITIONS, old["metadata"]["name"], old)
    recorder = Recorder(client, "test")
    controller = RayClusterController(client, recorder, ControllerOptions(resync=None))
    async with living(client) as world:
        await world.apply(suspend=True)
        await fill(controller, client)
        key = Key(world.namespace, "rc")
        assert await controller.reconcile(key) is not None  # its Service is made
        waits = [result and result.requeue_after for result in [await controller.reconcile(key) for _ in range(3)]]
        assert waits == [None, None, None]
        assert 0 < status_writes(meddler) <= 3
        recorder.stop()
        await recorder.run()
        told = [note for reason, note in await world.events() if reason == "OutdatedCRD"]
        assert len(told) == 1
        assert "kuberay crds" in told[0]
