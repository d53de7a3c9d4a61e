"""Keeping volume claims that are in use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kuberay.engine.loops import Claims
from tests.engine.apiserver.api import PODS, pod

if TYPE_CHECKING:
    from tests.engine.loops.world import World

CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"


async def add_claim(world: World) -> None:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    await world.api.create(CLAIMS, {"metadata": {"name": "c"}, "spec": spec})


async def add_user(world: World) -> None:
    user = pod("p")
    user["spec"]["volumes"] = [
        {"name": "v", "persistentVolumeClaim": {"claimName": "c"}},
        {"name": "e", "emptyDir": {}},
    ]
    await world.api.create(PODS, user)


class TestAClaim:
    async def test_that_nobody_uses_goes_when_it_is_deleted(self, world: World) -> None:
        await add_claim(world)
        async with world.running(Claims(world.client)):
            await world.api.delete(f"{CLAIMS}/c")
            await world.gone(f"{CLAIMS}/c")

    async def test_that_nobody_deletes_stays_as_it_is(self, world: World) -> None:
        await add_claim(world)
        async with world.running(Claims(world.client)):
            before = await world.quiet()
            await add_user(world)
            assert await world.quiet() == before + 1

    async def test_in_use_stays_until_its_last_pod_has_gone(self, world: World) -> None:
        await add_claim(world)
        await add_user(world)
        async with world.running(Claims(world.client)):
            await world.api.delete(f"{CLAIMS}/c")
            await world.quiet()
            assert (await world.api.get(f"{CLAIMS}/c")).status == 200
            await world.api.delete(f"{PODS}/p")
            await world.gone(f"{CLAIMS}/c")

    async def test_is_not_in_use_by_a_pod_that_has_ended(self, world: World) -> None:
        await add_claim(world)
        await add_user(world)
        async with world.running(Claims(world.client)):
            await world.api.delete(f"{CLAIMS}/c")
            await world.api.merge(f"{PODS}/p/status", {"status": {"phase": "Succeeded"}})
            await world.gone(f"{CLAIMS}/c")
