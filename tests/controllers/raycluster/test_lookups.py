"""What no cache follows: when it is looked at, and when not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kuberay.controllers.plan import AUTH_SECRET, Create, EmitEvent, Plan
from kuberay.controllers.raycluster.lookups import Lookups
from kuberay.kube.errors import Forbidden, NotFound
from kuberay.kube.resources import NODES, SECRETS
from tests.controllers.embedded import Meddler, embedded

if TYPE_CHECKING:
    from kuberay.kube.client import Client

SOMETHING = Plan(events=(EmitEvent(type="Normal", reason="R", action="A", note="n"),))


def named(resource: Any, name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": resource.kind, "metadata": {"name": name}}


@pytest.fixture
async def server() -> tuple[Client, Meddler]:
    return await embedded()


class TestNodes:
    LOOK = Plan(nodes=frozenset({"n1"}))

    async def test_one_that_is_there(self, server: tuple[Client, Meddler]) -> None:
        client, _ = server
        taint = {"key": "k", "effect": "NoSchedule"}
        await client.create(NODES, {**named(NODES, "n1"), "spec": {"taints": [taint]}})
        lookups = Lookups()
        assert await lookups.refresh(client, "default", self.LOOK, 7.0)
        node = lookups.nodes["n1"].node
        assert node is not None
        assert [each.key for each in node.spec.taints] == ["k"]
        assert not lookups.nodes["n1"].is_down

    async def test_one_that_is_gone(self, server: tuple[Client, Meddler]) -> None:
        lookups = Lookups()
        assert await lookups.refresh(server[0], "default", self.LOOK, 7.0)
        assert lookups.nodes["n1"].is_down

    async def test_one_of_which_a_server_in_trouble_says_nothing_is_not_taken_to_be_gone(
        self, server: tuple[Client, Meddler]
    ) -> None:
        client, meddler = server
        meddler.before = lambda request: NotFound("404 page not found") if "/nodes/" in request.path else None
        lookups = Lookups()
        with pytest.raises(NotFound):
            await lookups.refresh(client, "default", self.LOOK, 7.0)
        assert not lookups.nodes

    async def test_one_that_nobody_may_look_at_is_not_taken_to_be_gone(self, server: tuple[Client, Meddler]) -> None:
        client, meddler = server
        meddler.before = lambda request: Forbidden("no") if "/nodes/" in request.path else None
        lookups = Lookups()
        assert await lookups.refresh(client, "default", self.LOOK, 7.0)
        assert not lookups.nodes["n1"].is_down
        assert lookups.nodes["n1"].is_forbidden


class TestStandIns:
    @pytest.fixture
    async def lookups(self, server: tuple[Client, Meddler]) -> Lookups:
        """A Secret that a user has made, and that was found."""
        client, _ = server
        await client.create(SECRETS, named(SECRETS, "mine"), namespace="default")
        lookups = Lookups()
        found = Create(
            resource=SECRETS, namespace="default", name="mine", body=b"", subject=AUTH_SECRET, scope="s", why="w"
        )
        lookups.note([found])
        return lookups

    async def test_one_that_is_still_there_is_no_news(self, server: tuple[Client, Meddler], lookups: Lookups) -> None:
        assert not await lookups.refresh(server[0], "default", SOMETHING, 200.0)
        assert lookups.stand_ins == {(SECRETS, "mine")}

    async def test_one_that_is_gone_is_forgotten(self, server: tuple[Client, Meddler], lookups: Lookups) -> None:
        client, _ = server
        await client.delete(SECRETS, "mine", namespace="default")
        assert await lookups.refresh(client, "default", SOMETHING, 200.0)
        assert not lookups.stand_ins

    async def test_nobody_looks_at_rest(self, server: tuple[Client, Meddler], lookups: Lookups) -> None:
        client, meddler = server
        await client.delete(SECRETS, "mine", namespace="default")
        before = len(meddler.reads)
        assert not await lookups.refresh(client, "default", Plan(), 200.0)
        assert len(meddler.reads) == before
