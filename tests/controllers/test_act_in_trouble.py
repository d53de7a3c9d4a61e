"""What is made of answers that say nothing of the objects in a plan."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from kuberay.controllers import failures
from kuberay.controllers.announce import announcements
from kuberay.kube import decoding
from kuberay.kube.errors import (
    AlreadyExists,
    Conflict,
    InternalError,
    NotFound,
    Timeout,
    TooManyRequests,
    TransportError,
)
from tests.controllers.acting import World, create, delete, patch, require, status

if TYPE_CHECKING:
    from collections.abc import Callable

    from kuberay.controllers.failures import Failure
    from kuberay.controllers.plan import Create, Require
    from kuberay.kube.errors import KubeError
    from kuberay.kube.transport import Request


class TestFailuresInPassing:
    """They say nothing about the object: the same write may succeed in a moment."""

    @pytest.fixture(params=[Timeout("too slow"), InternalError("etcd"), TransportError("reset"), TooManyRequests()])
    def error(self, request: pytest.FixtureRequest) -> KubeError:
        found: KubeError = request.param
        return found

    async def test_they_hold_up_their_own_scope_only(self, world: World, error: KubeError) -> None:
        world.meddler.before = lambda request: error if b'"slow' in (request.body or b"") else None
        count = len(world.meddler.writes)
        stage = [*(create(f"slow{number}", scope="a") for number in range(20)), create("b", scope="b")]
        outcome = await world.actor.run([stage], "u-1")
        assert await world.names() == ["b"]
        assert len(world.meddler.writes) - count <= 5
        assert outcome.interruption is None
        (refusal, *_) = outcome.refusals
        assert (refusal.scope, refusal.is_passing) == ("a", True)

    async def test_what_comes_after_them_waits(self, world: World, error: KubeError) -> None:
        world.meddler.before = lambda request: error if b'"a"' in (request.body or b"") else None
        await world.actor.run([[create("a", scope="a"), create("b", scope="b")], [create("c", scope="c")]], "u-1")
        assert await world.names() == ["b"]

    async def test_they_are_an_interruption_when_nothing_else_came_of_it(self, world: World, error: KubeError) -> None:
        world.meddler.before = lambda _: error
        outcome = await world.actor.run([[create("a", scope="a"), create("b", scope="b")]], "u-1")
        assert outcome.interruption is error
        assert outcome.refused == []

    async def test_users_hear_of_them_when_they_do_not_pass(self, world: World, error: KubeError) -> None:
        world.meddler.before = lambda _: error
        outcome = await world.actor.run([[create("a")]], "u-1")
        known: dict[str, Failure] = {}
        told = []
        for now in (0.0, 1.0, 4.0):
            known = failures.after(known, (), outcome.refusals, generation=1, now=now)
            told.append([event.reason for event in announcements(outcome, known)])
        assert told == [[], [], ["FailedToCreateHeadPod"]]


def proxy(request: Request) -> KubeError:
    """What somebody on the way says who does not know where the server is."""
    return decoding.refusal(request, 404, {}, b"404 page not found\n")


def unserved(request: Request) -> KubeError:
    """What an API server says that does not serve the path at the moment."""
    return NotFound("the server could not find the requested resource")


@pytest.mark.parametrize("said", [proxy, unserved])
class TestAnswersThatNothingIsThere:
    """Nobody looks again at an object that is gone, so it has to be said of the object, by who knows it."""

    @pytest.mark.parametrize("is_update", [False, True])
    async def test_one_that_was_to_be_changed_is_still_known(
        self, world: World, said: Callable[[Request], KubeError], is_update: bool
    ) -> None:
        pod = await world.pod("a")
        world.meddler.before = said
        change = replace(patch("a", pod.metadata.uid), is_update=is_update)
        outcome = await world.actor.run([[change]], "u-1")
        assert isinstance(outcome.interruption, NotFound)
        assert list(world.store) == [pod]

    async def test_so_is_one_that_was_to_be_deleted(self, world: World, said: Callable[[Request], KubeError]) -> None:
        pod = await world.pod("a")
        world.meddler.before = said
        outcome = await world.actor.run([[delete("a", pod.metadata.uid)]], "u-1")
        assert isinstance(outcome.interruption, NotFound)
        assert list(world.store) == [pod]

    async def test_so_is_one_that_a_conflict_is_about(self, world: World, said: Callable[[Request], KubeError]) -> None:
        pod = await world.pod("a")
        world.meddler.before = lambda request: Conflict("no") if request.method == "DELETE" else said(request)
        outcome = await world.actor.run([[delete("a", pod.metadata.uid)]], "u-1")
        assert isinstance(outcome.interruption, NotFound)
        assert list(world.store) == [pod]

    async def test_one_that_has_the_name_is_asked_for_again(
        self, world: World, said: Callable[[Request], KubeError]
    ) -> None:
        world.meddler.before = lambda request: AlreadyExists("a") if request.method == "POST" else said(request)
        outcome = await world.actor.run([[create("a")]], "u-1")
        assert isinstance(outcome.interruption, NotFound)

    @pytest.mark.parametrize("action", [create("a"), require("a")])
    async def test_one_that_is_to_be_made_or_required_is_neither_refused_nor_told_to_be_missing(
        self, world: World, said: Callable[[Request], KubeError], action: Create | Require
    ) -> None:
        world.meddler.before = said
        outcome = await world.actor.run([[action]], "u-1")
        assert isinstance(outcome.interruption, NotFound)
        assert outcome.refused == []

    async def test_a_status_is_still_to_be_written(self, world: World, said: Callable[[Request], KubeError]) -> None:
        pod = await world.pod("a")
        world.meddler.before = said
        with pytest.raises(NotFound):
            await world.actor.patch_status(status("a", pod.metadata.uid))
