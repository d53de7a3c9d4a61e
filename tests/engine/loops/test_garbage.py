"""Garbage collection by owner: background, foreground, orphan."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kuberay.engine.loops import GarbageCollector
from tests.engine.apiserver.api import (
    CONFIG_MAPS,
    DEFINITIONS,
    PODS,
    WIDGETS,
    binding,
    config_map,
    definition,
    pod,
    widget,
)

if TYPE_CHECKING:
    from tests.engine.apiserver.api import Answer
    from tests.engine.loops.world import World


def owned_by(owner: Answer, **more: Any) -> list[dict[str, Any]]:
    body = owner.body
    return [
        {
            "apiVersion": body["apiVersion"],
            "kind": body["kind"],
            "name": body["metadata"]["name"],
            "uid": body["metadata"]["uid"],
            **more,
        }
    ]


class TestAnObjectWithoutOwners:
    async def test_goes_when_its_owner_goes(self, world: World) -> None:
        async with world.running(GarbageCollector(world.client)):
            owner = await world.api.create(CONFIG_MAPS, config_map("owner"))
            await world.api.create(CONFIG_MAPS, config_map("child", ownerReferences=owned_by(owner)))
            grandchild = owned_by(await world.api.get(f"{CONFIG_MAPS}/child"))
            await world.api.create(PODS, pod("grandchild", ownerReferences=grandchild))
            await world.api.delete(f"{CONFIG_MAPS}/owner")
            await world.gone(f"{CONFIG_MAPS}/child")
            await world.gone(f"{PODS}/grandchild")

    async def test_goes_when_its_owner_went_before_anybody_looked(self, world: World) -> None:
        owner = await world.api.create(CONFIG_MAPS, config_map("owner"))
        await world.api.create(CONFIG_MAPS, config_map("child", ownerReferences=owned_by(owner)))
        await world.api.delete(f"{CONFIG_MAPS}/owner")
        async with world.running(GarbageCollector(world.client)):
            await world.gone(f"{CONFIG_MAPS}/child")

    async def test_goes_although_another_object_has_its_owners_name(self, world: World) -> None:
        owner = await world.api.create(CONFIG_MAPS, config_map("owner"))
        await world.api.create(CONFIG_MAPS, config_map("child", ownerReferences=owned_by(owner)))
        await world.api.delete(f"{CONFIG_MAPS}/owner")
        await world.api.create(CONFIG_MAPS, config_map("owner"))
        async with world.running(GarbageCollector(world.client)):
            await world.gone(f"{CONFIG_MAPS}/child")
            assert (await world.api.get(f"{CONFIG_MAPS}/owner")).status == 200

    async def test_goes_when_its_owner_was_of_a_custom_kind_that_came_later(self, world: World) -> None:
        async with world.running(GarbageCollector(world.client)):
            await world.api.create(DEFINITIONS, definition())
            owner = await world.api.create(WIDGETS, widget("w"))
            await world.api.create(PODS, pod("child", ownerReferences=owned_by(owner)))
            await world.quiet()
            await world.api.delete(f"{WIDGETS}/w")
            await world.gone(f"{PODS}/child")

    async def test_goes_with_the_definition_of_its_owner(self, world: World) -> None:
        await world.api.create(DEFINITIONS, definition())
        owner = await world.api.create(WIDGETS, widget("w"))
        await world.api.create(PODS, pod("child", ownerReferences=owned_by(owner)))
        async with world.running(GarbageCollector(world.client)):
            await world.until(lambda: _is_watched(world, "pods"))
            await world.api.delete(f"{DEFINITIONS}/widgets.example.com")
            await world.gone(f"{PODS}/child")

    async def test_of_a_cluster_scoped_owner_goes_too(self, world: World) -> None:
        owner = await world.api.create("/api/v1/nodes", {"metadata": {"name": "n"}})
        await world.api.create(CONFIG_MAPS, config_map("child", ownerReferences=owned_by(owner)))
        async with world.running(GarbageCollector(world.client)):
            await world.api.delete("/api/v1/nodes/n")
            await world.gone(f"{CONFIG_MAPS}/child")

    async def test_on_a_node_is_asked_to_stop_and_keeps_its_grace(self, world: World) -> None:
        owner = await world.api.create(CONFIG_MAPS, config_map("owner"))
        await world.api.create(PODS, pod("child", ownerReferences=owned_by(owner)))
        await world.api.create(f"{PODS}/child/binding", binding("child"))
        async with world.running(GarbageCollector(world.client)):
            await world.api.delete(f"{CONFIG_MAPS}/owner")

            async def is_leaving() -> bool:
                return "deletionTimestamp" in (await world.api.get(f"{PODS}/child")).meta

            await world.until(is_leaving)


async def _is_watched(world: World, table: str) -> bool:
    return world.api.storage.watchers(table) > 0


class TestAnObjectThatIsHeld:
    async def test_stays_while_one_owner_is_left_and_forgets_the_other(self, world: World) -> None:
        first = await world.api.create(CONFIG_MAPS, config_map("first"))
        second = await world.api.create(CONFIG_MAPS, config_map("second"))
        owners = owned_by(first) + owned_by(second)
        await world.api.create(CONFIG_MAPS, config_map("child", ownerReferences=owners))
        async with world.running(GarbageCollector(world.client)):
            await world.api.delete(f"{CONFIG_MAPS}/first")

            async def owners_left() -> bool:
                meta = (await world.api.get(f"{CONFIG_MAPS}/child")).meta
                return [one["name"] for one in meta["ownerReferences"]] == ["second"]

            await world.until(owners_left)

    async def test_is_left_alone_while_its_owners_kind_is_unknown(self, world: World) -> None:
        owner = {"apiVersion": "nobody.example.com/v1", "kind": "Ghost", "name": "g", "uid": "u"}
        await world.api.create(CONFIG_MAPS, config_map("child", ownerReferences=[owner]))
        async with world.running(GarbageCollector(world.client)):
            await world.until(lambda: _is_watched(world, "configmaps"))
            await world.quiet()
            assert (await world.api.get(f"{CONFIG_MAPS}/child")).status == 200

    async def test_costs_no_write_at_rest(self, world: World) -> None:
        owner = await world.api.create(CONFIG_MAPS, config_map("owner"))
        await world.api.create(CONFIG_MAPS, config_map("child", ownerReferences=owned_by(owner)))
        before = world.api.storage.version
        async with world.running(GarbageCollector(world.client)):
            await world.until(lambda: _is_watched(world, "configmaps"))
            assert await world.quiet() == before


class TestForeground:
    async def test_the_owner_goes_after_what_blocks_it(self, world: World) -> None:
        owner = await world.api.create(CONFIG_MAPS, config_map("owner"))
        held = owned_by(owner, blockOwnerDeletion=True)
        await world.api.create(CONFIG_MAPS, config_map("child", ownerReferences=held, finalizers=["a.b/c"]))
        async with world.running(GarbageCollector(world.client)):
            await world.api.delete(f"{CONFIG_MAPS}/owner", {"propagationPolicy": "Foreground"})

            async def child_is_leaving() -> bool:
                return "deletionTimestamp" in (await world.api.get(f"{CONFIG_MAPS}/child")).meta

            await world.until(child_is_leaving)
            await world.quiet()
            assert (await world.api.get(f"{CONFIG_MAPS}/owner")).status == 200
            await world.api.merge(f"{CONFIG_MAPS}/child", {"metadata": {"finalizers": None}})
            await world.gone(f"{CONFIG_MAPS}/owner")

    async def test_an_owner_without_dependents_goes_at_once(self, world: World) -> None:
        async with world.running(GarbageCollector(world.client)):
            await world.api.create(CONFIG_MAPS, config_map("owner"))
            await world.api.delete(f"{CONFIG_MAPS}/owner", {"propagationPolicy": "Foreground"})
            await world.gone(f"{CONFIG_MAPS}/owner")


class TestOrphan:
    async def test_dependents_are_let_go_before_the_owner_goes(self, world: World) -> None:
        owner = await world.api.create(CONFIG_MAPS, config_map("owner"))
        for name in ("a", "b"):
            await world.api.create(CONFIG_MAPS, config_map(name, ownerReferences=owned_by(owner)))
        async with world.running(GarbageCollector(world.client)):
            await world.api.delete(f"{CONFIG_MAPS}/owner", {"propagationPolicy": "Orphan"})
            await world.gone(f"{CONFIG_MAPS}/owner")
            await world.quiet()
            for name in ("a", "b"):
                assert "ownerReferences" not in (await world.api.get(f"{CONFIG_MAPS}/{name}")).meta
