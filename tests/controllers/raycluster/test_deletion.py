"""The end of a cluster whose state is in Redis."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import orjson
import pytest

from kuberay.api.core import Job, JobCondition, JobStatus, Metadata
from kuberay.api.gates import FeatureGates, Gate
from kuberay.controllers.failures import Failure
from kuberay.controllers.options import ControllerOptions
from kuberay.controllers.plan import Create, Delete, EmitEvent, Patch, Plan
from kuberay.controllers.raycluster.deletion import FINALIZER, FINALIZER_SCOPE, JOB_SCOPE, PODS_SCOPE
from kuberay.controllers.raycluster.status import timestamp
from kuberay.kube.resources import JOBS, PODS
from tests.build.clusters import template
from tests.controllers.raycluster.situations import (
    NOW,
    OPTIONS,
    cluster,
    creates,
    deletes,
    head,
    plan,
    pod,
    seen,
    with_metadata,
)

if TYPE_CHECKING:
    from kuberay.api.v1 import RayCluster

REDIS = {"redisAddress": "redis:6379"}


def redis_cluster(**fields: Any) -> RayCluster:
    return cluster(gcsFaultToleranceOptions=REDIS, **fields)


def dying(
    *,
    annotations: dict[str, str] | None = None,
    begun: float | None = None,
    kept_by: str = "someone.else/keeps-it",
    options: dict[str, Any] | None = REDIS,
    **fields: Any,
) -> RayCluster:
    """A cluster whose deletion was asked for a minute ago, with the finalizer; its cleanup began so long ago."""
    metadata = {
        "deletionTimestamp": timestamp(NOW - 60),
        "finalizers": [kept_by, FINALIZER],
        "annotations": annotations or {},
    }
    if begun is not None:
        fields["status"] = {
            "conditions": [
                {
                    "type": "RedisCleanup",
                    "status": "True",
                    "reason": "CleanupJobRunning",
                    "message": "",
                    "lastTransitionTime": timestamp(NOW - begun),
                }
            ]
        }
    if options is not None:
        fields["gcsFaultToleranceOptions"] = options
    return cluster(metadata=metadata, **fields)


def job(*conditions: str) -> Job:
    found = [JobCondition(type=each, status="True", reason="Because") for each in conditions]
    return Job(metadata=Metadata(name="rc-redis-cleanup", namespace="default"), status=JobStatus(conditions=found))


def finalizers(found: Plan) -> list[str] | None:
    """The finalizers that a plan writes, if any."""
    patches = [each for each in found.actions if isinstance(each, Patch)]
    return patches[0].patch["metadata"]["finalizers"] if patches else None


def warning(found: Plan) -> EmitEvent:
    (event,) = found.events
    assert event.type == "Warning"
    assert event.action == "Cleanup"
    return event


def condition(found: Plan) -> tuple[str, str, str]:
    assert found.status is not None
    (each,) = [each for each in found.status.patch["conditions"] if each["type"] == "RedisCleanup"]
    return each["status"], each["reason"], each["message"]


RELEASED = ["someone.else/keeps-it"]


class TestBeforeItsEnd:
    """raycluster EX-23."""

    def test_the_finalizer_is_there_before_anything_can_be_stored(self) -> None:
        found = plan(seen(redis_cluster()))
        (first, *_) = found.stages
        assert finalizers(found) == [FINALIZER]
        assert isinstance(first[0], Patch)
        assert creates(found)[0] == "head Pod rc-head"

    def test_it_is_written_only_onto_what_was_seen(self) -> None:
        patch = plan(seen(redis_cluster())).actions[0]
        assert isinstance(patch, Patch)
        assert patch.uid == "u-1"
        assert patch.patch["metadata"]["resourceVersion"] == "10"

    def test_others_are_kept(self) -> None:
        rc = redis_cluster(metadata={"finalizers": ["someone.else/keeps-it"]})
        assert finalizers(plan(seen(rc))) == ["someone.else/keeps-it", FINALIZER]

    def test_it_is_written_once(self) -> None:
        rc = redis_cluster(metadata={"finalizers": [FINALIZER]})
        assert finalizers(plan(seen(rc))) is None

    def test_a_finalizer_that_is_refused_keeps_the_head_waiting(self) -> None:
        failure = Failure(scope="finalizer", reason="", message="no", generation=1, attempts=1, retry_at=NOW + 1)
        assert plan(seen(redis_cluster(), failures={"finalizer": failure})).actions == []

    def test_an_operator_that_leaves_redis_alone_needs_none(self) -> None:
        found = plan(seen(redis_cluster()), replace(OPTIONS, redis_cleanup=False))
        assert finalizers(found) is None
        assert creates(found)[0] == "head Pod rc-head"

    def test_a_cluster_with_its_state_on_a_volume_needs_none(self) -> None:
        """raycluster EX-27."""
        gates = FeatureGates({Gate.GCS_FAULT_TOLERANCE_EMBEDDED_STORAGE: True})
        rc = cluster(gcsFaultToleranceOptions={"backend": "rocksdb"})
        found = plan(seen(rc), replace(OPTIONS, gates=gates))
        assert finalizers(found) is None
        assert "GCS storage PVC rc-gcs-pvc" in creates(found)


class TestPodsGoFirst:
    """raycluster EX-24."""

    def test_all_of_them(self) -> None:
        found = plan(seen(dying(), pod("w"), head()))
        assert deletes(found) == ["rc-head", "w"]
        assert creates(found) == []
        assert condition(found)[:2] == ("False", "HeadPodTerminating")

    def test_a_head_that_is_leaving_may_still_write(self) -> None:
        found = plan(seen(dying(), head(leaving=True)))
        assert found.actions == []
        assert "rc-head" in condition(found)[2]

    @pytest.mark.parametrize("leaving", [False, True])
    def test_workers_are_not_waited_for(self, leaving: bool) -> None:
        found = plan(seen(dying(), pod("w", leaving=leaving)))
        assert deletes(found) == ([] if leaving else ["w"])
        assert creates(found) == ["Redis cleanup Job rc-redis-cleanup"]

    def test_without_any_the_cleanup_begins(self) -> None:
        found = plan(seen(dying()))
        (create,) = found.actions
        assert isinstance(create, Create)
        assert create.resource == JOBS
        assert condition(found)[:2] == ("True", "CleanupJobRunning")

    def test_the_job_is_asked_for_only_once(self) -> None:
        found = plan(seen(dying(begun=1), cleanup_jobs=(job(),)))
        assert found.actions == []
        assert found.look_again == 299


class TestInTheForeground:
    """The garbage collector removes all that the cluster owns before it lets it go, a Job that comes late included."""

    def test_the_job_waits_until_everything_else_has_gone(self) -> None:
        found = plan(seen(dying(kept_by="foregroundDeletion"), pod("w", leaving=True)))
        assert found.actions == []
        assert condition(found)[:2] == ("False", "ForegroundDeletion")

    def test_nobody_tells_when_that_is_so(self) -> None:
        assert plan(seen(dying(kept_by="foregroundDeletion"))).look_again == 1

    def test_workers_are_removed_as_ever(self) -> None:
        assert deletes(plan(seen(dying(kept_by="foregroundDeletion"), pod("w")))) == ["w"]

    def test_the_deadline_does_not_run_meanwhile(self) -> None:
        rc = dying(kept_by="foregroundDeletion", annotations={"ray.io/gcs-ft-deletion-timeout": "1"}, begun=2)
        assert finalizers(plan(seen(rc))) is None

    def test_a_job_that_has_ended_in_time_is_enough(self) -> None:
        rc = dying(kept_by="foregroundDeletion")
        assert finalizers(plan(seen(rc, cleanup_jobs=(job("Complete"),)))) == ["foregroundDeletion"]


class TestTheJobEnds:
    """raycluster EX-25."""

    def test_well(self) -> None:
        found = plan(seen(dying(), cleanup_jobs=(job("SuccessCriteriaMet", "Complete"),)))
        assert finalizers(found) == RELEASED
        assert found.events == ()

    @pytest.mark.parametrize("how", ["Failed", "FailureTarget"])
    def test_badly_and_what_is_left_is_named(self, how: str) -> None:
        found = plan(seen(dying(), cleanup_jobs=(job(how),)))
        assert finalizers(found) == RELEASED
        assert warning(found).reason == "RedisCleanupFailed"
        assert "storage namespace u-1" in warning(found).note

    def test_a_job_that_has_only_met_its_criteria_has_not_ended(self) -> None:
        assert finalizers(plan(seen(dying(), cleanup_jobs=(job("SuccessCriteriaMet"),)))) is None

    def test_late_but_well(self) -> None:
        found = plan(seen(dying(begun=1000), cleanup_jobs=(job("Complete"),)))
        assert finalizers(found) == RELEASED
        assert found.events == ()


class TestTheDeadline:
    """raycluster EX-26, but that the time before the cleanup could begin does not count."""

    def test_ends_the_waiting_with_a_warning(self) -> None:
        found = plan(seen(dying(begun=300, annotations={}), cleanup_jobs=(job(),)))
        assert finalizers(found) == RELEASED
        assert warning(found).reason == "ForceDeletedStuckCluster"
        assert "storage namespace u-1" in warning(found).note

    def test_is_the_users_to_set(self) -> None:
        found = plan(seen(dying(begun=2, annotations={"ray.io/gcs-ft-deletion-timeout": "1"})))
        assert finalizers(found) == RELEASED
        assert creates(found) == []
        assert warning(found).reason == "ForceDeletedStuckCluster"

    @pytest.mark.parametrize("text", ["0", "-5", "abc", "1e3", "9" * 30])
    def test_is_five_minutes_when_it_cannot_be_read(self, text: str) -> None:
        rc = dying(begun=299, annotations={"ray.io/gcs-ft-deletion-timeout": text})
        found = plan(seen(rc, cleanup_jobs=(job(),)))
        assert finalizers(found) is None
        assert found.look_again == 1

    @pytest.mark.parametrize("text", ["2147483647", "4000000000", "+600", "0000000600"])
    def test_may_be_as_long_as_the_user_likes(self, text: str) -> None:
        rc = dying(begun=299, annotations={"ray.io/gcs-ft-deletion-timeout": text})
        assert plan(seen(rc, cleanup_jobs=(job(),))).look_again == int(text) - 299

    def test_does_not_run_while_a_head_is_still_there(self) -> None:
        rc = dying(annotations={"ray.io/gcs-ft-deletion-timeout": "1"})
        assert finalizers(plan(seen(rc, head(leaving=True)))) is None

    def test_the_annotated_namespace_is_the_one_that_is_named(self) -> None:
        annotations = {"ray.io/ft-enabled": "true", "ray.io/external-storage-namespace": "mine"}
        found = plan(seen(dying(begun=300, options=None, annotations=annotations)))
        assert "storage namespace mine" in warning(found).note

    @pytest.mark.parametrize(
        ("variable", "told"),
        [
            ({"value": "mine"}, "storage namespace mine is left"),
            ({"valueFrom": {"fieldRef": {}}}, "that the head's variable RAY_external_storage_namespace refers to"),
        ],
    )
    def test_so_is_one_that_a_variable_of_the_user_gives(self, variable: dict[str, Any], told: str) -> None:
        given = template("ray-head", env=[{"name": "RAY_external_storage_namespace", **variable}])
        assert told in warning(plan(seen(dying(begun=300, head={"template": given})))).note


class TestRefusals:
    def refused(self, retry_in: float, scope: str = JOB_SCOPE) -> dict[str, Failure]:
        failure = Failure(
            scope=scope,
            reason="FailedCreateRedisCleanupJob",
            message="exceeded quota",
            generation=1,
            attempts=1,
            retry_at=NOW + retry_in,
        )
        return {scope: failure}

    def test_a_job_that_was_refused_waits(self) -> None:
        found = plan(seen(dying(begun=1), failures=self.refused(1)))
        assert found.actions == []
        assert found.look_again == 1
        assert condition(found) == ("True", "FailedCreateRedisCleanupJob", "exceeded quota")

    def test_and_is_tried_again(self) -> None:
        assert creates(plan(seen(dying(begun=1), failures=self.refused(-1)))) == ["Redis cleanup Job rc-redis-cleanup"]

    def test_but_not_for_ever(self) -> None:
        assert finalizers(plan(seen(dying(begun=300), failures=self.refused(1)))) == RELEASED

    def test_a_worker_that_cannot_be_removed_is_not_tried_without_a_pause_and_not_waited_for(self) -> None:
        found = plan(seen(dying(begun=1), pod("w"), failures=self.refused(1, PODS_SCOPE)))
        assert deletes(found) == []
        assert creates(found) == ["Redis cleanup Job rc-redis-cleanup"]
        assert found.held == {PODS_SCOPE}
        assert found.look_again == 1

    def test_a_worker_that_is_refused_now_keeps_no_job_from_starting(self) -> None:
        (stage,) = plan(seen(dying(begun=1), pod("w"))).stages
        assert [type(action) for action in stage] == [Delete, Create]

    def test_a_head_that_cannot_be_removed_is_not_tried_without_a_pause(self) -> None:
        found = plan(seen(dying(), head(), pod("w"), failures=self.refused(1, PODS_SCOPE)))
        assert (found.actions, found.look_again) == ([], 1)

    def test_what_is_left_is_told_once_however_often_it_is_tried(self) -> None:
        failed = (job("Failed"),)
        assert warning(plan(seen(dying(begun=1), cleanup_jobs=failed))).once == "RedisCleanupFailed"
        told = frozenset({"RedisCleanupFailed"})
        again = plan(seen(dying(begun=1), cleanup_jobs=failed, reported=told))
        assert (finalizers(again), again.events, again.told) == (RELEASED, (), told)

    @pytest.mark.parametrize(
        ("rc", "facts"),
        [
            (dying(options={"backend": "rocksdb"}), {}),
            (dying(options=None), {}),
            (dying(), {"is_namespace_closing": True}),
            (dying(begun=1), {"cleanup_jobs": (job("Complete"),)}),
            (dying(begun=1), {"cleanup_jobs": (job("Failed"),)}),
            (dying(begun=300), {}),
        ],
    )
    def test_a_finalizer_that_cannot_be_removed_is_not_tried_without_a_pause(
        self, rc: RayCluster, facts: dict[str, Any]
    ) -> None:
        found = plan(seen(rc, failures=self.refused(1, FINALIZER_SCOPE), **facts))
        assert (found.actions, found.look_again) == ([], 1)
        assert found.held == {FINALIZER_SCOPE}
        assert finalizers(plan(seen(rc, failures=self.refused(-1, FINALIZER_SCOPE), **facts))) == RELEASED


class TestNothingCanBeCleaned:
    def test_in_a_namespace_that_is_being_deleted(self) -> None:
        found = plan(seen(dying(), is_namespace_closing=True))
        assert finalizers(found) == RELEASED
        assert warning(found).reason == "SkippedRedisCleanup"
        assert "storage namespace u-1" in warning(found).note
        assert warning(found).is_about_namespace

    def test_nor_before_its_own_turn_has_come_there(self) -> None:
        """With the namespace go the operator's rights in it, and those may be gone when the cluster's turn has come."""
        rc = redis_cluster(metadata={"finalizers": [*RELEASED, FINALIZER]})
        found = plan(seen(rc, head(), is_namespace_closing=True))
        assert finalizers(found) == RELEASED
        assert warning(found).is_about_namespace
        assert plan(seen(cluster(), is_namespace_closing=True)) == Plan()

    def test_when_fault_tolerance_was_switched_off_meanwhile(self) -> None:
        found = plan(seen(dying(options=None)))
        assert finalizers(found) == RELEASED
        assert "storage namespace u-1" in warning(found).note

    def test_when_its_pods_are_to_stay(self) -> None:
        """Its head runs on and needs what is there; none of them is removed."""
        found = plan(seen(dying(kept_by="orphan"), head()))
        assert finalizers(found) == ["orphan"]
        assert deletes(found) == []
        assert warning(found).reason == "SkippedRedisCleanup"

    def test_when_its_head_was_let_go(self) -> None:
        left = with_metadata(head(), owner_references=())
        found = plan(seen(dying(), strangers=(left,)))
        assert finalizers(found) == RELEASED
        assert "head Pod rc-head was left to run on" in warning(found).note

    def test_when_the_operator_leaves_redis_alone(self) -> None:
        found = plan(seen(dying()), replace(OPTIONS, redis_cleanup=False))
        assert finalizers(found) == RELEASED
        assert warning(found).reason == "SkippedRedisCleanup"

    def test_when_the_head_has_no_container(self) -> None:
        found = plan(seen(dying(head={"template": {"spec": {"containers": []}}})))
        assert finalizers(found) == RELEASED

    def test_when_the_head_could_never_have_been_made(self) -> None:
        spoiled = template("ray", ports=[{"name": "dashboard"}], volumeMounts=["x"] * 100)
        found = plan(seen(dying(head={"template": spoiled})))
        assert finalizers(found) == RELEASED
        event = warning(found)
        assert event.reason == "SkippedRedisCleanup"
        assert "spec.headGroupSpec.template.spec.containers[0].ports[0].containerPort: is required" in event.note
        assert len(event.note) < 500
        assert "storage namespace u-1" in event.note

    def test_but_a_job_that_was_made_before_may_end(self) -> None:
        spoiled = dying(head={"template": template("ray", volumeMounts=["x"])})
        assert finalizers(plan(seen(spoiled, cleanup_jobs=(job(),)))) is None
        assert plan(seen(spoiled, cleanup_jobs=(job("Complete"),))).events == ()

    def test_a_template_that_is_refused_may_still_do(self) -> None:
        refused = template("ray", pod={"containers": [{"name": "ray", "image": "ray"}, {"image": "nameless"}]})
        assert creates(plan(seen(dying(head={"template": refused})))) == ["Redis cleanup Job rc-redis-cleanup"]

    def test_when_the_state_is_on_a_volume(self) -> None:
        """raycluster EX-27."""
        found = plan(seen(dying(options={"backend": "rocksdb"}), head()))
        assert finalizers(found) == RELEASED
        assert found.events == ()


class TestDeletion:
    def test_of_a_plain_cluster_is_left_to_kubernetes(self) -> None:
        rc = cluster(metadata={"deletionTimestamp": timestamp(NOW)})
        assert plan(seen(rc, head(), pod("w"))) == Plan()

    def test_does_not_depend_on_who_has_come_to_manage_it(self) -> None:
        """A cluster may be given to another manager while it runs; none of them knows our finalizer."""
        given_away = dying(managedBy="kueue.x-k8s.io/multikueue")
        assert deletes(plan(seen(given_away, head()))) == ["rc-head"]
        assert finalizers(plan(seen(given_away, cleanup_jobs=(job("Complete"),)))) == RELEASED

    def test_does_not_depend_on_whether_the_spec_is_valid(self) -> None:
        broken = template("ray-head", env=[{"name": "RAY_REDIS_ADDRESS", "value": "x"}])
        rc = dying(head={"template": broken, "rayStartParams": {"redis-password": "x"}}, groups=[])
        assert creates(plan(seen(rc))) == ["Redis cleanup Job rc-redis-cleanup"]

    def test_the_job_takes_what_the_head_was_made_from(self) -> None:
        (create,) = plan(seen(dying())).actions
        assert isinstance(create, Create)
        made = orjson.loads(create.body)
        assert made["spec"]["template"]["spec"]["containers"][0]["name"] == "ray-head"

    def test_no_more_pods_than_a_batch_go_at_once(self) -> None:
        options = ControllerOptions(resync=None, batch=2)
        found = plan(seen(dying(), head(), pod("a"), pod("b")), options)
        assert len([each for each in found.actions if each.resource == PODS]) == 2
