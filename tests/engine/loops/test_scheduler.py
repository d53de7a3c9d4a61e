"""Putting Pods on nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kuberay.engine.loops import Scheduler
from tests.engine.apiserver.api import PODS, pod

if TYPE_CHECKING:
    from tests.engine.loops.world import World

NODES = "/api/v1/nodes"


async def add_node(world: World, name: str, ready: str = "True", **labels: str) -> None:
    await world.api.create(NODES, {"metadata": {"name": name, "labels": labels}})
    await world.api.merge(f"{NODES}/{name}/status", {"status": {"conditions": [{"type": "Ready", "status": ready}]}})


async def node_of(world: World, name: str) -> Any:
    return (await world.api.get(f"{PODS}/{name}")).body["spec"].get("nodeName")


async def why_not(world: World, name: str) -> Any:
    conditions = (await world.api.get(f"{PODS}/{name}")).body["status"].get("conditions", [])
    return next((one["message"] for one in conditions if one.get("reason") == "Unschedulable"), None)


class TestAPod:
    async def test_is_bound_to_a_ready_node(self, world: World) -> None:
        await add_node(world, "a", ready="False")
        await add_node(world, "b")
        async with world.running(Scheduler(world.client)):
            await world.api.create(PODS, pod("p"))
            assert await world.until(lambda: node_of(world, "p")) == "b"

    async def test_waits_for_a_node_and_says_so_once(self, world: World) -> None:
        async with world.running(Scheduler(world.client)):
            await world.api.create(PODS, pod("p"))
            assert await world.until(lambda: why_not(world, "p")) == "no nodes available to schedule pods"
            before = await world.quiet()
            await add_node(world, "a", ready="False")
            reason = "0/1 nodes are available: 1 node(s) were not ready."

            async def is_told() -> bool:
                return bool(await why_not(world, "p") == reason)

            await world.until(is_told)
            assert await world.quiet() == before + 3
            await world.api.merge(
                f"{NODES}/a/status", {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
            )
            assert await world.until(lambda: node_of(world, "p")) == "a"

    async def test_goes_only_where_its_selector_lets_it(self, world: World) -> None:
        await add_node(world, "a")
        picky = pod("p")
        picky["spec"]["nodeSelector"] = {"gpu": "yes"}
        async with world.running(Scheduler(world.client)):
            await world.api.create(PODS, picky)
            assert "didn't match Pod's node affinity/selector" in await world.until(lambda: why_not(world, "p"))
            await add_node(world, "b", gpu="yes")
            assert await world.until(lambda: node_of(world, "p")) == "b"

    async def test_of_another_scheduler_is_left_alone(self, world: World) -> None:
        await add_node(world, "a")
        other = pod("other")
        other["spec"]["schedulerName"] = "volcano"
        async with world.running(Scheduler(world.client)):
            await world.api.create(PODS, other)
            await world.api.create(PODS, pod("ours"))
            await world.until(lambda: node_of(world, "ours"))
            await world.quiet()
            assert await node_of(world, "other") is None

    async def test_bound_is_told_so_in_a_condition(self, world: World) -> None:
        await add_node(world, "a")
        async with world.running(Scheduler(world.client)):
            await world.api.create(PODS, pod("p"))
            await world.until(lambda: node_of(world, "p"))
        conditions = (await world.api.get(f"{PODS}/p")).body["status"]["conditions"]
        assert [(one["type"], one["status"]) for one in conditions] == [("PodScheduled", "True")]


class TestAHeartbeat:
    async def test_of_a_node_causes_no_write(self, world: World) -> None:
        await add_node(world, "a", ready="False")
        async with world.running(Scheduler(world.client)):
            await world.api.create(PODS, pod("p"))
            await world.until(lambda: why_not(world, "p"))
            before = await world.quiet()
            beat = [{"type": "Ready", "status": "False", "lastHeartbeatTime": "2026-05-01T12:00:10Z"}]
            await world.api.merge(f"{NODES}/a/status", {"status": {"conditions": beat}})
            assert await world.quiet() == before + 1
