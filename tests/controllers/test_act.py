"""Plans carried out against an API server."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import orjson
import pytest
from structlog.testing import capture_logs

from kuberay.api.core import Pod
from kuberay.controllers.act import Actor, Cache
from kuberay.controllers.announce import announcements
from kuberay.controllers.plan import Subject
from kuberay.kube.client import Client, PatchType
from kuberay.kube.errors import AlreadyExists, Conflict, Forbidden, NotFound, TransportError
from kuberay.kube.lanes import Lanes
from kuberay.kube.resources import PODS
from kuberay.kube.transport import Request
from tests.controllers.acting import OWNER, Crowd, World, body, create, delete, patch, require, status

if TYPE_CHECKING:
    from kuberay.kube.transport import Response


class Rival(Crowd):
    """A transport on which somebody else changes what is about to be written whole."""

    async def send(self, request: Request, *, timeout: float | None = None) -> Response:
        if request.method == "PUT":
            headers = {"content-type": PatchType.MERGE.value}
            labelled = orjson.dumps({"metadata": {"labels": {"by": "somebody"}}})
            await self._inner.send(Request("PATCH", request.path, (), headers, labelled))
        return await super().send(request, timeout=timeout)


class TestCreating:
    async def test_what_is_made_is_known_at_once(self, world: World) -> None:
        outcome = await world.actor.run([[create("a"), create("b")]], "u-1")
        assert await world.names() == ["a", "b"]
        assert sorted(pod.name for pod in world.store) == ["a", "b"]
        assert len(outcome.done) == 2

    async def test_one_of_ours_under_that_name_is_as_good(self, world: World) -> None:
        await world.client.create(PODS, body("a"), namespace="default")
        outcome = await world.actor.run([[create("a")]], "u-1")
        assert len(outcome.done) == 1
        assert [pod.name for pod in world.store] == ["a"]

    async def test_somebody_elses_under_that_name_is_a_refusal(self, world: World) -> None:
        await world.client.create(PODS, body("a", ownerReferences=[]), namespace="default")
        outcome = await world.actor.run([[create("a")]], "u-1")
        (refusal,) = outcome.refusals
        assert refusal.reason == "FailedCreateHeadPod"
        assert "Failed to create head Pod default/a" in refusal.message
        assert "has no owner" in refusal.message

    async def test_one_of_ours_that_no_cache_will_ever_show_is_not_made_for_ever(self, world: World) -> None:
        await world.client.create(PODS, body("a"), namespace="default")
        world.store.passed("999999")  # the watch has shown all there is, and not this one
        outcome = await world.actor.run([[create("a")]], "u-1")
        assert "lacks the labels" in outcome.refusals[0].message
        outcome = await world.actor.run([[replace(create("a"), takes_any=True)]], "u-1")
        assert [action.name for action in outcome.found] == ["a"]

    async def test_one_that_nobody_sees_costs_another_name_where_that_will_do(self, world: World) -> None:
        await world.client.create(PODS, body("a"), namespace="default")
        world.store.passed("999999")
        outcome = await world.actor.run([[replace(create("a"), takes_another_name=True), create("b")]], "u-1")
        assert (outcome.occupied, outcome.refused) == (["a"], [])
        assert outcome.is_outdated, "it is decided anew"
        assert [action.name for action in outcome.done] == ["b"]

    async def test_one_that_nobody_sees_and_that_is_leaving_is_waited_for(self, world: World) -> None:
        await world.client.create(PODS, body("a", finalizers=["example.com/hold"]), namespace="default")
        await world.client.delete(PODS, "a", namespace="default")
        world.store.passed("999999")
        outcome = await world.actor.run([[create("a")]], "u-1")
        assert (outcome.done, outcome.refused) == ([], [])
        assert "on its way out" in str(outcome.interruption)

    async def test_one_that_was_there_a_moment_ago_is_decided_anew(self, world: World) -> None:
        world.meddler.before = lambda request: AlreadyExists("a") if request.method == "POST" else None
        outcome = await world.actor.run([[create("a")]], "u-1")
        assert (outcome.done, outcome.is_outdated) == ([], True)

    async def test_a_conflict_is_not_about_a_new_object_and_tried_again_at_once(self, world: World) -> None:
        """Quotas are counted by writes of the server's own, and those may meet."""
        conflicts = [Conflict("resourcequotas: the object has been modified")] * 3
        world.meddler.before = lambda request: conflicts.pop() if conflicts and request.method == "POST" else None
        outcome = await world.actor.run([[create("a")]], "u-1")
        assert len(outcome.done) == 1
        assert await world.names() == ["a"]

    async def test_but_not_for_ever(self, world: World) -> None:
        world.meddler.before = lambda request: Conflict("modified") if request.method == "POST" else None
        outcome = await world.actor.run([[create("a")]], "u-1")
        assert outcome.refused == []
        assert isinstance(outcome.interruption, Conflict)

    async def test_a_lost_answer_is_made_good_by_trying_again(self, world: World) -> None:
        world.meddler.after = lambda request: TransportError("reset") if request.method == "POST" else None
        first = await world.actor.run([[create("a")]], "u-1")
        assert isinstance(first.interruption, TransportError)
        assert first.refused == []
        world.meddler.after = lambda _: None
        await world.actor.run([[create("a")]], "u-1")
        assert await world.names() == ["a"]

    async def test_a_bad_object_is_a_refusal_that_quotes_the_server(self, world: World) -> None:
        outcome = await world.actor.run([[create("Not A Name")]], "u-1")
        assert outcome.done == []
        assert "Not A Name" in outcome.refusals[0].message


class TestObjectsOfOthers:
    async def test_one_serves_where_any_will_do_and_is_no_news(self, world: World) -> None:
        await world.client.create(PODS, body("a", ownerReferences=[]), namespace="default")
        outcome = await world.actor.run([[replace(create("a"), takes_any=True)]], "u-1")
        assert [action.name for action in outcome.found] == ["a"]
        assert list(announcements(outcome, {})) == []
        assert not outcome.is_empty

    async def test_one_that_an_earlier_owner_left_behind_does_not(self, world: World) -> None:
        await world.client.create(PODS, body("a", ownerReferences=[{**OWNER, "uid": "u-0"}]), namespace="default")
        outcome = await world.actor.run([[replace(create("a"), takes_any=True)]], "u-1")
        assert outcome.found == []
        assert "belongs to RayCluster rc" in outcome.refusals[0].message

    async def test_one_that_is_required_is_looked_for(self, world: World) -> None:
        await world.client.create(PODS, body("a"), namespace="default")
        assert [action.name for action in (await world.actor.run([[require("a")]], "u-1")).found] == ["a"]

    async def test_one_that_is_required_and_missing_is_told(self, world: World) -> None:
        outcome = await world.actor.run([[require("a")]], "u-1")
        assert outcome.refusals[0].reason == "FriendNotFound"
        (event,) = announcements(outcome, {})
        assert (event.type, event.reason, event.action) == ("Warning", "FriendNotFound", "Validate")
        assert "default/a" in event.note


class TestChanging:
    async def test_what_is_changed_is_known_at_once(self, world: World) -> None:
        pod = await world.pod("a")
        outcome = await world.actor.run([[patch("a", pod.metadata.uid)]], "u-1")
        (known,) = world.store
        assert known.metadata.annotations == {"colour": "red"}
        (event,) = announcements(outcome, {})
        assert (event.reason, event.action, event.note) == ("UpdatedHeadPod", "Update", "Updated head Pod default/a")

    @pytest.mark.parametrize("is_update", [False, True])
    async def test_another_one_of_that_name_stays_as_it_is(self, world: World, is_update: bool) -> None:
        await world.pod("a")
        await world.actor.run([[replace(patch("a", "another-uid"), is_update=is_update)]], "u-1")
        (known,) = world.store
        assert known.metadata.annotations == {}

    @pytest.mark.parametrize("is_update", [False, True])
    async def test_one_that_is_gone_has_no_need_of_it(self, world: World, is_update: bool) -> None:
        pod = await world.pod("a")
        await world.client.delete(PODS, "a", namespace="default", grace_period_seconds=0)
        change = replace(patch("a", pod.metadata.uid), is_update=is_update)
        outcome = await world.actor.run([[change], [create("b")]], "u-1")
        assert list(announcements(outcome, {})) == []
        assert outcome.is_empty, "nobody has to look again before its watch has told"
        assert outcome.is_behind
        assert list(world.store) == []
        assert await world.names() == [], "what comes after it is decided when it is known"

    @pytest.mark.parametrize("is_known", [False, True])
    async def test_one_that_somebody_has_changed_is_not_taken_to_be_done(self, world: World, is_known: bool) -> None:
        old = await world.pod("a")
        labelled = {"metadata": {"labels": {"by": "somebody"}}}
        new = await world.client.patch(PODS, "a", labelled, namespace="default", type=Pod)
        if is_known:
            world.store.applied(new)
        change = {"metadata": {"finalizers": ["example.com/x"], "resourceVersion": old.metadata.resource_version}}
        outcome = await world.actor.run([[replace(patch("a", old.metadata.uid), patch=change)], [create("b")]], "u-1")
        assert outcome.done == []
        assert outcome.refused == []
        assert outcome.is_outdated
        assert not outcome.is_empty
        assert await world.names() == ["a"], "what comes after it waits"
        (known,) = world.store
        assert known.metadata.labels == {"by": "somebody"}, "the next decision is made on what it is now"

    async def test_one_that_is_written_whole_keeps_what_no_cache_knows_of(self, world: World) -> None:
        pod = await world.pod("a")
        own = {"metadata": {"annotations": {"size": "big"}}}
        before = await world.client.patch(PODS, "a", own, namespace="default")
        world.meddler.before = lambda request: Forbidden("no patches") if request.method == "PATCH" else None
        outcome = await world.actor.run([[replace(patch("a", pod.metadata.uid), is_update=True)]], "u-1")
        assert len(outcome.done) == 1
        found = await world.client.get(PODS, "a", namespace="default")
        assert found["spec"] == before["spec"]
        (known,) = world.store
        assert known.metadata.annotations == found["metadata"]["annotations"] == {"size": "big", "colour": "red"}

    async def test_one_that_is_changed_between_reading_and_writing_is_decided_anew(self, world: World) -> None:
        pod = await world.pod("a")
        actor = Actor(Client(Rival(world.meddler)), {PODS: Cache(world.store, Pod)}, Lanes(4))
        outcome = await actor.run([[replace(patch("a", pod.metadata.uid), is_update=True)]], "u-1")
        assert (outcome.done, outcome.is_outdated) == ([], True)
        (known,) = world.store
        assert (known.metadata.labels, known.metadata.annotations) == ({"by": "somebody"}, {})

    async def test_a_change_that_changes_nothing_is_a_refusal_and_not_made_for_ever(self, world: World) -> None:
        pod = await world.pod("a", annotations={"colour": "red"})
        outcome = await world.actor.run([[patch("a", pod.metadata.uid)]], "u-1")
        assert outcome.done == []
        (refusal,) = outcome.refusals
        assert refusal.reason == "FailedUpdateHeadPod"
        assert "kept the object as it was" in refusal.message

    async def test_a_conflict_over_nothing_is_not_decided_anew_for_ever(self, world: World) -> None:
        pod = await world.pod("a")
        world.meddler.before = lambda request: Conflict("no") if request.method == "PATCH" else None
        outcome = await world.actor.run([[patch("a", pod.metadata.uid)]], "u-1")
        assert not outcome.is_outdated
        assert isinstance(outcome.interruption, Conflict)

    async def test_a_thing_that_is_not_announced_is_changed_in_silence(self, world: World) -> None:
        pod = await world.pod("a")
        quiet = Subject("head Pod", "HeadPod", is_announced=False)
        outcome = await world.actor.run([[replace(patch("a", pod.metadata.uid), subject=quiet)]], "u-1")
        assert list(announcements(outcome, {})) == []


class TestDeleting:
    async def test_what_is_deleted_is_not_seen_any_more(self, world: World) -> None:
        pod = await world.pod("a")
        await world.actor.run([[delete("a", pod.metadata.uid)]], "u-1")
        with pytest.raises(NotFound):
            await world.client.get(PODS, "a", namespace="default")
        assert all(known.is_leaving for known in world.store)

    async def test_one_that_takes_its_time_is_seen_leaving(self, world: World) -> None:
        pod = await world.pod("a", finalizers=["example.com/hold"])
        await world.actor.run([[delete("a", pod.metadata.uid)]], "u-1")
        (known,) = world.store
        assert known.is_leaving

    async def test_one_whose_node_is_down_does_not_wait_for_its_word(self, world: World) -> None:
        bound = await world.client.create(
            PODS, {**body("a"), "spec": {**body("a")["spec"], "nodeName": "n1"}}, namespace="default", type=Pod
        )
        world.store.applied(bound)
        await world.actor.run([[delete("a", bound.metadata.uid)]], "u-1")
        assert await world.names() == ["a"]
        await world.actor.run([[replace(delete("a", bound.metadata.uid), is_forced=True)]], "u-1")
        assert await world.names() == []

    async def test_one_that_is_gone_is_as_good(self, world: World) -> None:
        pod = await world.pod("a")
        await world.client.delete(PODS, "a", namespace="default")
        outcome = await world.actor.run([[delete("a", pod.metadata.uid)]], "u-1")
        assert len(outcome.done) == 1
        assert list(world.store) == []

    async def test_one_that_was_leaving_and_is_gone_is_not_asked_to_go_for_ever(self, world: World) -> None:
        leaving = await world.pod("a", finalizers=["example.com/hold"])
        await world.actor.run([[delete("a", leaving.metadata.uid)]], "u-1")
        await world.client.patch(PODS, "a", {"metadata": {"finalizers": None}}, namespace="default")
        forced = replace(delete("a", leaving.metadata.uid), is_forced=True)
        outcome = await world.actor.run([[forced]], "u-1")
        assert outcome.is_empty, "it is looked at again when its watch has told"
        assert outcome.is_behind

    async def test_another_one_of_that_name_stays(self, world: World) -> None:
        pod = await world.pod("a")
        await world.client.delete(PODS, "a", namespace="default")
        await world.client.create(PODS, body("a"), namespace="default")
        outcome = await world.actor.run([[delete("a", pod.metadata.uid)]], "u-1")
        assert len(outcome.done) == 1
        assert await world.names() == ["a"]

    async def test_one_that_has_to_stay_keeps_no_other(self, world: World) -> None:
        pods = [await world.pod(f"p{number:02}") for number in range(20)]
        world.meddler.before = lambda request: (
            Forbidden("protected") if request.method == "DELETE" and request.path.endswith("p00") else None
        )
        outcome = await world.actor.run([[delete(pod.name, pod.metadata.uid) for pod in pods], [create("new")]], "u-1")
        assert await world.names() == ["p00"]
        assert [action.name for action, _ in outcome.refused] == ["p00"]
        assert outcome.advanced == {"group wg"}

    async def test_those_that_have_to_stay_are_told_in_one_line(self, world: World) -> None:
        pods = [await world.pod(f"p{number}") for number in range(3)]
        world.meddler.before = lambda request: Forbidden("protected") if request.method == "DELETE" else None
        with capture_logs() as lines:
            await world.actor.run([[delete(pod.name, pod.metadata.uid) for pod in pods]], "u-1")
        (line,) = lines
        assert (line["event"], line["so_are"]) == ("refused", "p1, p2")
        assert "default/p0: protected" in line["what"]


class TestStatus:
    async def test_one_that_is_gone_has_no_need_of_it(self, world: World) -> None:
        assert await world.actor.patch_status(status("a", "u")) is None


class TestStages:
    async def test_a_stage_begins_when_the_one_before_has_succeeded(self, world: World) -> None:
        await world.actor.run([[create("a")], [create("b")]], "u-1")
        assert [orjson.loads(each.body or b"")["metadata"]["name"] for each in world.meddler.writes[1:]] == ["a", "b"]

    async def test_a_refusal_ends_it_after_its_stage(self, world: World) -> None:
        outcome = await world.actor.run([[create("Bad"), create("a", scope="other")], [create("b")]], "u-1")
        assert await world.names() == ["a"]
        assert [action.name for action in outcome.done] == ["a"]
        assert [action.name for action, _ in outcome.refused] == ["Bad"]

    async def test_what_is_refused_to_one_is_not_asked_for_the_next(self, world: World) -> None:
        count = len(world.meddler.writes)
        await world.actor.run([[create(f"Bad{number}") for number in range(20)]], "u-1")
        assert len(world.meddler.writes) - count <= 4

    async def test_a_server_that_cannot_be_reached_ends_it_at_once(self, world: World) -> None:
        world.meddler.before = lambda _: TransportError("refused")
        count = len(world.meddler.writes)
        outcome = await world.actor.run([[create(f"p{number}") for number in range(20)]], "u-1")
        assert outcome.refused == []
        assert isinstance(outcome.interruption, TransportError)
        assert len(world.meddler.writes) - count <= 4

    async def test_as_many_as_allowed_are_under_way_and_no_more(self, world: World) -> None:
        crowd = Crowd(world.client.transport)
        actor = Actor(Client(crowd), {PODS: Cache(world.store, Pod)}, Lanes(4))
        await actor.run([[create(f"p{number}") for number in range(20)]], "u-1")
        assert crowd.most == 4
        assert len(await world.names()) == 20
