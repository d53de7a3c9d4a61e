"""Recreate: all Pods go when the spec changes, and only then."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from kuberay import __version__
from kuberay.api.meta import find_condition
from kuberay.build.revision import revision
from kuberay.controllers.options import ControllerOptions
from kuberay.controllers.plan import Delete, Patch
from tests.build.clusters import group, template
from tests.controllers.raycluster.situations import (
    after,
    cluster,
    creates,
    deletes,
    grown_up,
    head,
    holding,
    plan,
    pod,
    seen,
    with_status,
)

if TYPE_CHECKING:
    from kuberay.api.core import Pod
    from kuberay.api.v1 import RayCluster
    from kuberay.controllers.raycluster.observe import Seen

HASH = "ray.io/upgrade-strategy-recreate-hash"
VERSION = "ray.io/kuberay-version"


def recreating(**fields: Any) -> RayCluster:
    return cluster(upgradeStrategy={"type": "Recreate"}, **fields)


def with_image(image: str) -> list[dict[str, Any]]:
    return [group(template=template("ray-worker", image=image))]


def made_from(rc: RayCluster, *, version: str = __version__, **fields: Any) -> Pod:
    """A head Pod that an operator made from this cluster."""
    return annotated({HASH: revision(rc.spec), VERSION: version}, **fields)


def annotated(annotations: dict[str, str], **fields: Any) -> Pod:
    made = head(**fields)
    return msgspec.structs.replace(made, metadata=msgspec.structs.replace(made.metadata, annotations=annotations))


OLD = recreating(groups=with_image("ray:1"))
NEW = recreating(groups=with_image("ray:2"))


class TestAChangedSpec:
    def test_takes_all_pods_with_it(self) -> None:
        """raycluster EX-48."""
        found = plan(seen(NEW, made_from(OLD), pod("a"), pod("b")))
        assert deletes(found) == ["a", "b", "rc-head"]
        assert creates(found) == []
        assert {each.subject.topic for each in found.actions} == {"Pod"}
        assert all(each.is_fenced for each in found.actions if isinstance(each, Delete))

    def test_the_head_goes_when_all_workers_have_been_told_to(self) -> None:
        """A worker that could not be removed would never be known for old once the head is gone."""
        found = plan(seen(NEW, made_from(OLD), pod("a"), pod("b")))
        assert [[each.name for each in stage] for stage in found.stages] == [["a", "b"], ["rc-head"]]

    def test_nothing_is_made_while_the_old_head_is_there(self) -> None:
        assert not plan(seen(NEW, made_from(OLD, leaving=True), pod("a", leaving=True))).actions

    def test_new_pods_come_when_it_is_gone(self) -> None:
        assert [each.split(" rc")[0] for each in creates(plan(seen(NEW)))] == ["head Pod", "worker Pod"]

    def test_the_head_goes_with_the_last_workers(self) -> None:
        options = ControllerOptions(resync=None, batch=2)
        pods = [made_from(OLD), pod("a"), pod("b"), pod("c")]
        assert deletes(plan(seen(NEW, *pods), options)) == ["a", "b"]

    def test_it_ends_in_a_cluster_of_the_new_spec(self) -> None:
        situation = seen(NEW, made_from(OLD), pod("a"))
        for _ in range(6):
            situation = grown_up(after(situation, plan(situation)))
        assert plan(situation).is_empty
        assert situation.heads[0].metadata.annotations[HASH] == revision(NEW.spec)

    def test_the_field_suspend_is_part_of_the_spec(self) -> None:
        """raycluster EX-49."""
        rc = recreating(suspend=False)
        assert deletes(plan(seen(recreating(), made_from(rc), pod("a")))) == ["a", "rc-head"]


class TestWhatIsNoChange:
    def test_other_replicas(self) -> None:
        """raycluster EX-48."""
        found = plan(seen(recreating(groups=[group(replicas=2)]), made_from(recreating()), pod("a")))
        assert deletes(found) == []

    def test_a_head_that_does_not_tell_what_it_was_made_from(self) -> None:
        assert not plan(seen(NEW, annotated({}), pod("a"))).actions

    def test_another_strategy(self) -> None:
        for rc in (cluster(groups=with_image("ray:2")), cluster(upgradeStrategy={"type": "None"})):
            assert not plan(seen(rc, made_from(OLD), pod("a"))).actions

    def test_a_cluster_that_is_being_suspended_is_not_recreated(self) -> None:
        rc = recreating(groups=with_image("ray:2"), suspend=True, status=holding("RayClusterSuspended"))
        found = plan(seen(rc, made_from(OLD)))
        assert [each.why for each in found.actions] == ["the cluster is being suspended"]


class TestWithoutIt:
    """Running Pods stay as they are, and the user is told which fields wait."""

    @staticmethod
    def situation(before: RayCluster, now: RayCluster) -> Seen:
        """The Pods of a cluster as it was before its spec changed."""
        old = grown_up(after(seen(before), plan(seen(before))))
        return seen(now, *old.pods)

    @staticmethod
    def waiting(situation: Seen) -> str | None:
        status = with_status(situation.cluster, plan(situation)).status
        found = find_condition(status.conditions, "SpecChangesPending")
        return None if found is None else found.message

    def test_the_fields_that_wait_are_named(self) -> None:
        before = cluster(rayVersion="2.51.0", groups=with_image("ray:1"))
        found = self.situation(before, cluster(rayVersion="2.52.0", groups=with_image("ray:2")))
        message = self.waiting(found) or ""
        image = "spec.workerGroupSpecs[0].template.spec.containers[0].image (group 'wg')"
        assert message.startswith(f"spec.rayVersion, {image}: ")
        assert "upgradeStrategy" in message
        assert not plan(found).actions

    def test_what_takes_effect_at_once_does_not_wait(self) -> None:
        before = cluster(groups=[group(replicas=1)], autoscalerOptions={"idleTimeoutSeconds": 1})
        tolerant = template("ray-worker", pod={"tolerations": [{"operator": "Exists"}]})
        now = cluster(
            groups=[group(replicas=1, maxReplicas=9, template=tolerant)], autoscalerOptions={"idleTimeoutSeconds": 2}
        )
        assert self.waiting(self.situation(before, now)) is None

    def test_a_worker_that_is_already_new_does_not_wait(self) -> None:
        old, new = cluster(groups=with_image("ray:1")), cluster(groups=with_image("ray:2"))
        mixed = self.situation(old, new)
        fresh = self.situation(new, new)
        assert self.waiting(seen(new, *mixed.heads, *fresh.workers)) is None
        assert self.waiting(seen(new, *mixed.heads, *mixed.workers)) is not None

    def test_pods_that_do_not_tell_what_they_were_made_from_are_not_asked(self) -> None:
        assert self.waiting(seen(cluster(groups=with_image("ray:2")), head(), pod("a"))) is None

    def test_what_cannot_be_read_tells_nothing(self) -> None:
        for text in ("{", "[]", "null"):
            assert self.waiting(seen(cluster(), annotated({"ray.io/made-from": text}), pod("a"))) is None

    def test_with_recreate_nothing_waits(self) -> None:
        assert self.waiting(self.situation(OLD, NEW)) is None

    def test_workers_that_recreate_has_passed_over_wait(self) -> None:
        """There was no head when the spec changed, or Recreate was asked for when the head was new already."""
        old, new = self.situation(OLD, NEW), self.situation(NEW, NEW)
        image = "spec.workerGroupSpecs[0].template.spec.containers[0].image (group 'wg')"
        told = f"{image}: running Pods keep the old value until they are deleted"
        for heads in ((), new.heads):
            assert self.waiting(seen(NEW, *heads, *old.workers)) == told
        assert not deletes(plan(seen(NEW, *new.heads, *old.workers)))

    def test_recreate_is_no_advice_where_only_workers_are_old(self) -> None:
        before, now = cluster(groups=with_image("ray:1")), cluster(groups=with_image("ray:2"))
        old, new = self.situation(before, now), self.situation(now, now)
        assert (self.waiting(old) or "").endswith(", or upgradeStrategy.type is Recreate")
        assert (self.waiting(seen(now, *new.heads, *old.workers)) or "").endswith("until they are deleted")

    def test_what_changed_while_the_operator_was_replaced_waits(self) -> None:
        """The head is renamed then, and taken to be up to date; its fields tell better."""
        situation = self.situation(OLD, NEW)
        (old,) = situation.heads
        earlier = annotated({**old.metadata.annotations, VERSION: "v1.0.0"})
        situation = seen(NEW, earlier, *situation.workers)
        assert self.waiting(after(situation, plan(situation))) is not None

    def test_many_fields_are_cut_short(self) -> None:
        names = [f"c{number}" for number in range(30)]
        before = cluster(groups=[group(template={"spec": {"containers": [{"name": each} for each in names]}})])
        later = [{"name": each, "image": "x"} for each in names]
        now = cluster(groups=[group(template={"spec": {"containers": later}})])
        assert " and 10 more: " in (self.waiting(self.situation(before, now)) or "")


class TestAHeadOfAnotherOperator:
    def test_is_taken_to_be_up_to_date_and_renamed(self) -> None:
        """raycluster EX-48."""
        found = plan(seen(NEW, made_from(OLD, version="v1.0.0"), pod("a")))
        (change,) = found.actions
        assert isinstance(change, Patch)
        assert change.uid == "uid-rc-head"
        assert change.patch == {"metadata": {"annotations": {HASH: revision(NEW.spec), VERSION: __version__}}}
        assert not change.subject.is_announced

    def test_is_left_alone_where_nothing_is_recreated(self) -> None:
        assert not plan(seen(cluster(), made_from(OLD, version="v1.0.0"), pod("a"))).actions

    def test_is_not_touched_while_it_is_leaving(self) -> None:
        leaving = made_from(OLD, version="v1.0.0", leaving=True)
        assert not [each for each in plan(seen(NEW, leaving, pod("a"))).actions if isinstance(each, Patch)]
