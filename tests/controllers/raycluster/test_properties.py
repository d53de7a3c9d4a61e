"""What holds in every situation, however strange."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kuberay.build import labels
from kuberay.build.revision import revision
from kuberay.controllers.plan import Create, Delete
from kuberay.controllers.raycluster import scaling
from kuberay.controllers.raycluster.health import beyond_repair
from kuberay.kube.resources import PODS
from tests.build.clusters import group
from tests.controllers.raycluster.situations import (
    OPTIONS,
    after,
    cluster,
    grown_up,
    head,
    holding,
    plan,
    pod,
    seen,
    service,
)

if TYPE_CHECKING:
    from kuberay.api.core import Pod
    from kuberay.api.v1 import RayCluster, WorkerGroupSpec
    from kuberay.controllers.raycluster.observe import Seen

GROUPS = ("a", "a", "b", "gone")
NAMES = [f"p{number}" for number in range(8)]
REPLICAS = ("", "a-1", "a-2")
HOSTS = 2
"""Of a replica of group `a`, where it spans several."""

numbers = st.integers(0, 6)
_SELDOM = [False, False, False, True]


@st.composite
def groups(draw: st.DrawFn, name: str, *, is_autoscaling: bool) -> dict[str, Any]:
    low = draw(st.integers(0, 2))
    return group(
        name,
        replicas=draw(st.none() | numbers),
        minReplicas=low,
        maxReplicas=low + draw(st.integers(0, 5)),
        suspend=draw(st.sampled_from([None, None, False] if is_autoscaling else [None, None, False, True])),
        numOfHosts=HOSTS if name == "a" and draw(st.booleans()) else 1,
        scaleStrategy={"workersToDelete": draw(st.lists(st.sampled_from([*NAMES, "rc-head"]), max_size=3))},
    )


@st.composite
def clusters(draw: st.DrawFn) -> RayCluster:
    fields: dict[str, Any] = {}
    suspend = draw(st.sampled_from([None, None, None, None, False, True]))
    if suspend is not None:
        fields["suspend"] = suspend
    held = draw(st.sampled_from([(), (), (), (), (), ("RayClusterSuspending",), ("RayClusterSuspended",)]))
    if held:
        fields["status"] = holding(*held)
    is_autoscaling = draw(st.booleans())
    if is_autoscaling:
        fields["enableInTreeAutoscaling"] = True
    if draw(st.booleans()):
        fields["upgradeStrategy"] = {"type": "Recreate"}
    present = draw(st.sampled_from([["a"], ["a", "b"], []]))
    return cluster(groups=[draw(groups(name, is_autoscaling=is_autoscaling)) for name in present], **fields)


@st.composite
def pods(draw: st.DrawFn) -> Pod:
    return pod(
        draw(st.sampled_from(NAMES)),
        group=draw(st.sampled_from(GROUPS)),
        phase=draw(st.sampled_from(["Running", "Running", "Running", "Pending", "Failed", "Succeeded", "Unknown", ""])),
        ready=draw(st.sampled_from([True, True, False, None])),
        leaving=draw(st.sampled_from(_SELDOM)),
        index=draw(st.none() | numbers),
        replica=draw(st.sampled_from(REPLICAS)),
        host=draw(st.sampled_from([None, 0, 1])),
        age=draw(st.sampled_from([1.0, 60.0, 3600.0])),
        policy=draw(st.sampled_from(["Always", "Never", "OnFailure"])),
        ended=draw(st.sampled_from(_SELDOM)),
    )


@st.composite
def heads(draw: st.DrawFn, rc: RayCluster) -> list[Pod]:
    """One, none, or by some accident two; made from this spec or another one, by this operator or another one."""
    made_from = draw(st.sampled_from([None, revision(rc.spec), "SOMETHING-ELSE"]))
    annotations = {}
    if made_from is not None:
        version = draw(st.sampled_from([OPTIONS.build.version, "v1.3.2"]))
        annotations = {labels.RECREATE_HASH: made_from, labels.KUBERAY_VERSION: version}
    phase = draw(st.sampled_from(["Running", "Running", "Running", "Pending", "Failed"]))
    first = head(phase=phase, leaving=draw(st.sampled_from(_SELDOM)), annotations=annotations)
    return draw(st.sampled_from([[], [first], [first], [first], [first, head("rc-head-2")]]))


@st.composite
def situations(draw: st.DrawFn) -> Seen:
    rc = draw(clusters())
    found = draw(st.lists(pods(), max_size=8, unique_by=lambda each: each.name))
    return seen(rc, *draw(heads(rc)), *found, head_service=draw(st.sampled_from([None, service(), service()])))


@given(situations())
def test_the_same_situation_gives_the_same_plan(situation: Seen) -> None:
    assert plan(situation) == plan(situation)


@given(situations())
def test_acting_on_plans_soon_leaves_nothing_to_decide(situation: Seen) -> None:
    assert plan(settled(situation)).is_empty


@given(situations())
def test_a_status_that_leads_nowhere_is_the_last_word(situation: Seen) -> None:
    for _ in range(8):
        found = plan(situation)
        told = after(situation, found)
        if found.status is not None and not found.status.leads_on and not found.actions:
            assert plan(told).is_empty
        situation = grown_up(told)


@given(situations())
def test_acting_on_plans_ends_in_what_was_asked_for(situation: Seen) -> None:
    end = settled(situation)
    spec = end.cluster.spec
    if any(each.type == "RayClusterSuspended" and each.status == "True" for each in end.cluster.status.conditions):
        assert end.pods == ()
        return
    assert not spec.suspend
    if len(end.heads) > 1:
        return  # somebody has to say which one is right
    assert len(end.heads) == 1
    assert {each.metadata.labels[labels.GROUP] for each in end.workers} <= {
        one.group_name for one in spec.worker_group_specs
    }
    for one in spec.worker_group_specs:
        wanted, found = scaling.desired_pods(one) // scaling.hosts(one), replicas(end, one)
        assert found >= wanted if spec.is_autoscaling and not one.suspend else found == wanted


def settled(situation: Seen) -> Seen:
    """The situation when nothing is decided any more, or after many decisions."""
    for _ in range(8):
        found = plan(situation)
        situation = grown_up(after(situation, found))
        if found.is_empty:
            break
    return situation


def replicas(situation: Seen, one: WorkerGroupSpec) -> int:
    """How many replicas a group has; Pods without a replica's name make one together, as many as it takes."""
    if scaling.hosts(one) == 1:
        return len(situation.of_group(one.group_name))
    members = [each for each in situation.of_group(one.group_name) if not was_whole(each)]
    names = [each.metadata.labels.get(labels.REPLICA_NAME, "") for each in members]
    return len(set(names) - {""}) + names.count("") // HOSTS


@given(situations())
def test_a_cluster_that_is_suspended_gets_no_pods(situation: Seen) -> None:
    held = {each.type for each in situation.cluster.status.conditions if each.status == "True"}
    if situation.cluster.spec.suspend or held & {"RayClusterSuspending", "RayClusterSuspended"}:
        made = [each for each in plan(situation).actions if isinstance(each, Create) and each.resource == PODS]
        assert made == []


@given(situations())
def test_acting_on_a_plan_leaves_no_object_to_make_or_remove(situation: Seen) -> None:
    carried_out = after(situation, replace(plan(situation), status=None))
    assert plan(carried_out).actions == []


@given(situations())
def test_there_is_never_a_second_head(situation: Seen) -> None:
    made = [each for each in plan(situation).actions if isinstance(each, Create) and each.scope == "head"]
    assert len(made) <= (0 if situation.heads else 1)


@given(situations())
def test_there_are_never_more_pods_than_wanted_beside_those_leaving(situation: Seen) -> None:
    found = plan(situation)
    then = after(situation, found)
    for one in situation.cluster.spec.worker_group_specs:
        before = [each for each in situation.of_group(one.group_name) if not each.is_leaving]
        live = [each for each in then.of_group(one.group_name) if not each.is_leaving]
        assert len(live) <= max(scaling.desired_pods(one), len(before))


@pytest.mark.slow
@settings(max_examples=300)
@given(situations())
def test_a_healthy_pod_goes_only_for_one_of_the_reasons_there_are(situation: Seen) -> None:
    by_uid = {each.metadata.uid: each for each in situation.pods}
    for action in plan(situation).actions:
        if isinstance(action, Delete):
            victim = by_uid[action.uid]
            assert not victim.is_leaving
            assert (
                is_being_suspended(situation)
                or is_outdated(situation)
                or beyond_repair(victim) is not None
                or (victim not in situation.heads and is_unwanted(situation, victim))
            ), action


def is_being_suspended(situation: Seen) -> bool:
    held = {each.type for each in situation.cluster.status.conditions if each.status == "True"}
    is_suspended = "RayClusterSuspended" in held and situation.cluster.spec.suspend is not False
    return is_suspended or "RayClusterSuspending" in held


def is_outdated(situation: Seen) -> bool:
    """Whether the cluster wants to be recreated, and its head was made by us from another spec."""
    spec = situation.cluster.spec
    made = [each.metadata.annotations for each in situation.heads]
    return (
        spec.upgrade_strategy is not None
        and bool(made)
        and made[0].get(labels.RECREATE_HASH, "") not in ("", revision(spec))
        and made[0].get(labels.KUBERAY_VERSION) == OPTIONS.build.version
    )


def is_unwanted(situation: Seen, worker: Pod) -> bool:
    """Whether a worker's group has no use for it."""
    name = worker.metadata.labels[labels.GROUP]
    one = next((each for each in situation.cluster.spec.worker_group_specs if each.group_name == name), None)
    if one is None or one.suspend:
        return True
    members = situation.of_group(name)
    live = [each for each in members if not each.is_leaving]
    named = scaling.named_workers(one)
    is_surplus = len(live) > scaling.desired_pods(one) and not situation.cluster.spec.is_autoscaling
    if scaling.hosts(one) == 1:
        return is_surplus or worker.name in named
    if was_whole(worker):
        return True
    replica = worker.metadata.labels.get(labels.REPLICA_NAME, "")
    mates = [
        each for each in live if each.metadata.labels.get(labels.REPLICA_NAME, "") == replica and not was_whole(each)
    ]
    is_broken = any(each.is_leaving or beyond_repair(each) is not None for each in members if each in mates or replica)
    is_incomplete = len(mates) % HOSTS != 0
    return is_surplus or is_broken or is_incomplete or any(each.name in named for each in mates)


def was_whole(worker: Pod) -> bool:
    """Whether a worker was a replica by itself, as before `numOfHosts` was raised from 1."""
    found = worker.metadata.labels
    return labels.REPLICA_INDEX in found and labels.REPLICA_NAME not in found


@given(situations())
def test_names_of_new_pods_are_new(situation: Seen) -> None:
    made = [each.name for each in plan(situation).actions if isinstance(each, Create) and each.resource == PODS]
    assert len(set(made)) == len(made)
    assert not set(made) & {each.name for each in situation.pods}


@given(situations())
def test_every_action_tells_why(situation: Seen) -> None:
    assert all(each.why for each in plan(situation).actions)
