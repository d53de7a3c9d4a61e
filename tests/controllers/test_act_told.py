"""What logs and events tell of plans that were carried out."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from structlog.testing import capture_logs

from kuberay.api.core import Pod
from kuberay.controllers.act import Actor, Cache
from kuberay.controllers.announce import announcements
from kuberay.kube.client import Client
from kuberay.kube.errors import Forbidden, TransportError
from kuberay.kube.lanes import Lanes
from kuberay.kube.resources import PODS
from tests.controllers.acting import Crowd, World, create, delete

if TYPE_CHECKING:
    from kuberay.kube.transport import Request, Response, Transport


class Laggard(Crowd):
    """A transport that answers for the Pod `a` only when another request has been answered."""

    def __init__(self, inner: Transport) -> None:
        super().__init__(inner)
        self._other = asyncio.Event()

    async def send(self, request: Request, *, timeout: float | None = None) -> Response:
        if b'"name":"a"' in (request.body or b""):
            await self._other.wait()
        try:
            return await super().send(request, timeout=timeout)
        finally:
            self._other.set()


class TestLog:
    async def test_things_are_told_in_the_order_in_which_they_were_planned(self, world: World) -> None:
        actor = Actor(Client(Laggard(world.client.transport)), {PODS: Cache(world.store, Pod)}, Lanes(4))
        outcome = await actor.run([[create("a"), create("b")]], "u-1")
        assert [action.name for action in outcome.done] == ["a", "b"]

    async def test_so_are_those_that_were_refused(self, world: World) -> None:
        world.meddler.before = lambda request: Forbidden("no") if request.method == "POST" else None
        actor = Actor(Client(Laggard(world.client.transport)), {PODS: Cache(world.store, Pod)}, Lanes(4))
        outcome = await actor.run([[create("a", scope="one"), create("b", scope="other")]], "u-1")
        assert [action.name for action, _ in outcome.refused] == ["a", "b"]

    async def test_what_is_done_for_one_reason_is_one_line_with_all_names(self, world: World) -> None:
        pod = await world.pod("old")
        with capture_logs() as lines:
            await world.actor.run([[delete("old", pod.metadata.uid)], [create("a"), create("b")]], "u-1")
        told = [(each["event"], each["what"], each["why"]) for each in lines]
        assert told == [("deleted", "worker Pod", "it is too much"), ("created", "head Pod", "it is missing")]
        assert lines[1]["name"] == "a, b"

    async def test_very_many_are_told_in_several_lines(self, world: World) -> None:
        with capture_logs() as lines:
            await world.actor.run([[create(f"p{number}") for number in range(250)]], "u-1")
        assert [len(each["name"].split(", ")) for each in lines] == [100, 100, 50]

    async def test_what_was_done_before_an_interruption_is_told(self, world: World) -> None:
        world.meddler.before = lambda request: TransportError("gone") if b'"b"' in (request.body or b"") else None
        with capture_logs() as lines:
            await world.actor.run([[create("a")], [create("b")]], "u-1")
        assert [each.get("name") for each in lines] == ["a", None]
        assert lines[1]["event"] == "failed in passing"


class TestAnnouncements:
    async def test_one_thing_is_told_in_one_sentence(self, world: World) -> None:
        (event,) = announcements(await world.actor.run([[create("a")]], "u-1"), {})
        assert (event.type, event.reason, event.action) == ("Normal", "CreatedHeadPod", "Create")
        assert event.note == "Created head Pod default/a"

    async def test_many_things_are_one_event(self, world: World) -> None:
        (event,) = announcements(await world.actor.run([[create(f"p{n:02}") for n in range(20)]], "u-1"), {})
        assert event.note.startswith("Created 20 head Pods: default/p00, default/p01, default/p02, ")
        assert event.note.endswith(" and 8 more")

    async def test_a_removal_tells_why(self, world: World) -> None:
        pod = await world.pod("a")
        (event,) = announcements(await world.actor.run([[delete("a", pod.metadata.uid)]], "u-1"), {})
        assert (event.reason, event.action) == ("DeletedWorkerPod", "Delete")
        assert event.note == "Deleted worker Pod default/a; it is too much"

    async def test_a_refusal_is_a_warning_with_the_servers_words(self, world: World) -> None:
        (event,) = announcements(await world.actor.run([[create("Bad")]], "u-1"), {})
        assert (event.type, event.reason) == ("Warning", "FailedToCreateHeadPod")
        assert event.note.startswith("Failed to create head Pod default/Bad; ")
