"""What the controller makes of faults: refused and lost writes, and how little it writes when all is well."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson
import pytest

from kuberay.api.core import Pod, Service
from kuberay.api.v1 import RayCluster
from kuberay.build import labels
from kuberay.controllers.kinds import RAY_CLUSTERS
from kuberay.controllers.options import ControllerOptions
from kuberay.controllers.raycluster import controller as controllers
from kuberay.controllers.raycluster.controller import RayClusterController
from kuberay.controllers.raycluster.decide import decide
from kuberay.controllers.raycluster.health import created_at
from kuberay.controllers.raycluster.scaling import label_number
from kuberay.kube.errors import Forbidden, TransportError
from kuberay.kube.identity import Key
from kuberay.kube.recorder import Recorder
from kuberay.kube.resources import PODS, SECRETS, SERVICES
from tests.build.clusters import group
from tests.controllers.embedded import embedded
from tests.operator.world import World, living, operating

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from kuberay.controllers.plan import Plan
    from kuberay.controllers.raycluster.observe import Seen
    from kuberay.kube.client import Client
    from kuberay.kube.controller import Result
    from kuberay.kube.transport import Request
    from tests.controllers.embedded import Meddler


def is_create(request: Request, plural: str, text: bytes = b"") -> bool:
    return request.method == "POST" and request.path.endswith(f"/{plural}") and text in (request.body or b"")


@pytest.fixture
async def server() -> tuple[Client, Meddler]:
    return await embedded()


class TestRefusals:
    @pytest.fixture
    async def world(self, server: tuple[Client, Meddler]) -> AsyncIterator[World]:
        client, _ = server
        async with living(client) as world, operating(client, world.namespace):
            yield world

    async def test_a_refused_worker_is_told_and_tried_again(self, world: World, server: tuple[Client, Meddler]) -> None:
        _, meddler = server
        meddler.before = lambda request: (
            Forbidden("exceeded quota: compute-resources")
            if is_create(request, "pods", b'"ray.io/node-type":"worker"')
            else None
        )
        await world.apply()
        found = await world.condition("ReplicaFailure")
        assert found.reason == "FailedCreateWorkerPod"
        assert "exceeded quota" in found.message
        await world.condition("RayClusterProvisioned", "False")
        assert "exceeded quota" in await world.has_event("FailedToCreateWorkerPod")
        assert [pod.name for pod in await world.pods()] == ["rc-head"]
        meddler.before = lambda _: None
        await world.ready(1)
        assert "ReplicaFailure" not in [each.type for each in (await world.cluster()).status.conditions]

    async def test_a_refused_head_is_told_and_nothing_is_made_for_it(
        self, world: World, server: tuple[Client, Meddler]
    ) -> None:
        """raycluster EX-47."""
        _, meddler = server
        meddler.before = lambda request: Forbidden("no heads today") if is_create(request, "pods") else None
        await world.apply()
        found = await world.condition("ReplicaFailure")
        assert found.reason == "FailedCreateHeadPod"
        assert "no heads today" in found.message
        assert "no heads today" in await world.has_event("FailedToCreateHeadPod")
        assert await world.pods() == []

    async def test_a_refusal_is_forgotten_when_nobody_wants_the_thing_any_more(
        self, world: World, server: tuple[Client, Meddler]
    ) -> None:
        _, meddler = server
        meddler.before = lambda request: (
            Forbidden("exceeded quota") if is_create(request, "pods", b'"ray.io/node-type":"worker"') else None
        )
        await world.apply()
        await world.condition("ReplicaFailure")
        await world.scale(0)
        await world.ready(0)
        assert "ReplicaFailure" not in [each.type for each in (await world.cluster()).status.conditions]

    async def test_one_refused_group_does_not_keep_another_waiting(
        self, world: World, server: tuple[Client, Meddler]
    ) -> None:
        _, meddler = server
        meddler.before = lambda request: (
            Forbidden("no GPUs left") if is_create(request, "pods", b'"ray.io/group":"a"') else None
        )
        await world.apply(groups=[group("a"), group("b", replicas=2)])

        async def has_the_others() -> bool:
            return len(await world.pods("worker")) == 2

        await world.becomes(has_the_others)
        assert {pod.metadata.labels["ray.io/group"] for pod in await world.pods("worker")} == {"b"}

    async def test_a_service_that_is_refused_keeps_the_pods_waiting(
        self, world: World, server: tuple[Client, Meddler]
    ) -> None:
        """raycluster EX-04."""
        _, meddler = server
        meddler.before = lambda request: Forbidden("no Services today") if is_create(request, "services") else None
        await world.apply()
        found = await world.condition("ReplicaFailure")
        assert found.reason == "FailedCreateService"
        assert "no Services today" in found.message
        assert await world.pods() == []


class TestWhatIsToldOnce:
    async def test_is_forgotten_with_what_it_was_about(self, server: tuple[Client, Meddler]) -> None:
        """Strangers may come and go for as long as a cluster lives."""
        client, _ = server
        meta = {"name": "x", "labels": {labels.CLUSTER: "rc", labels.NODE_TYPE: "worker"}}
        spec = {"containers": [{"name": "c", "image": "i"}]}
        stranger = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}
        async with living(client) as world:
            options = ControllerOptions(resync=None, status_delay=0)
            controller = RayClusterController(client, Recorder(client, "test"), options)
            key = Key(world.namespace, "rc")

            async def remembered() -> int:
                await fill(controller, client)
                for _ in range(6):
                    await controller.reconcile(key)
                return len(controller._memory[key].reported)

            await world.apply(groups=[])
            await client.create(PODS, stranger, namespace=world.namespace)
            assert await remembered() == 1
            await client.delete(PODS, "x", namespace=world.namespace, grace_period_seconds=0)
            assert await remembered() == 0


class TestARuleThatFails:
    @pytest.mark.slow  # tracebacks with all that is in them are slow to print
    async def test_is_told_troubles_nobody_else_and_is_forgotten_when_it_is_mended(
        self, server: tuple[Client, Meddler], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        failing = {"nonsense"}

        def fail(seen: Seen, *given: Any) -> Plan:
            if seen.cluster.name in failing:
                raise KeyError("the unforeseen")
            return decide(seen, *given)

        monkeypatch.setattr(controllers, "decide", fail)
        client, _ = server
        async with living(client) as world, operating(client, world.namespace):
            await world.apply("nonsense")
            told = await world.has_event("InternalError")
            assert "cannot make sense of this RayCluster (KeyError)" in told
            assert "the unforeseen" not in told
            blocked = await world.condition("Blocked", name="nonsense")
            assert (blocked.reason, "KeyError" in blocked.message) == ("InternalError", True)
            await world.apply()
            await world.ready(1)
            failing.clear()
            await world.ready(1, "nonsense")
            assert "Blocked" not in [each.type for each in (await world.cluster("nonsense")).status.conditions]


class TestLostAnswers:
    async def test_nothing_is_made_twice(self, server: tuple[Client, Meddler]) -> None:
        client, meddler = server
        lost: set[bytes] = set()

        def lose_the_first(request: Request) -> Exception | None:
            if is_create(request, "pods") or is_create(request, "services"):
                body = request.body or b""
                if body not in lost:
                    lost.add(body)
                    return TransportError("connection reset")
            return None

        meddler.after = lose_the_first
        async with living(client) as world, operating(client, world.namespace):
            await world.apply(groups=[group(replicas=4)])
            await world.ready(4)
            assert len(lost) == 6
            assert not [reason for reason, _ in await world.events() if reason == "DeletedWorkerPod"]
            made = {orjson.loads(body)["metadata"]["name"] for body in lost}
            assert len(made) == 6


def replica_index(pod: Pod) -> int:
    return label_number(pod, labels.REPLICA_INDEX)


@dataclass(frozen=True)
class Behind:
    """A controller whose Pods are older than its clusters."""

    world: World
    controller: RayClusterController
    gone: Pod
    since: str
    left: set[str]

    def tell(self) -> None:
        """The news that one is gone."""
        self.controller.pods.removed(self.gone, self.since)

    async def look(self) -> Result | None:
        return await self.controller.reconcile(Key(self.world.namespace, "rc"))

    async def alive(self) -> set[str]:
        return {pod.name for pod in await self.world.pods("worker") if not pod.is_leaving}

    @staticmethod
    def once(path: str, happens: Callable[[], None]) -> Callable[[Request], None]:
        """Let something happen while the first request for a path is under way."""
        left = [happens]

        def meddle(request: Request) -> None:
            if left and request.path.endswith(path):
                left.pop()()

        return meddle


class TestFence:
    """A smaller number of replicas is known before the news that Pods are already gone."""

    @asynccontextmanager
    async def behind(self, server: tuple[Client, Meddler]) -> AsyncIterator[Behind]:
        """A controller that knows that two of three workers shall be left, and not that one is gone already.

        The Secret of the cluster is the user's own: it is looked at before anything is done.
        """
        client, _ = server
        async with living(client) as world:
            secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "rc"}}
            await client.create(SECRETS, secret, namespace=world.namespace)
            async with operating(client, world.namespace):
                await world.apply(groups=[group(replicas=3)], authOptions={"mode": "token"})
                await world.ready(3)
            controller = RayClusterController(client, Recorder(client, "test"), ControllerOptions())
            await fill(controller, client)
            await controller.reconcile(Key(world.namespace, "rc"))
            # The oldest has most to lose: somebody who does not know better chooses another.
            gone, *left = sorted(await world.pods("worker"), key=lambda pod: (created_at(pod), replica_index(pod)))
            await client.delete(PODS, gone.name, namespace=world.namespace, grace_period_seconds=0)
            since = (await client.list(PODS, namespace=world.namespace)).resource_version
            await world.scale(2)
            controller.clusters.applied(await world.cluster())
            yield Behind(world, controller, gone, since, {pod.name for pod in left})

    async def test_no_healthy_pod_is_chosen_on_old_knowledge(self, server: tuple[Client, Meddler]) -> None:
        client, _ = server
        async with self.behind(server) as scene:
            result = await scene.look()
            assert result is not None
            assert result.requeue_after is not None
            assert result.requeue_after <= 0.5
            assert await scene.alive() == scene.left

            await fill(scene.controller, client)
            await scene.look()
            assert await scene.alive() == scene.left

    async def test_news_that_come_while_the_server_is_asked_do_not_speak_for_an_older_plan(
        self, server: tuple[Client, Meddler]
    ) -> None:
        _, meddler = server
        async with self.behind(server) as scene:
            meddler.after = scene.once("/pods", scene.tell)
            await scene.look()
            assert scene.gone.name not in [pod.name for pod in scene.controller.pods]
            assert await scene.alive() == scene.left

    async def test_nor_do_those_that_come_while_something_else_is_looked_at(
        self, server: tuple[Client, Meddler]
    ) -> None:
        _, meddler = server
        async with self.behind(server) as scene:
            version = (await scene.world.cluster()).metadata.resource_version or ""

            def tell() -> None:
                scene.tell()
                scene.controller.pods.passed(version)

            meddler.after = scene.once("/secrets/rc", tell)
            await scene.look()
            assert scene.controller.pods.has_passed(version)
            assert await scene.alive() == scene.left

    async def test_one_look_at_the_server_is_enough_when_nothing_is_missing(
        self, server: tuple[Client, Meddler]
    ) -> None:
        client, meddler = server
        async with living(client) as world:
            async with operating(client, world.namespace):
                await world.apply(groups=[group(replicas=3)])
                await world.ready(3)
            controller = RayClusterController(client, Recorder(client, "test"), ControllerOptions())
            await fill(controller, client)
            await world.scale(2)
            controller.clusters.applied(await world.cluster())
            reads = len(meddler.reads)
            await controller.reconcile(Key(world.namespace, "rc"))
            assert len(meddler.reads) == reads + 1

            async def two_are_left() -> bool:
                return len(await world.pods("worker")) == 2

            await world.becomes(two_are_left)


class TestAtRest:
    async def test_neither_a_resync_nor_a_new_operator_writes_anything(self, server: tuple[Client, Meddler]) -> None:
        client, meddler = server
        async with living(client) as world:
            async with operating(client, world.namespace):
                await world.apply(groups=[group(replicas=3)])
                await world.ready(3)
            settled = len(meddler.writes)
            async with operating(client, world.namespace, ControllerOptions(resync=0.02)):
                await asyncio.sleep(0.3)  # fifteen resyncs: what is looked for is that nothing happens
            assert meddler.writes[settled:] == []

    async def test_objects_of_others_that_serve_are_not_asked_for_again(self, server: tuple[Client, Meddler]) -> None:
        client, meddler = server
        async with living(client) as world:
            secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "rc"}}
            await client.create(SECRETS, secret, namespace=world.namespace)
            async with operating(client, world.namespace, ControllerOptions(resync=0.02)):
                await world.apply(authOptions={"mode": "token"})
                await world.ready(1)
                calls = [*meddler.reads, *meddler.writes]
                await asyncio.sleep(0.3)  # fifteen resyncs: what is looked for is that nothing happens
                assert [*meddler.reads, *meddler.writes] == calls

    async def test_a_bring_up_takes_one_status_write(self, server: tuple[Client, Meddler]) -> None:
        client, meddler = server
        async with living(client) as world, operating(client, world.namespace, ControllerOptions(status_delay=5.0)):
            await world.apply(groups=[group(replicas=3)])
            await world.ready(3)
            assert status_writes(meddler) == 1

    @pytest.mark.parametrize("replicas", [6, 1])
    async def test_scaling_takes_one_more_however_long_it_may_be_held_back(
        self, server: tuple[Client, Meddler], replicas: int
    ) -> None:
        client, meddler = server
        async with living(client) as world, operating(client, world.namespace, ControllerOptions(status_delay=600.0)):
            await world.apply(groups=[group(replicas=3)])
            await world.ready(3)
            await world.scale(replicas)
            await world.ready(replicas)
            assert status_writes(meddler) == 2


class TestHowLongAStatusIsHeldBack:
    """Its caches follow nothing here, so no Pod is ever seen to be ready, and nothing is urgent."""

    async def written_at(self, server: tuple[Client, Meddler], looks: list[float]) -> list[float]:
        """At which of some moments, at which the cluster is looked at, its status is written."""
        client, meddler = server
        moments: list[float] = []
        now = 0.0
        async with living(client) as world:
            await world.apply(groups=[group(replicas=3)])
            options = ControllerOptions(status_delay=3.0, longest_status_delay=10.0)
            controller = RayClusterController(client, Recorder(client, "test"), options, now=lambda: now)
            await fill(controller, client)
            for now in looks:
                before = status_writes(meddler)
                await controller.reconcile(Key(world.namespace, "rc"))
                moments += [now] * (status_writes(meddler) - before)
        return moments

    async def test_until_the_pods_are_quiet(self, server: tuple[Client, Meddler]) -> None:
        assert await self.written_at(server, [0.0, 2.0, 4.0, 7.0, 9.0]) == [7.0]

    async def test_but_not_for_long(self, server: tuple[Client, Meddler]) -> None:
        assert await self.written_at(server, [float(now) for now in range(0, 16, 2)]) == [10.0]


def status_writes(meddler: Meddler) -> int:
    """How often the status of a cluster was written."""
    return sum(each.method == "PATCH" and each.path.endswith("/rayclusters/rc/status") for each in meddler.writes)


async def fill(controller: RayClusterController, client: Client) -> None:
    """Bring the caches of a controller that follows nothing up to date."""
    clusters = await client.list(RAY_CLUSTERS, type=RayCluster)
    pods = await client.list(PODS, type=Pod)
    services = await client.list(SERVICES, type=Service)
    controller.clusters.replaced(clusters.items, clusters.resource_version)
    controller.pods.replaced(pods.items, pods.resource_version)
    controller.services.replaced(services.items, services.resource_version)
