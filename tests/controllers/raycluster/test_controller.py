"""RayClusters on an API server: brought up, scaled, repaired and removed, by an operator that knows only its watch."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from kuberay.api.core import Pod
from kuberay.api.v1 import RayCluster
from kuberay.build import labels
from kuberay.controllers.kinds import RAY_CLUSTERS
from kuberay.controllers.options import ControllerOptions
from kuberay.kube.errors import ApiError, Forbidden, NotFound, TransportError
from kuberay.kube.resources import EVENTS, PODS, SERVICES
from kuberay.operator.main import run
from kuberay.operator.settings import Settings
from kuberay.sim.kubelet import FakeKubelet, Fate
from tests.build.clusters import cluster as build_cluster
from tests.build.clusters import group
from tests.controllers.embedded import embedded

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from kuberay.kube.client import Client
    from kuberay.kube.transport import Request

OPTIONS = ControllerOptions(replace_after=0.0, status_delay=0.05)
DEADLINE = 20.0


class World:
    """An API server with an operator and a kubelet at work."""

    def __init__(self, client: Client, kubelet: FakeKubelet) -> None:
        self.client = client
        self.kubelet = kubelet

    async def apply(self, *, name: str = "rc", **fields: Any) -> RayCluster:
        rc = build_cluster(name=name, metadata={"uid": None}, **fields).to_dict()
        del rc["metadata"]["uid"]
        return await self.client.create(RAY_CLUSTERS, rc, namespace="default", type=RayCluster)

    async def patch(self, patch: dict[str, Any], name: str = "rc") -> None:
        await self.client.patch(RAY_CLUSTERS, name, patch, namespace="default")

    async def scale(self, replicas: int) -> None:
        await self.patch({"spec": {"workerGroupSpecs": [group(replicas=replicas)]}})

    async def cluster(self, name: str = "rc") -> RayCluster:
        return await self.client.get(RAY_CLUSTERS, name, namespace="default", type=RayCluster)

    async def pods(self, node_type: str | None = None) -> list[Pod]:
        page = await self.client.list(PODS, namespace="default", type=Pod)
        return [
            pod for pod in page.items if node_type is None or pod.metadata.labels.get(labels.NODE_TYPE) == node_type
        ]

    async def events(self) -> list[tuple[str, str]]:
        page = await self.client.list(EVENTS, namespace="default")
        return [(each["reason"], each["note"]) for each in page.items]

    async def becomes(self, holds: Callable[[], Awaitable[bool]]) -> None:
        """Wait until something is so."""
        async with asyncio.timeout(DEADLINE):
            while not await holds():  # noqa: ASYNC110 (what is waited for is on a server)
                await asyncio.sleep(0.01)

    async def is_ready(self, workers: int, name: str = "rc") -> bool:
        status = (await self.cluster(name)).status
        return status.state == "ready" and (status.ready_worker_replicas or 0) == workers

    async def ready(self, workers: int, name: str = "rc") -> None:
        async def holds() -> bool:
            live = [pod for pod in await self.pods("worker") if pod.metadata.labels[labels.CLUSTER] == name]
            return await self.is_ready(workers, name) and len(live) == workers

        await self.becomes(holds)

    async def has_event(self, reason: str) -> None:
        async def holds() -> bool:
            return any(found == reason for found, _ in await self.events())

        await self.becomes(holds)

    async def condition(self, kind: str, status: str = "True") -> Any:
        found: list[Any] = []

        async def holds() -> bool:
            conditions = (await self.cluster()).status.conditions
            found[:] = [each for each in conditions if each.type == kind and each.status == status]
            return bool(found)

        await self.becomes(holds)
        return found[0]


@asynccontextmanager
async def operating(client: Client, options: ControllerOptions = OPTIONS) -> AsyncIterator[None]:
    """An operator at work meanwhile."""
    stop = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        group.create_task(run(client, Settings(health_address=None, controllers=options), stop=stop))
        try:
            yield
        finally:
            stop.set()


@asynccontextmanager
async def living(client: Client) -> AsyncIterator[FakeKubelet]:
    """A kubelet at work meanwhile."""
    kubelet = FakeKubelet(client)
    async with asyncio.TaskGroup() as group:
        serving = group.create_task(kubelet.run())
        try:
            yield kubelet
        finally:
            serving.cancel()


@pytest.fixture
async def world() -> AsyncIterator[World]:
    client, _ = await embedded()
    async with living(client) as kubelet, operating(client):
        yield World(client, kubelet)


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
        for reason in ("CreatedService", "CreatedHeadPod", "CreatedWorkerPod"):
            await world.has_event(reason)
        notes = dict(await world.events())
        assert notes["CreatedHeadPod"] == "Created head Pod default/rc-head"
        assert notes["CreatedService"] == "Created service default/rc-head-svc"
        assert notes["CreatedWorkerPod"].startswith("Created 2 worker Pods: default/rc-wg-worker-")

    async def test_many_clusters_side_by_side(self, world: World) -> None:
        names = [f"rc-{number}" for number in range(10)]
        for name in names:
            await world.apply(name=name, groups=[group(replicas=2)])
        for name in names:
            await world.ready(2, name)

    async def test_a_head_that_is_not_ready_yet_is_said_to_be_so(self, world: World) -> None:
        world.kubelet.fate = lambda pod: Fate.UNREADY if "head" in pod.name else Fate.RUNNING
        await world.apply()
        found = await world.condition("HeadPodReady", "False")
        assert found.last_transition_time
        world.kubelet.fate = lambda _: Fate.RUNNING
        world.kubelet.look_again()
        await world.ready(1)


class TestScaling:
    async def test_out_and_in(self, world: World) -> None:
        await world.apply(groups=[group(replicas=2)])
        await world.ready(2)
        before = {pod.metadata.uid for pod in await world.pods("worker")}
        await world.scale(3)
        await world.ready(3)
        assert before < {pod.metadata.uid for pod in await world.pods("worker")}
        await world.scale(1)
        await world.ready(1)
        assert {pod.metadata.uid for pod in await world.pods("worker")} < before

    async def test_a_group_that_is_removed_from_the_spec_goes(self, world: World) -> None:
        await world.apply(groups=[group("a"), group("b")])
        await world.ready(2)
        await world.patch({"spec": {"workerGroupSpecs": [group("a")]}})
        await world.ready(1)
        assert [pod.metadata.labels["ray.io/group"] for pod in await world.pods("worker")] == ["a"]


class TestRepair:
    async def test_a_dead_worker_is_replaced(self, world: World) -> None:
        await world.apply()
        await world.ready(1)
        (victim,) = await world.pods("worker")
        world.kubelet.fate = lambda pod: Fate.FAILED if pod.metadata.uid == victim.metadata.uid else Fate.RUNNING
        world.kubelet.look_again()

        async def is_replaced() -> bool:
            found = await world.pods("worker")
            return [pod.metadata.uid for pod in found] != [victim.metadata.uid] and len(found) == 1

        await world.becomes(is_replaced)
        await world.ready(1)
        await world.has_event("DeletedWorkerPod")

    async def test_a_dead_head_is_replaced_under_its_name(self, world: World) -> None:
        await world.apply()
        await world.ready(1)
        (victim,) = await world.pods("head")
        world.kubelet.fate = lambda pod: Fate.FAILED if pod.metadata.uid == victim.metadata.uid else Fate.RUNNING
        world.kubelet.look_again()

        async def is_replaced() -> bool:
            found = await world.pods("head")
            return len(found) == 1 and found[0].metadata.uid != victim.metadata.uid

        await world.becomes(is_replaced)
        assert [pod.name for pod in await world.pods("head")] == ["rc-head"]

    @pytest.mark.parametrize("kind", ["pod", "service"])
    async def test_what_somebody_deletes_comes_back(self, world: World, kind: str) -> None:
        await world.apply()
        await world.ready(1)
        resource, name = (PODS, "rc-head") if kind == "pod" else (SERVICES, "rc-head-svc")
        before = await world.client.get(resource, name, namespace="default")
        await world.client.delete(resource, name, namespace="default")

        async def is_back() -> bool:
            try:
                now = await world.client.get(resource, name, namespace="default")
            except NotFound:
                return False
            return bool(now["metadata"]["uid"] != before["metadata"]["uid"])

        await world.becomes(is_back)


class TestDeletion:
    async def test_a_cluster_that_goes_is_not_brought_back(self, world: World) -> None:
        await world.apply()
        await world.ready(1)
        await world.client.delete(RAY_CLUSTERS, "rc", namespace="default")

        async def is_gone() -> bool:
            try:
                await world.cluster()
            except NotFound:
                return True
            return False

        await world.becomes(is_gone)
        for pod in await world.pods():
            await world.client.delete(PODS, pod.name, namespace="default")
        await world.apply(name="other")
        await world.ready(1, "other")
        assert {pod.metadata.labels[labels.CLUSTER] for pod in await world.pods()} == {"other"}


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


class TestBadInput:
    async def test_an_invalid_spec_is_told_and_starts_nothing(self, world: World) -> None:
        await world.apply(groups=[group("a"), group("a")])
        found = await world.condition("Blocked")
        assert found.reason == "InvalidRayClusterSpec"
        assert "spec.workerGroupSpecs[1].groupName" in found.message
        await world.has_event("InvalidRayClusterSpec")
        assert await world.pods() == []
        await world.patch({"spec": {"workerGroupSpecs": [group("a")]}})
        await world.ready(1)
        assert "Blocked" not in [each.type for each in (await world.cluster()).status.conditions]

    async def test_a_feature_that_is_not_there_yet_is_told(self, world: World) -> None:
        await world.apply(enableInTreeAutoscaling=True)
        found = await world.condition("Blocked")
        assert found.reason == "NotSupportedYet"
        assert "spec.enableInTreeAutoscaling" in found.message
        assert await world.pods() == []

    async def test_others_are_not_affected(self, world: World) -> None:
        await world.apply(name="bad", groups=[group("a"), group("a")])
        await world.apply(name="good")
        await world.ready(1, "good")


class TestRefusals:
    async def test_a_refused_worker_is_told_and_tried_again(self) -> None:
        client, meddler = await embedded()

        def quota(request: Request) -> Exception | None:
            if (
                request.method == "POST"
                and request.path.endswith("/pods")
                and b'"ray.io/node-type":"worker"' in (request.body or b"")
            ):
                return Forbidden("exceeded quota: compute-resources")
            return None

        meddler.before = quota
        async with living(client) as kubelet, operating(client):
            world = World(client, kubelet)
            await world.apply()
            found = await world.condition("ReplicaFailure")
            assert found.reason == "FailedCreateWorkerPod"
            assert "exceeded quota" in found.message
            await world.condition("RayClusterProvisioned", "False")
            await world.has_event("FailedToCreateWorkerPod")
            assert [pod.name for pod in await world.pods()] == ["rc-head"]
            meddler.before = lambda _: None
            await world.ready(1)
            assert "ReplicaFailure" not in [each.type for each in (await world.cluster()).status.conditions]

    async def test_a_service_that_is_refused_keeps_the_pods_waiting(self) -> None:
        client, meddler = await embedded()
        meddler.before = lambda request: (
            Forbidden("no Services today") if request.method == "POST" and request.path.endswith("/services") else None
        )
        async with living(client) as kubelet, operating(client):
            world = World(client, kubelet)
            await world.apply()
            found = await world.condition("ReplicaFailure")
            assert "no Services today" in found.message
            assert await world.pods() == []


class TestFaults:
    async def test_every_second_answer_is_lost_and_nothing_is_made_twice(self) -> None:
        client, meddler = await embedded()
        count = 0
        most = 0

        def lose(request: Request) -> Exception | None:
            nonlocal count
            if request.method == "POST" and request.path.endswith(("/pods", "/services")):
                count += 1
                if count % 2:
                    return TransportError("connection reset")
            return None

        meddler.after = lose
        async with operating(client), living(client) as kubelet:
            world = World(client, kubelet)
            await world.apply(groups=[group(replicas=4)])

            async def holds() -> bool:
                nonlocal most
                most = max(most, len(await world.pods("worker")))
                return await world.is_ready(4)

            await world.becomes(holds)
            assert most == 4
            assert not [reason for reason, _ in await world.events() if reason == "DeletedWorkerPod"]

    async def test_an_operator_that_is_restarted_in_the_middle_goes_on(self) -> None:
        client, _ = await embedded()
        async with living(client) as kubelet:
            world = World(client, kubelet)
            await world.apply(groups=[group(replicas=6)])
            async with operating(client):
                await world.becomes(lambda: _any(world.pods()))
            async with operating(client):
                await world.ready(6)
            await world.scale(3)
            async with operating(client):
                await world.ready(3)


class TestAtRest:
    async def test_a_settled_cluster_is_not_written_to_and_a_new_operator_writes_nothing(self) -> None:
        client, meddler = await embedded()
        async with living(client) as kubelet:
            world = World(client, kubelet)
            async with operating(client):
                await world.apply(groups=[group(replicas=3)])
                await world.ready(3)
            settled = len(meddler.writes)
            async with operating(client, ControllerOptions(resync=0.02)):
                await asyncio.sleep(0.3)  # fifteen resyncs: what is looked for is that nothing happens
            assert meddler.writes[settled:] == []

    async def test_a_bring_up_takes_few_writes(self) -> None:
        client, meddler = await embedded()
        async with living(client) as kubelet, operating(client, ControllerOptions(status_delay=5.0)):
            world = World(client, kubelet)
            await world.apply(groups=[group(replicas=3)])
            await world.ready(3)
            ours = [
                request for request in meddler.writes if request.method == "PATCH" and "/rayclusters/" in request.path
            ]
            assert len(ours) == 1


async def _any(found: Awaitable[list[Pod]]) -> bool:
    return bool(await found)


def test_the_errors_above_are_refusals_of_a_server() -> None:
    assert issubclass(Forbidden, ApiError)
