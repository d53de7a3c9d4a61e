"""What holds in every situation, however strange."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hypothesis import given
from hypothesis import strategies as st

from kuberay.build import labels
from kuberay.controllers.plan import Create, Delete
from kuberay.controllers.raycluster import scaling
from kuberay.controllers.raycluster.health import beyond_repair
from tests.build.clusters import group
from tests.controllers.raycluster.situations import after, cluster, grown_up, head, holding, plan, pod, seen, service

if TYPE_CHECKING:
    from kuberay.api.core import Pod
    from kuberay.api.v1 import RayCluster
    from kuberay.controllers.raycluster.observe import Seen

GROUPS = ("a", "b", "gone")
NAMES = [f"p{number}" for number in range(8)]

numbers = st.integers(0, 6)


@st.composite
def groups(draw: st.DrawFn, name: str) -> dict[str, Any]:
    low = draw(st.integers(0, 2))
    return group(
        name,
        replicas=draw(st.none() | numbers),
        minReplicas=low,
        maxReplicas=low + draw(st.integers(0, 5)),
        suspend=draw(st.sampled_from([None, None, False, True])),
        scaleStrategy={"workersToDelete": draw(st.lists(st.sampled_from([*NAMES, "rc-head"]), max_size=3))},
    )


@st.composite
def clusters(draw: st.DrawFn) -> RayCluster:
    fields: dict[str, Any] = {}
    suspend = draw(st.sampled_from([None, None, None, False, True]))
    if suspend is not None:
        fields["suspend"] = suspend
    held = draw(st.sampled_from([(), (), (), ("RayClusterSuspending",), ("RayClusterSuspended",)]))
    if held:
        fields["status"] = holding(*held)
    return cluster(groups=[draw(groups(name)) for name in draw(st.sampled_from([["a"], ["a", "b"], []]))], **fields)


@st.composite
def pods(draw: st.DrawFn) -> Pod:
    return pod(
        draw(st.sampled_from(NAMES)),
        group=draw(st.sampled_from(GROUPS)),
        phase=draw(st.sampled_from(["Pending", "Running", "Running", "Failed", "Succeeded", "Unknown", ""])),
        ready=draw(st.sampled_from([None, False, True])),
        leaving=draw(st.booleans()),
        index=draw(st.none() | numbers),
        age=draw(st.sampled_from([1.0, 60.0, 3600.0])),
        policy=draw(st.sampled_from(["Always", "Never", "OnFailure"])),
        ended=draw(st.booleans()),
    )


@st.composite
def situations(draw: st.DrawFn) -> Seen:
    found = draw(st.lists(pods(), max_size=8, unique_by=lambda each: each.name))
    phases = st.sampled_from(["Pending", "Running", "Failed"])
    heads = [head(phase=draw(phases), leaving=draw(st.booleans()))] if draw(st.booleans()) else []
    if draw(st.integers(0, 9)) == 0:
        heads.append(head("rc-head-2"))
    return seen(draw(clusters()), *heads, *found, head_service=draw(st.sampled_from([None, service(), service()])))


@given(situations())
def test_the_same_situation_gives_the_same_plan(situation: Seen) -> None:
    assert plan(situation) == plan(situation)


@given(situations())
def test_acting_on_plans_soon_leaves_nothing_to_decide(situation: Seen) -> None:
    for _ in range(8):
        found = plan(situation)
        situation = grown_up(after(situation, found))
        if found.is_empty:
            break
    assert plan(situation).is_empty


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


@given(situations())
def test_a_healthy_pod_goes_only_for_one_of_the_reasons_there_are(situation: Seen) -> None:
    spec = {one.group_name: one for one in situation.cluster.spec.worker_group_specs}
    by_uid = {each.metadata.uid: each for each in situation.pods}
    for action in plan(situation).actions:
        if not isinstance(action, Delete):
            continue
        victim = by_uid[action.uid]
        name = victim.metadata.labels[labels.GROUP]
        one = spec.get(name)
        live = [each for each in situation.of_group(name) if not each.is_leaving]
        suspending = any(each.type == "RayClusterSuspending" for each in situation.cluster.status.conditions)
        assert not victim.is_leaving
        assert (
            suspending
            or beyond_repair(victim) is not None
            or one is None
            or bool(one.suspend)
            or (one.scale_strategy is not None and victim.name in one.scale_strategy.workers_to_delete)
            or len(live) > scaling.desired_pods(one)
        )


@given(situations())
def test_names_of_new_pods_are_new(situation: Seen) -> None:
    made = [each.name for each in plan(situation).actions if isinstance(each, Create)]
    assert len(set(made)) == len(made)
    assert not set(made) & {each.name for each in situation.pods}


@given(situations())
def test_every_action_tells_why(situation: Seen) -> None:
    assert all(each.why for each in plan(situation).actions)
