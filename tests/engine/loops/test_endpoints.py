"""Which Pods are behind a Service."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kuberay.engine.loops import EndpointSlices
from tests.engine.apiserver.api import PODS, SERVICES, pod

if TYPE_CHECKING:
    from tests.engine.loops.world import World

SLICES = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"


def service(name: str = "s", **spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": name},
        "spec": {"selector": {"app": "x"}, "ports": [{"name": "http", "port": 80, "targetPort": 8080}], **spec},
    }


async def add_pod(world: World, name: str, address: str, *, ready: bool = True, **ports: int) -> None:
    body = pod(name, labels={"app": "x"})
    body["spec"]["nodeName"] = "node"
    body["spec"]["containers"][0]["ports"] = [{"name": key, "containerPort": value} for key, value in ports.items()]
    await world.api.create(PODS, body)
    await report(world, name, address, ready=ready)


async def report(world: World, name: str, address: str, *, ready: bool, phase: str = "Running") -> None:
    condition = {"type": "Ready", "status": "True" if ready else "False"}
    status = {"phase": phase, "podIP": address, "conditions": [condition]}
    await world.api.merge(f"{PODS}/{name}/status", {"status": status})


async def addresses(world: World, name: str = "s") -> list[tuple[str, bool]]:
    """Addresses of a Service and whether they are ready."""
    found = (await world.api.get(SLICES, labelSelector=f"kubernetes.io/service-name={name}")).body["items"]
    return sorted(
        (endpoint["addresses"][0], endpoint["conditions"]["ready"])
        for one in found
        for endpoint in one.get("endpoints", ())
    )


async def become(world: World, expected: list[tuple[str, bool]]) -> None:
    async def is_so() -> bool:
        return await addresses(world) == expected

    await world.until(is_so)


class TestAService:
    async def test_has_the_addresses_of_its_ready_pods(self, world: World) -> None:
        async with world.running(EndpointSlices(world.client)):
            await world.api.create(SERVICES, service())
            await add_pod(world, "a", "10.0.0.1")
            await add_pod(world, "b", "10.0.0.2", ready=False)
            await become(world, [("10.0.0.1", True), ("10.0.0.2", False)])

    async def test_may_publish_addresses_that_are_not_ready(self, world: World) -> None:
        async with world.running(EndpointSlices(world.client)):
            await world.api.create(SERVICES, service(publishNotReadyAddresses=True, clusterIP="None"))
            await add_pod(world, "a", "10.0.0.1", ready=False)
            await become(world, [("10.0.0.1", True)])

    async def test_follows_its_pods(self, world: World) -> None:
        async with world.running(EndpointSlices(world.client)):
            await world.api.create(SERVICES, service())
            await add_pod(world, "a", "10.0.0.1", ready=False)
            await become(world, [("10.0.0.1", False)])
            await report(world, "a", "10.0.0.1", ready=True)
            await become(world, [("10.0.0.1", True)])
            await world.api.delete(f"{PODS}/a")
            await become(world, [("10.0.0.1", False)])
            await world.api.delete(f"{PODS}/a", {"gracePeriodSeconds": 0})
            await become(world, [])

    async def test_leaves_out_pods_that_have_ended(self, world: World) -> None:
        async with world.running(EndpointSlices(world.client)):
            await world.api.create(SERVICES, service())
            await add_pod(world, "a", "10.0.0.1")
            await become(world, [("10.0.0.1", True)])
            await report(world, "a", "10.0.0.1", ready=False, phase="Failed")
            await become(world, [])

    async def test_resolves_the_name_of_a_port_on_each_pod(self, world: World) -> None:
        async with world.running(EndpointSlices(world.client)):
            await world.api.create(SERVICES, service(ports=[{"port": 80, "targetPort": "web"}]))
            await add_pod(world, "a", "10.0.0.1", web=8080)
            await add_pod(world, "b", "10.0.0.2", web=9090)
            await become(world, [("10.0.0.1", True), ("10.0.0.2", True)])
            found = (await world.api.get(SLICES)).body["items"]
            ports = {one["endpoints"][0]["addresses"][0]: one["ports"][0]["port"] for one in found if one["endpoints"]}
            assert ports == {"10.0.0.1": 8080, "10.0.0.2": 9090}

    async def test_without_a_selector_keeps_the_slices_of_its_user(self, world: World) -> None:
        own = {"metadata": {"name": "own", "labels": {"kubernetes.io/service-name": "s"}}, "addressType": "IPv4"}
        async with world.running(EndpointSlices(world.client)):
            await world.api.create(SLICES, {**own, "endpoints": [{"addresses": ["10.9.9.9"]}]})
            await world.api.create(SERVICES, service(selector={}))
            await world.quiet()
            assert await world.api.names(SLICES) == ["own"]

    async def test_owns_its_slices(self, world: World) -> None:
        async with world.running(EndpointSlices(world.client)):
            created = await world.api.create(SERVICES, service())
            names = await world.until(lambda: world.api.names(SLICES))
            meta = (await world.api.get(f"{SLICES}/{names[0]}")).meta
            assert meta["ownerReferences"][0]["uid"] == created.meta["uid"]

    async def test_costs_no_write_at_rest(self, world: World) -> None:
        async with world.running(EndpointSlices(world.client)):
            await world.api.create(SERVICES, service())
            await add_pod(world, "a", "10.0.0.1")
            await become(world, [("10.0.0.1", True)])
            before = await world.quiet()
            await world.api.merge(f"{PODS}/a", {"metadata": {"annotations": {"x": "y"}}})
            assert await world.quiet() == before + 1
