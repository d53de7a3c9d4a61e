"""The gate RayClusterStatusConditions closed: no condition is written, and none is gone by."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from kuberay.api.gates import FeatureGates, Gate
from kuberay.api.meta import is_true
from kuberay.controllers.raycluster.deletion import FINALIZER
from kuberay.controllers.raycluster.status import timestamp
from tests.build.clusters import group
from tests.controllers.raycluster import situations
from tests.controllers.raycluster.situations import (
    NOW,
    OPTIONS,
    after,
    cluster,
    creates,
    deletes,
    grown_up,
    head,
    holding,
    pod,
    seen,
    workers,
)

CLOSED = replace(OPTIONS, gates=FeatureGates({Gate.RAY_CLUSTER_STATUS_CONDITIONS: False}))


def plan(situation: Any, now: float = NOW) -> Any:
    return situations.plan(situation, CLOSED, now)


class TestItsStatus:
    def test_it_has_every_field_but_conditions(self) -> None:
        situation = grown_up(seen(workers(1), head(), pod("a")))
        status = after(situation, plan(situation)).cluster.status
        assert status.conditions == []
        assert status.state == "ready"
        assert status.ready_worker_replicas == 1
        assert plan(after(situation, plan(situation))).is_empty

    def test_conditions_of_before_are_left_as_they_are(self) -> None:
        situation = seen(workers(0, status=holding("RayClusterProvisioned")))
        before = situation.cluster.status.conditions
        assert after(situation, plan(situation)).cluster.status.conditions == before

    def test_what_is_wrong_with_a_spec_is_told_by_an_event_and_only_once(self) -> None:
        situation = seen(cluster(groups=[group("a"), group("a")]))
        (event,) = plan(situation).events
        assert "spec.workerGroupSpecs[1].groupName" in event.note
        told = after(replace(situation, reported=frozenset({event.once})), plan(situation))
        assert plan(told).is_empty


class TestSuspending:
    """raycluster EX-52: no conditions; Pods go while `suspend` is true."""

    def test_pods_go_at_once_and_the_state_tells_when_they_are_gone(self) -> None:
        situation = seen(workers(1, suspend=True), head(), pod("a"))
        found = plan(situation)
        assert deletes(found) == ["rc-head", "a"]
        gone = replace(after(situation, found), pods=(), counted=None)
        done = after(gone, plan(gone))
        assert done.cluster.status.state == "suspended"
        assert done.cluster.status.conditions == []
        assert plan(done).is_empty

    def test_it_resumes_when_the_field_says_so_or_nothing(self) -> None:
        for fields in ({}, {"suspend": False}):
            situation = seen(workers(1, status={"state": "suspended"}, **fields))
            assert len(creates(plan(situation))) == 2

    def test_what_conditions_said_before_does_not_matter(self) -> None:
        for kind in ("RayClusterSuspending", "RayClusterSuspended"):
            situation = seen(workers(1, status=holding(kind)), head())
            assert deletes(plan(situation)) == []
            assert len(creates(plan(situation))) == 1


class TestWhenConditionsComeBack:
    """The gate was closed for a while, and a condition is left from before."""

    def test_what_was_resumed_meanwhile_goes_on(self) -> None:
        rc = workers(1, status={**holding("RayClusterSuspended"), "state": "ready"})
        situation = seen(rc, head(), pod("w", index=0))
        found = situations.plan(situation)
        assert not found.actions
        later = after(situation, found)
        assert not is_true(later.cluster.status.conditions, "RayClusterSuspended")
        assert not situations.plan(later).actions


class TestCleaningUpRedis:
    def test_the_deadline_counts_from_the_deletion_as_nothing_else_is_remembered(self) -> None:
        metadata = {"deletionTimestamp": timestamp(NOW), "finalizers": [FINALIZER]}
        rc = cluster(metadata=metadata, gcsFaultToleranceOptions={"redisAddress": "redis:6379"})
        situation = seen(rc)
        waiting = plan(situation)
        assert waiting.look_again == 300.0
        assert after(situation, waiting).cluster.status.conditions == []
        (event,) = plan(situation, NOW + 300).events
        assert event.reason == "ForceDeletedStuckCluster"
