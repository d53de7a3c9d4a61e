"""Deleting a namespace deletes what is in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kuberay.engine.loops import Namespaces
from tests.engine.apiserver.api import DEFINITIONS, config_map, definition, pod, widget

if TYPE_CHECKING:
    from tests.engine.loops.world import World

HERE = "/api/v1/namespaces/n"
WIDGETS_HERE = "/apis/example.com/v1/namespaces/n/widgets"


class TestANamespace:
    async def test_goes_with_everything_in_it(self, world: World) -> None:
        await world.api.create("/api/v1/namespaces", {"metadata": {"name": "n"}})
        await world.api.create(DEFINITIONS, definition())
        await world.api.create(f"{HERE}/pods", pod("p"))
        await world.api.create(f"{HERE}/configmaps", config_map("c"))
        await world.api.create(WIDGETS_HERE, widget("w"))
        async with world.running(Namespaces(world.client)):
            await world.api.delete(HERE)
            await world.gone(HERE)
        assert [entry.name for table in ("pods", "configmaps") for entry in world.api.storage.entries(table, "n")] == []
        assert world.api.storage.entries("widgets.example.com") == []

    async def test_waits_for_what_has_to_finish(self, world: World) -> None:
        await world.api.create("/api/v1/namespaces", {"metadata": {"name": "n"}})
        await world.api.create(f"{HERE}/configmaps", config_map("c", finalizers=["a.b/c"]))
        async with world.running(Namespaces(world.client)):
            await world.api.delete(HERE)

            async def is_leaving() -> bool:
                return "deletionTimestamp" in (await world.api.get(f"{HERE}/configmaps/c")).meta

            await world.until(is_leaving)
            assert (await world.api.get(HERE)).body["status"] == {"phase": "Terminating"}
            await world.api.merge(f"{HERE}/configmaps/c", {"metadata": {"finalizers": None}})
            await world.gone(HERE)

    async def test_that_nobody_deletes_is_left_alone(self, world: World) -> None:
        async with world.running(Namespaces(world.client)):
            assert await world.quiet() == world.api.storage.version
            assert (await world.api.get("/api/v1/namespaces/default")).status == 200
