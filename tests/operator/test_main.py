"""What stands around the controllers: health, readiness, metrics, leading, and a clean end."""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING

import pytest

from kuberay.api.gates import FeatureGates, Gate
from kuberay.controllers.kinds import RAY_CLUSTERS
from kuberay.controllers.options import ControllerOptions
from kuberay.engine.apiserver import ApiServer, InProcessTransport, MemoryStorage
from kuberay.kube.client import Client
from kuberay.kube.election import LeaseLost
from kuberay.kube.leadership import Leadership
from kuberay.kube.metrics import Metrics
from kuberay.kube.resources import NAMESPACES, PODS
from kuberay.operator.main import Operator, run
from kuberay.operator.settings import Settings
from tests.build.clusters import cluster, group
from tests.controllers.embedded import embedded

if TYPE_CHECKING:
    from collections.abc import Callable

    from kuberay.kube.transport import Request, Response, Transport


class TestStopping:
    @pytest.mark.timeout(20)
    async def test_it_ends_when_it_is_told_to(self) -> None:
        client, _ = await embedded()
        stop = asyncio.Event()
        running = asyncio.create_task(run(client, Settings(health_address=None), stop=stop))
        await asyncio.sleep(0)
        stop.set()
        await running

    @pytest.mark.timeout(20)
    async def test_it_ends_although_the_server_knows_no_ray_clusters(self) -> None:
        client = Client(InProcessTransport(ApiServer(MemoryStorage())))
        stop = asyncio.Event()
        running = asyncio.create_task(run(client, Settings(health_address=None), stop=stop))
        await asyncio.sleep(0.05)
        assert not running.done()
        stop.set()
        await running

    async def test_a_health_address_that_is_taken_is_an_error(self) -> None:
        client, _ = await embedded()
        with socket.create_server(("127.0.0.1", 0)) as taken:
            address = f"127.0.0.1:{taken.getsockname()[1]}"
            with pytest.raises(OSError, match="address already in use"):
                await run(client, Settings(health_address=address), stop=asyncio.Event())


class Crowded:
    """A transport that knows how many Pods it was asked to make at a time."""

    def __init__(self, inner: Transport) -> None:
        self._inner = inner
        self.stream, self.close = inner.stream, inner.close
        self.under_way = self.most = 0

    async def send(self, request: Request, *, timeout: float | None = None) -> Response:
        if request.method != "POST" or not request.path.endswith("/pods"):
            return await self._inner.send(request, timeout=timeout)
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        for _ in range(20):  # long enough for others to come
            await asyncio.sleep(0)
        try:
            return await self._inner.send(request, timeout=timeout)
        finally:
            self.under_way -= 1


class TestWrites:
    async def test_all_namespaces_together_have_no_more_of_them_under_way_than_was_said(self) -> None:
        client, _ = await embedded()
        for namespace in ("a", "b"):
            await client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
            manifest = cluster(workerGroupSpecs=[group(replicas=20, maxReplicas=20)]).to_dict()
            manifest["metadata"]["namespace"] = namespace
            await client.create(RAY_CLUSTERS, manifest, namespace=namespace)
        crowded, stop = Crowded(client.transport), asyncio.Event()
        options = ControllerOptions(status_delay=0.0, writes_in_flight=3)
        settings = Settings(health_address=None, watch_namespaces=("a", "b"), controllers=options)
        operator = Operator(Client(crowded), settings)
        running = asyncio.create_task(operator.run(stop))
        await until(lambda: sum(len(each.pods) for each in operator.controllers) == 42)
        stop.set()
        await running
        assert crowded.most == 3


class TestCaches:
    @pytest.mark.parametrize("namespaces", [(), ("a", "b")])
    async def test_all_controllers_of_a_namespace_share_one_of_ray_clusters(self, namespaces: tuple[str, ...]) -> None:
        client, transport = await embedded()
        options = ControllerOptions(gates=FeatureGates({Gate.RAY_CLUSTER_NETWORK_POLICY: True}))
        stop = asyncio.Event()
        operator = Operator(client, Settings(health_address=None, watch_namespaces=namespaces, controllers=options))
        running = asyncio.create_task(operator.run(stop))
        await until(lambda: not operator.not_ready())
        stop.set()
        await running
        watched = [request.path for request in transport.streams if request.path.endswith("/rayclusters")]
        assert len(watched) == len(namespaces or ("all",))


class Chosen(Leadership):
    """A leader by decree."""

    def __init__(self) -> None:
        self.has_won, self.has_lost = asyncio.Event(), asyncio.Event()
        self.version = "1"

    async def won(self) -> str:
        await self.has_won.wait()
        return self.version

    async def lost(self) -> str:
        await self.has_lost.wait()
        return "it was taken away"

    @property
    def holds(self) -> bool:
        return self.has_won.is_set() and not self.has_lost.is_set()


class TestLeading:
    SETTINGS = Settings(health_address=None, controllers=ControllerOptions(status_delay=0.0))

    async def test_a_standby_knows_everything_and_writes_nothing(self) -> None:
        client, transport = await embedded()
        await client.create(RAY_CLUSTERS, cluster().to_dict(), namespace="default")
        transport.writes.clear()
        leadership, stop = Chosen(), asyncio.Event()
        operator = Operator(client, self.SETTINGS, leadership=leadership)
        running = asyncio.create_task(operator.run(stop))
        await until(lambda: not operator.not_ready())
        assert transport.writes == []
        assert not operator.leads
        stop.set()
        await running
        assert transport.writes == []

    async def test_it_begins_to_work_when_it_has_won(self) -> None:
        client, _ = await embedded()
        await client.create(RAY_CLUSTERS, cluster().to_dict(), namespace="default")
        leadership, stop = Chosen(), asyncio.Event()
        operator = Operator(client, self.SETTINGS, leadership=leadership)
        running = asyncio.create_task(operator.run(stop))
        await until(lambda: not operator.not_ready())
        leadership.has_won.set()
        await until(lambda: len(operator.controllers[0].pods) > 0)
        stop.set()
        await running

    @pytest.mark.slow
    async def test_it_does_not_act_on_caches_that_are_older_than_its_lease(self) -> None:
        client, transport = await embedded()
        await client.create(RAY_CLUSTERS, cluster().to_dict(), namespace="default")
        leadership, stop = Chosen(), asyncio.Event()
        operator = Operator(client, self.SETTINGS, leadership=leadership)
        running = asyncio.create_task(operator.run(stop))
        await until(lambda: not operator.not_ready())
        transport.writes.clear()
        transport.reads.clear()
        later = await client.create(
            PODS,
            {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
            namespace="default",
        )
        leadership.version = later["metadata"]["resourceVersion"]
        leadership.has_won.set()
        await until(lambda: len(transport.writes) > 1)
        listed = [request.path for request in transport.reads]
        assert any(path.endswith("/pods") for path in listed)
        stop.set()
        await running

    async def test_whoever_loses_stops_at_once(self) -> None:
        client, _ = await embedded()
        leadership = Chosen()
        operator = Operator(client, self.SETTINGS, leadership=leadership)
        running = asyncio.create_task(operator.run(asyncio.Event()))
        leadership.has_won.set()
        await until(lambda: not operator.not_ready())
        leadership.has_lost.set()
        with pytest.raises(LeaseLost, match="it was taken away"):
            await running


class TestMetrics:
    async def test_they_are_served_under_controller_runtimes_names(self) -> None:
        client, _ = await embedded()
        metrics, stop = Metrics(), asyncio.Event()
        settings = Settings(health_address=None, cluster_metrics=True)
        operator = Operator(client, settings, leadership=Chosen(), metrics=metrics)
        running = asyncio.create_task(operator.run(stop))
        await until(lambda: not operator.not_ready())
        text = (await metrics.render()).decode()
        assert 'workqueue_depth{controller="raycluster",name="raycluster",priority="0"} 0.0' in text
        assert 'controller_runtime_max_concurrent_reconciles{controller="raycluster"} 8.0' in text
        assert 'leader_election_master_status{name="ray-operator-leader"} 0.0' in text
        stop.set()
        await running

    async def test_namespaces_are_measured_together(self) -> None:
        client, _ = await embedded()
        metrics = Metrics()
        Operator(client, Settings(health_address=None, watch_namespaces=("a", "b")), metrics=metrics)
        text = (await metrics.render()).decode()
        lines = [line for line in text.splitlines() if line.startswith(("workqueue_depth", "workqueue_adds"))]
        assert lines == [
            'workqueue_depth{controller="raycluster",name="raycluster",priority="0"} 0.0',
            'workqueue_adds_total{controller="raycluster",name="raycluster"} 0.0',
        ]
        assert 'controller_runtime_max_concurrent_reconciles{controller="raycluster"} 8.0' in text


class TestOpenShift:
    async def test_clusters_do_not_wait_for_routes_that_the_server_does_not_serve(self) -> None:
        client, _ = await embedded()
        await client.create(RAY_CLUSTERS, cluster().to_dict(), namespace="default")
        stop = asyncio.Event()
        options = ControllerOptions(status_delay=0.0, is_openshift=True)
        operator = Operator(client, Settings(health_address=None, controllers=options))
        running = asyncio.create_task(operator.run(stop))
        await until(lambda: len(operator.controllers[0].pods) > 0)
        assert operator.not_ready() == []
        stop.set()
        await running


async def until(holds: Callable[[], bool]) -> None:
    """Wait until something is so."""
    async with asyncio.timeout(20):
        while not holds():  # noqa: ASYNC110 (what is waited for happens in other tasks)
            await asyncio.sleep(0.005)


async def test_both_controllers_are_measured_under_the_names_of_controller_runtime() -> None:
    client, _ = await embedded()
    metrics = Metrics()
    gates = FeatureGates({Gate.RAY_CLUSTER_NETWORK_POLICY: True})
    Operator(client, Settings(health_address=None, controllers=ControllerOptions(gates=gates)), metrics=metrics)
    text = (await metrics.render()).decode()
    for controller in ("raycluster", "networkpolicy"):
        assert f'controller_runtime_max_concurrent_reconciles{{controller="{controller}"}}' in text
        assert f'workqueue_adds_total{{controller="{controller}",name="{controller}"}}' in text
