"""Pods that an admission webhook has made into somebody else's."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import msgspec
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from kuberay.api.core import Pod
from kuberay.controllers.announce import announcements
from kuberay.controllers.marks import MARKS, altered
from kuberay.kube.errors import Forbidden, TransportError
from kuberay.kube.resources import PODS, SERVICES
from tests.controllers.acting import OWNER, World, body, create, webhook

if TYPE_CHECKING:
    from collections.abc import Callable

OURS = {
    "ray.io/cluster": "rc",
    "ray.io/node-type": "worker",
    "ray.io/group": "wg",
    "ray.io/worker-group-replica-index": "0",
    "ray.io/worker-group-replica-name": "wg-x",
    "ray.io/replica-host-index": "1",
}
STRANGER = {**OWNER, "name": "other", "uid": "u-2"}


def labelled(**labels: str | None) -> Callable[[dict[str, Any]], None]:
    def change(metadata: dict[str, Any]) -> None:
        merged = {**metadata.get("labels", {}), **labels}
        metadata["labels"] = {key: value for key, value in merged.items() if value is not None}

    return change


class TestAPodThatLostWhatItIsKnownBy:
    @pytest.mark.parametrize(
        ("change", "told"),
        [
            *((labelled(**{key: None}), f"(label {key} missing)") for key in OURS),
            *((labelled(**{key: "other"}), f"(label {key} changed)") for key in OURS),
            (lambda metadata: metadata.pop("labels"), "label ray.io/cluster missing, label ray.io/node-type missing"),
            (lambda metadata: metadata.pop("ownerReferences"), "(controlling owner reference missing)"),
            (
                lambda metadata: metadata.update(ownerReferences=[STRANGER, {**OWNER, "controller": False}]),
                "(controlling owner reference changed)",
            ),
        ],
    )
    async def test_is_deleted_again_and_its_making_is_refused_with_what_was_changed(
        self, world: World, change: Callable[[dict[str, Any]], Any], told: str
    ) -> None:
        world.meddler.admit = webhook(change)
        outcome = await world.actor.run([[create("a", labels=OURS)]], "u-1")
        assert await world.names() == []
        assert list(world.store) == []
        assert (outcome.done, outcome.occupied, outcome.is_outdated, outcome.advanced) == ([], [], False, set())
        (refusal,) = outcome.refusals
        assert (refusal.scope, refusal.reason, refusal.is_passing) == ("head", "FailedCreateHeadPod", False)
        assert "an admission webhook changed what it is known by" in refusal.message
        assert told in refusal.message
        (event,) = announcements(outcome, {})
        assert (event.type, event.reason) == ("Warning", "FailedToCreateHeadPod")
        assert told in event.note

    async def test_one_that_may_have_another_name_is_refused_as_well(self, world: World) -> None:
        world.meddler.admit = webhook(lambda metadata: metadata.pop("labels"))
        outcome = await world.actor.run([[replace(create("a", labels=OURS), takes_another_name=True)]], "u-1")
        assert (len(outcome.refused), outcome.is_outdated) == (1, False)

    async def test_is_deleted_by_its_uid_and_the_log_says_why(self, world: World) -> None:
        world.meddler.admit = webhook(labelled(**{"ray.io/group": None}))
        with capture_logs() as lines:
            await world.actor.run([[create("a", labels=OURS)]], "u-1")
        (removal,) = [request for request in world.meddler.writes if request.method == "DELETE"]
        assert orjson.loads(removal.body or b"")["preconditions"]["uid"]
        (line,) = [line for line in lines if line["event"] == "deleted"]
        assert (line["name"], "label ray.io/group missing" in line["why"]) == ("a", True)

    async def test_keeps_the_others_of_its_scope_from_being_made(self, world: World) -> None:
        world.meddler.admit = webhook(lambda metadata: metadata.pop("labels", None))
        pods = [create(f"p{number}", labels=OURS) for number in range(100)]
        await world.actor.run([[*pods, create("other", scope="other")]], "u-1")
        assert sum(request.method == "POST" and b'"p' in (request.body or b"") for request in world.meddler.writes) <= 4
        assert await world.names() == ["other"]

    @pytest.mark.parametrize("error", [Forbidden("a policy keeps it"), TransportError("no answer")])
    async def test_one_that_has_to_stay_is_told(self, world: World, error: Exception) -> None:
        world.meddler.admit = webhook(labelled(**{"ray.io/group": None}))
        world.meddler.before = lambda request: error if request.method == "DELETE" else None
        with capture_logs() as lines:
            outcome = await world.actor.run([[create("a", labels=OURS)]], "u-1")
        (refusal,) = outcome.refusals
        assert not refusal.is_passing
        assert "label ray.io/group missing" in refusal.message
        assert f"could not be deleted again: {error}" in refusal.message
        assert "not taken back" in [line["event"] for line in lines]

    async def test_one_that_has_to_stay_is_not_taken_for_the_one_that_is_wanted(self, world: World) -> None:
        world.meddler.admit = webhook(labelled(**{"ray.io/group": "other"}))
        world.meddler.before = lambda request: Forbidden("it stays") if request.method == "DELETE" else None
        await world.actor.run([[create("a", labels=OURS)]], "u-1")
        (stays,) = (await world.client.list(PODS, namespace="default", type=Pod)).items
        world.store.applied(stays)
        outcome = await world.actor.run([[create("a", labels=OURS)]], "u-1")
        assert outcome.done == []
        assert "lacks the labels by which it is found" in outcome.refusals[0].message


class TestAPodThatAWebhookOnlyAddsTo:
    @pytest.mark.parametrize(
        "change",
        [
            lambda _: None,
            labelled(**{"security.istio.io/tlsMode": "istio", "example.com/team": "a"}),
            labelled(**{"app.kubernetes.io/name": "other"}),
            lambda metadata: metadata.update(annotations={"sidecar.istio.io/status": "injected"}),
            lambda metadata: metadata["ownerReferences"].append({**STRANGER, "controller": False}),
            lambda metadata: metadata["ownerReferences"][0].update(blockOwnerDeletion=False),
        ],
    )
    async def test_is_the_one_that_was_asked_for(self, world: World, change: Callable[[dict[str, Any]], Any]) -> None:
        world.meddler.admit = webhook(change)
        outcome = await world.actor.run([[create("a", labels=OURS)]], "u-1")
        assert (len(outcome.done), outcome.refused) == (1, [])
        assert [pod.name for pod in world.store] == await world.names() == ["a"]


class TestAlterations:
    @given(
        st.dictionaries(st.sampled_from([*MARKS, "x", "y"]), st.sampled_from(["1", "2"])),
        st.dictionaries(st.sampled_from([*MARKS, "x", "y"]), st.sampled_from(["1", "2"])),
        st.sampled_from([OWNER, STRANGER, None]),
    )
    def test_are_those_of_the_marks_and_of_the_owner_and_no_others(
        self, sent: dict[str, str], kept: dict[str, str], owner: dict[str, Any] | None
    ) -> None:
        owners = [owner] if owner is not None else []
        stored = msgspec.convert(body("a", labels=kept, ownerReferences=owners), Pod)
        found = altered(create("a", labels=sent), stored)
        assert [change.split()[1] for change in found if change.startswith("label")] == [
            key for key in MARKS if sent.get(key) != kept.get(key)
        ]
        assert any("owner" in change for change in found) == (owner is not OWNER)
        assert altered(replace(create("a", labels=sent), resource=SERVICES), stored) == []
