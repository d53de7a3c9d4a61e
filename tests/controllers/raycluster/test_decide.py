"""What is done about a RayCluster, situation by situation."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import orjson
import pytest

from kuberay.api.gates import FeatureGates, Gate
from kuberay.build.options import BuildOptions
from kuberay.controllers.failures import Failure
from kuberay.controllers.options import ControllerOptions
from kuberay.controllers.plan import Create, Delete
from kuberay.kube.resources import SERVICES
from tests.build.clusters import group, template
from tests.controllers.raycluster.situations import (
    NOW,
    OWNER,
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
    workers,
)


def failure(scope: str, *, retry_in: float = 10.0, generation: int = 1) -> Failure:
    return Failure(
        scope=scope,
        reason="FailedCreateWorkerPod",
        message="exceeded quota",
        generation=generation,
        attempts=1,
        retry_at=NOW + retry_in,
    )


def nouns(names: list[str]) -> list[str]:
    return [name.rpartition(" ")[0] for name in names]


class TestANewCluster:
    def test_its_service_comes_before_its_head_and_its_head_before_its_workers(self) -> None:
        found = plan(seen(workers(2), head_service=None))
        assert [nouns(creates(replace(found, stages=(stage,)))) for stage in found.stages] == [
            ["service"],
            ["head Pod"],
            ["worker Pod", "worker Pod"],
        ]

    def test_every_action_tells_why(self) -> None:
        found = plan(seen(workers(1), head_service=None))
        assert [action.why for action in found.actions] == [
            "the cluster has no head Service",
            "the cluster has no head Pod",
            "worker group wg has 0 of 1 Pods",
        ]

    def test_the_name_of_an_object_is_the_one_in_its_body(self) -> None:
        for action in plan(seen(workers(3), head_service=None)).actions:
            assert isinstance(action, Create)
            assert orjson.loads(action.body)["metadata"]["name"] == action.name

    @pytest.mark.parametrize("manager", [{}, {"managedBy": "ray.io/kuberay-operator"}])
    def test_managed_by_nobody_else_is_ours(self, manager: dict[str, str]) -> None:
        """raycluster EX-02."""
        found = plan(seen(cluster(**manager), head_service=None))
        assert nouns(creates(found)) == ["service", "head Pod", "worker Pod"]
        assert found.status is not None

    @pytest.mark.parametrize("manager", ["", "kueue.x-k8s.io/multikueue", "controller.com/invalid"])
    def test_managed_by_somebody_else_is_left_alone(self, manager: str) -> None:
        """raycluster EX-03."""
        found = plan(seen(cluster(managedBy=manager), head_service=None))
        assert found.is_empty
        assert found.look_again is None

    def test_a_settled_cluster_is_looked_at_again_now_and_then(self) -> None:
        """raycluster EX-05."""
        assert plan(seen(workers(0), head()), ControllerOptions(resync=60.0)).look_again == 60.0
        assert plan(seen(workers(0), head()), ControllerOptions(resync=None)).look_again is None


class TestALeavingCluster:
    def test_it_is_left_to_the_garbage_collector(self) -> None:
        leaving = cluster(metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})
        assert plan(seen(leaving, head())).is_empty

    def test_an_invalid_spec_does_not_matter_any_more(self) -> None:
        leaving = cluster(metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}, groups=[group(), group()])
        assert plan(seen(leaving)).is_empty


class TestABadSpec:
    def test_nothing_is_started_and_the_field_is_named(self) -> None:
        found = plan(seen(cluster(groups=[group("a"), group("a")]), head_service=None))
        assert not found.actions
        (event,) = found.events
        assert (event.type, event.reason, event.action) == ("Warning", "InvalidRayClusterSpec", "Validate")
        assert "spec.workerGroupSpecs[1].groupName" in event.note
        assert found.status is not None
        assert found.status.is_urgent
        (blocked,) = [each for each in found.status.patch["conditions"] if each["type"] == "Blocked"]
        assert blocked["status"] == "True"
        assert blocked["reason"] == "InvalidRayClusterSpec"
        assert "spec.workerGroupSpecs[1].groupName" in blocked["message"]

    @pytest.mark.parametrize(
        "wrong", [group("gpu", numOfHosts=0), group("gpu", template=template("ray-worker", image=1))]
    )
    def test_a_group_is_told_by_its_name_as_well(self, wrong: dict[str, Any]) -> None:
        (event,) = plan(seen(cluster(groups=[group("cpu"), wrong]))).events
        assert "spec.workerGroupSpecs[1]." in event.note
        assert event.note.endswith(" (group 'gpu')")

    def test_a_name_that_is_too_long(self) -> None:
        (event,) = plan(seen(cluster(name="a" * 54))).events
        assert event.reason == "InvalidRayClusterMetadata"
        assert "metadata.name" in event.note

    def test_a_feature_that_is_not_there_yet(self) -> None:
        options = ControllerOptions(gates=FeatureGates({Gate.RAY_CLUSTER_MTLS: True}))
        found = plan(seen(cluster(tlsOptions={"enabled": True}), head_service=None), options)
        assert not found.actions
        (event,) = found.events
        assert event.reason == "NotSupportedYet"
        assert "spec.tlsOptions" in event.note

    def test_a_status_that_contradicts_itself(self) -> None:
        """raycluster EX-13."""
        contradiction = holding("RayClusterSuspending", "RayClusterSuspended")
        found = plan(seen(cluster(status=contradiction), head()))
        assert not found.actions
        assert found.events[0].reason == "InvalidRayClusterStatus"

    @pytest.mark.parametrize("where", ["head", "groups"])
    def test_a_template_that_no_pod_can_be_made_from(self, where: str) -> None:
        """Slim CRDs let it through."""
        spoiled = template("ray", ports=[{"name": "dashboard"}], volumeMounts=["x"])
        fields: Any = {"head": {"template": spoiled}} if where == "head" else {"groups": [group(template=spoiled)]}
        found = plan(seen(cluster(**fields), head_service=None))
        assert not found.actions
        (event,) = found.events
        assert event.reason == "InvalidRayClusterSpec"
        assert ".template.spec.containers[0].ports[0].containerPort: is required" in event.note
        assert ".template.spec.containers[0].volumeMounts[0]: expected an object, got a string" in event.note

    def test_a_field_of_a_template_that_is_only_unknown_is_told_and_stops_nothing(self) -> None:
        rc = cluster(groups=[group(template=template("ray", pod={"fromTheFuture": True}))])
        found = plan(seen(rc))
        assert nouns(creates(found)) == ["head Pod", "worker Pod"]
        (event,) = found.events
        assert "spec.workerGroupSpecs[0].template.spec.fromTheFuture: unknown field" in event.note

    def test_it_is_told_once(self) -> None:
        situation = seen(cluster(groups=[group("a"), group("a")]), head())
        assert plan(after(situation, plan(situation))).is_empty

    def test_however_much_there_is_to_tell(self) -> None:
        """A condition takes so many characters and no more."""
        wrong = [group(f"group-{number}-{'x' * 40}", minReplicas=5, maxReplicas=1) for number in range(400)]
        situation = seen(cluster(groups=wrong), head())
        assert plan(after(situation, plan(situation))).is_empty

    def test_a_suspended_group_beside_the_autoscaler_keeps_its_pods(self) -> None:
        """raycluster EX-65."""
        rc = cluster(groups=[group(suspend=True)], enableInTreeAutoscaling=True)
        found = plan(seen(rc, head(), pod("a")))
        assert not found.actions
        assert "spec.workerGroupSpecs[0].suspend" in found.events[0].note

    def test_a_running_cluster_keeps_its_pods(self) -> None:
        situation = seen(cluster(groups=[group("a", replicas=0), group("a")]), head(), pod("x", group="a"))
        assert deletes(plan(situation)) == []

    def test_it_starts_when_it_is_mended(self) -> None:
        bad = seen(cluster(groups=[group("a"), group("a")]))
        told = after(bad, plan(bad))
        good = replace(told, cluster=cluster(groups=[group("a")], status=told.cluster.status.to_dict()))
        found = plan(good)
        assert nouns(creates(found)) == ["head Pod", "worker Pod"]
        assert found.status is not None
        assert "Blocked" not in [each["type"] for each in found.status.patch["conditions"]]


class TestTheHead:
    def test_it_has_one_name_only(self) -> None:
        assert creates(plan(seen(workers(0)))) == ["head Pod rc-head"]

    def test_a_generated_name_is_the_same_when_asked_twice(self) -> None:
        options = ControllerOptions(build=BuildOptions(deterministic_head_name=False))
        first, second = plan(seen(workers(0)), options), plan(seen(workers(0)), options)
        assert creates(first) == creates(second)
        assert creates(first)[0].startswith("head Pod rc-head-")

    def test_one_that_is_there_is_kept_whatever_its_name(self) -> None:
        assert not plan(seen(workers(0), head("rc-head-x7k2p"))).actions

    @pytest.mark.parametrize("policy", ["Always", "OnFailure", "Never"])
    def test_one_that_has_ended_goes_and_is_replaced_when_it_is_gone(self, policy: str) -> None:
        """raycluster EX-44."""
        situation = seen(workers(0), head(phase="Failed", policy=policy))
        found = plan(situation)
        assert deletes(found) == ["rc-head"]
        assert creates(found) == []
        leaving = after(situation, found)
        assert not plan(leaving).actions
        assert creates(plan(replace(leaving, pods=()))) == ["head Pod rc-head"]

    def test_one_that_ends_at_once_is_not_replaced_at_once(self) -> None:
        found = plan(seen(workers(0), head(phase="Failed", age=1)))
        assert deletes(found) == []
        assert found.look_again == 4.0

    def test_a_leaving_one_still_holds_its_place(self) -> None:
        assert creates(plan(seen(workers(0), head(leaving=True)))) == []

    def test_two_are_reported_and_none_is_chosen(self) -> None:
        """raycluster EX-45."""
        found = plan(seen(workers(2), head("a"), head("b")))
        assert not found.actions
        assert found.status is not None
        condition = found.status.patch["conditions"][0]
        assert (condition["type"], condition["status"]) == ("HeadPodReady", "False")
        assert condition["reason"] == "MultipleHeadPods"
        assert "a, b" in condition["message"]

    def test_a_provisioned_cluster_may_ask_to_stay_without_one(self) -> None:
        """raycluster EX-46."""
        provisioned = holding("RayClusterProvisioned")
        wish = {"annotations": {"ray.io/disable-provisioned-head-restart": "true"}}
        assert not plan(seen(workers(2, metadata=wish, status=provisioned))).actions
        assert nouns(creates(plan(seen(workers(1, metadata=wish))))) == ["head Pod", "worker Pod"]

    @pytest.mark.parametrize("value", ["True", "1", ""])
    def test_only_the_exact_word_counts(self, value: str) -> None:
        """raycluster EX-46."""
        provisioned = holding("RayClusterProvisioned")
        wish = {"annotations": {"ray.io/disable-provisioned-head-restart": value}}
        assert "head Pod rc-head" in creates(plan(seen(workers(0, metadata=wish, status=provisioned))))

    def test_it_waits_for_a_service_that_was_refused(self) -> None:
        """raycluster EX-04."""
        found = plan(seen(workers(2), head_service=None, failures={"service": failure("service")}))
        assert not found.actions
        assert found.look_again == 10.0


class TestScalingOut:
    def test_what_is_missing_is_made(self) -> None:
        assert nouns(creates(plan(seen(workers(3), head(), pod("a"))))) == ["worker Pod"] * 2

    def test_new_pods_take_the_lowest_free_indices(self) -> None:
        """raycluster EX-63."""
        found = plan(seen(workers(4), head(), pod("a", index=0), pod("b", index=2)))
        indices = [
            orjson.loads(each.body)["metadata"]["labels"]["ray.io/worker-group-replica-index"]
            for each in found.actions
            if isinstance(each, Create)
        ]
        assert indices == ["1", "3"]

    def test_the_same_snapshot_gives_the_same_names(self) -> None:
        situation = seen(workers(5), head())
        assert creates(plan(situation)) == creates(plan(situation))

    def test_a_name_in_use_is_not_taken_again_even_by_a_leaving_pod(self) -> None:
        situation = seen(workers(1), head())
        (name,) = [each.name for each in plan(situation).actions]
        again = plan(replace(situation, pods=(head(), pod(name, leaving=True, index=0))))
        assert [each.name for each in again.actions] != [name]
        assert len(again.actions) == 1

    def test_a_name_that_is_asked_to_go_is_not_taken(self) -> None:
        (name,) = [each.name for each in plan(seen(workers(1), head())).actions]
        rc = cluster(groups=[group(scaleStrategy={"workersToDelete": [name]})])
        (other,) = [each.name for each in plan(seen(rc, head())).actions]
        assert other != name

    def test_a_large_group_grows_in_portions(self) -> None:
        rc = cluster(groups=[group(replicas=1000, maxReplicas=1000)])
        assert len(plan(seen(rc, head()), ControllerOptions(batch=100)).actions) == 100

    def test_many_groups_grow_in_smaller_portions_which_are_no_more_together(self) -> None:
        groups = [group(f"g{number}", replicas=1000, maxReplicas=1000) for number in range(8)]
        found = creates(plan(seen(cluster(groups=groups), head()), ControllerOptions(batch=100)))
        assert [sum(f"-g{number}-" in name for name in found) for number in range(8)] == [12] * 8

    def test_a_leaving_pod_is_no_capacity(self) -> None:
        assert len(creates(plan(seen(workers(1), head(), pod("a", leaving=True))))) == 1

    def test_workers_wait_for_a_head_to_come(self) -> None:
        assert not plan(seen(workers(2), failures={"head": failure("head")})).actions

    def test_workers_come_while_a_head_is_being_replaced(self) -> None:
        assert len(creates(plan(seen(workers(2), head(leaving=True))))) == 2


class TestScalingIn:
    def test_the_surplus_goes(self) -> None:
        """raycluster EX-61."""
        found = plan(seen(workers(3), head(), *(pod(name) for name in "abcd")))
        assert len(deletes(found)) == 1
        assert found.actions[0].why == "worker group wg has 4 Pods and shall have 3"

    def test_pods_that_do_not_run_go_first_then_unready_ones_then_the_newest(self) -> None:
        pods = [
            pod("old", age=100),
            pod("new", age=10),
            pod("unready", ready=False, age=200),
            pod("pending", phase="Pending", ready=None, age=300),
        ]
        for left, gone in ((3, ["pending"]), (2, ["pending", "unready"]), (1, ["pending", "unready", "new"])):
            assert deletes(plan(seen(workers(left), head(), *pods))) == gone

    def test_of_pods_equally_old_the_highest_index_goes(self) -> None:
        pods = [pod("a", index=0), pod("c", index=10), pod("b", index=9)]
        assert deletes(plan(seen(workers(2), head(), *pods))) == ["c"]

    def test_a_leaving_pod_is_no_surplus(self) -> None:
        found = plan(seen(workers(1), head(), pod("a"), pod("b", leaving=True), pod("c", leaving=True)))
        assert not found.actions

    def test_a_healthy_pod_goes_only_on_fresh_knowledge(self) -> None:
        found = plan(seen(workers(0), head(), pod("a"), pod("b", phase="Failed")))
        fenced = {each.name: each.is_fenced for each in found.actions if isinstance(each, Delete)}
        assert fenced == {"a": True, "b": False}

    def test_a_delete_is_for_one_particular_pod(self) -> None:
        (action,) = plan(seen(workers(0), head(), pod("a"))).actions
        assert isinstance(action, Delete)
        assert action.uid == "uid-a"


class TestWorkersToDelete:
    def rc(self, *names: str, replicas: int = 1) -> Any:
        return cluster(groups=[group(replicas=replicas, scaleStrategy={"workersToDelete": list(names)})])

    def test_named_pods_go(self) -> None:
        assert deletes(plan(seen(self.rc("b"), head(), pod("a"), pod("b")))) == ["b"]

    def test_a_named_pod_that_is_gone_is_no_reason_to_delete_another(self) -> None:
        assert not plan(seen(self.rc("ghost", replicas=2), head(), pod("a"), pod("b"))).actions

    def test_a_named_pod_is_replaced_when_the_group_would_be_short(self) -> None:
        found = plan(seen(self.rc("a", replicas=1), head(), pod("a")))
        assert deletes(found) == ["a"]
        assert len(creates(found)) == 1

    def test_a_pod_of_another_group_is_safe(self) -> None:
        rc = cluster(groups=[group(scaleStrategy={"workersToDelete": ["other"]}), group("b")])
        assert deletes(plan(seen(rc, head(), pod("a"), pod("other", group="b")))) == []

    def test_the_head_is_safe(self) -> None:
        assert deletes(plan(seen(self.rc("rc-head"), head(), pod("a")))) == []

    def test_a_strangers_pod_is_safe(self) -> None:
        situation = seen(self.rc("x"), head(), pod("a"), strangers=(pod("x", owner=None),))
        assert deletes(plan(situation)) == []

    def test_more_named_than_surplus_are_all_removed(self) -> None:
        found = plan(seen(self.rc("a", "b", replicas=2), head(), pod("a"), pod("b"), pod("c")))
        assert deletes(found) == ["a", "b"]
        assert len(creates(found)) == 1


class TestBrokenWorkers:
    def test_a_broken_worker_is_removed_and_replaced(self) -> None:
        """raycluster EX-62."""
        found = plan(seen(workers(2), head(), pod("a"), pod("b", phase="Failed")))
        assert deletes(found) == ["b"]
        assert len(creates(found)) == 1

    def test_a_running_pod_whose_ray_has_ended_for_good_goes(self) -> None:
        """raycluster EX-57."""
        assert deletes(plan(seen(workers(1), head(), pod("a", ended=True, policy="Never")))) == ["a"]

    @pytest.mark.parametrize("policy", ["Always", "OnFailure", ""])
    def test_one_that_the_kubelet_will_restart_stays(self, policy: str) -> None:
        assert not plan(seen(workers(1), head(), pod("a", ended=True, policy=policy))).actions

    @pytest.mark.parametrize("phase", ["Pending", "Unknown", ""])
    def test_one_that_may_still_come_stays(self, phase: str) -> None:
        assert not plan(seen(workers(1), head(), pod("a", phase=phase, ready=None))).actions

    def test_one_that_breaks_at_once_is_replaced_after_a_while(self) -> None:
        found = plan(seen(workers(1), head(), pod("a", phase="Failed", age=2)))
        assert not found.actions
        assert found.look_again == 3.0

    def test_a_broken_pod_in_one_group_does_not_keep_another_waiting(self) -> None:
        """raycluster EX-64."""
        rc = cluster(groups=[group("a"), group("b", replicas=2)])
        found = plan(seen(rc, head(), pod("x", group="a", phase="Failed")))
        assert deletes(found) == ["x"]
        assert len(creates(found)) == 3


class TestGroups:
    def test_pods_of_a_group_that_is_gone_from_the_spec_are_removed(self) -> None:
        found = plan(seen(workers(1), head(), pod("a"), pod("x", group="gone")))
        assert deletes(found) == ["x"]
        assert "no longer in the spec" in found.actions[0].why

    def test_a_suspended_group_has_no_pods(self) -> None:
        rc = cluster(groups=[group(suspend=True, replicas=2), group("b")])
        found = plan(seen(rc, head(), pod("a"), pod("b", leaving=True), pod("c", group="b")))
        assert deletes(found) == ["a"]
        assert found.actions[0].why == "worker group wg is suspended"

    def test_a_refused_group_does_not_keep_another_waiting(self) -> None:
        rc = cluster(groups=[group("a", replicas=2), group("b", replicas=2)])
        found = plan(seen(rc, head(), failures={"group a": failure("group a")}))
        assert {each.scope for each in found.actions} == {"group b"}
        assert found.held == {"group a"}
        assert found.look_again == 10.0

    def test_the_removal_of_an_orphan_that_was_refused_waits_too(self) -> None:
        scope = "removal from group gone"
        situation = seen(workers(0), head(), pod("x", group="gone"), failures={scope: failure(scope)})
        assert not plan(situation).actions

    def test_a_worker_that_cannot_be_removed_keeps_none_from_coming(self) -> None:
        rc = cluster(groups=[group(replicas=2, scaleStrategy={"workersToDelete": ["a"]})])
        scope = "removal from group wg"
        found = plan(seen(rc, head(), pod("a"), failures={scope: failure(scope)}))
        assert deletes(found) == []
        assert len(creates(found)) == 2
        assert found.held == {scope}
        assert found.look_again == 10.0

    def test_a_group_that_cannot_grow_can_still_shrink(self) -> None:
        """What goes may make the room that is wanting."""
        rc = cluster(groups=[group(replicas=2, scaleStrategy={"workersToDelete": ["a"]})])
        found = plan(seen(rc, head(), pod("a"), failures={"group wg": failure("group wg")}))
        assert deletes(found) == ["a"]
        assert creates(found) == []

    def test_a_failure_to_remove_is_forgotten_when_nothing_is_to_be_removed(self) -> None:
        scope = "removal from group wg"
        assert plan(seen(workers(1), head(), pod("a"), failures={scope: failure(scope)})).held == set()

    def test_a_refused_group_is_tried_again_in_time(self) -> None:
        situation = seen(workers(1), head(), failures={"group wg": failure("group wg", retry_in=0)})
        assert len(creates(plan(situation))) == 1

    def test_a_new_spec_may_be_the_cure(self) -> None:
        situation = seen(workers(1), head(), failures={"group wg": failure("group wg", generation=0)})
        assert len(creates(plan(situation))) == 1


class TestStrangers:
    def test_a_pod_with_our_labels_and_another_owner_is_not_counted(self) -> None:
        situation = seen(workers(1), head(), strangers=(pod("x", owner=None),))
        assert len(creates(plan(situation))) == 1

    def test_it_is_reported_once(self) -> None:
        situation = seen(workers(0), head(), strangers=(pod("x", owner=None),))
        (event,) = plan(situation).events
        assert event.reason == "ForeignPod"
        assert "default/x" in event.note
        assert plan(replace(situation, reported=frozenset({"uid-x"}))).events == ()

    def test_it_is_remembered_as_long_as_it_is_there(self) -> None:
        situation = seen(workers(1), head(), pod("a"), reported=frozenset({"uid-x"}))
        assert plan(replace(situation, strangers=(pod("x", owner=None),))).told == {"uid-x"}
        assert plan(situation).told == set()

    def test_the_head_of_an_earlier_cluster_of_that_name_is_waited_for(self) -> None:
        earlier = msgspec.structs.replace(OWNER, uid="u-0")
        situation = seen(workers(1), strangers=(head(owner=earlier),))
        found = plan(situation)
        assert not found.actions
        assert not found.events
        assert found.status is not None
        assert "rc-head" in found.status.patch["conditions"][0]["message"]


class TestSuspending:
    def test_it_says_so_first_then_removes_the_pods_then_is_suspended(self) -> None:
        """raycluster EX-50."""
        running = grown_up(seen(workers(1), head(), pod("a")))
        running = after(running, plan(running))
        asked = replace(running, cluster=cluster_with(running, suspend=True))

        first = plan(asked)
        assert not first.actions
        assert first.status is not None
        assert first.status.is_urgent
        told = after(asked, first)
        assert condition(told, "RayClusterSuspending") == "True"

        second = plan(told)
        assert deletes(second) == ["rc-head", "a"]
        leaving = after(told, second)
        assert not plan(leaving).actions
        assert condition(leaving, "RayClusterSuspended") == "False"

        gone = replace(leaving, pods=())
        third = plan(gone)
        done = after(gone, third)
        assert condition(done, "RayClusterSuspended") == "True"
        assert condition(done, "RayClusterSuspending") == "False"
        assert condition(done, "RayClusterProvisioned") == "False"
        assert done.cluster.status.state == "suspended"
        assert done.cluster.status.head is not None
        assert done.cluster.status.head.pod_name is None
        assert plan(done).is_empty

    def test_pods_that_are_leaving_or_somebody_elses_are_not_removed(self) -> None:
        """raycluster EX-43: one by one in place of a collection, so that only Pods of the cluster can go."""
        suspending = workers(1, suspend=True, status=holding("RayClusterSuspending"))
        situation = seen(suspending, pod("a"), pod("b", leaving=True), strangers=(pod("x", owner=None),))
        found = plan(situation)
        assert deletes(found) == ["a"]
        assert not plan(after(situation, found)).actions

    def test_changing_ones_mind_midway_still_removes_every_pod_first(self) -> None:
        suspending = holding("RayClusterSuspending")
        found = plan(seen(workers(1, suspend=False, status=suspending), head(), pod("a")))
        assert deletes(found) == ["rc-head", "a"]

    def test_a_pod_that_comes_late_to_a_suspended_cluster_goes(self) -> None:
        """Somebody may have asked for it, and died, before the cluster was suspended."""
        suspended = {"state": "suspended", **holding("RayClusterSuspended")}
        assert deletes(plan(seen(workers(1, suspend=True, status=suspended), pod("a")))) == ["a"]
        assert deletes(plan(seen(workers(1, suspend=False, status=suspended), pod("a")))) == []

    @pytest.mark.parametrize("kind", ["RayClusterSuspending", "RayClusterSuspended"])
    def test_what_others_know_the_cluster_by_comes_back_when_it_was_deleted(self, kind: str) -> None:
        """Only Pods depend on whether a cluster is suspended."""
        rc = workers(
            1,
            suspend=True,
            status=holding(kind),
            head={"enableIngress": True},
            metadata={"annotations": {"ray.io/enable-serve-service": "true"}},
        )
        situation = seen(rc, head_service=None)
        found = plan(situation)
        assert creates(found) == ["service rc-head-svc", "ingress rc-head-ingress", "service rc-serve-svc"]
        assert not plan(after(situation, found)).actions

    def test_pods_go_even_if_nothing_else_can_be_done(self) -> None:
        redis = {"redisAddress": "redis:6379"}
        suspending = workers(1, suspend=True, status=holding("RayClusterSuspending"), gcsFaultToleranceOptions=redis)
        refused = {"finalizer": failure("finalizer")}
        assert deletes(plan(seen(suspending, head(), pod("a"), failures=refused))) == ["rc-head", "a"]

    @pytest.mark.parametrize(("suspend", "resumes"), [(True, False), (None, False), (False, True)])
    def test_only_an_explicit_false_resumes(self, suspend: bool | None, resumes: bool) -> None:
        """raycluster EX-51."""
        suspended = {"state": "suspended", **holding("RayClusterSuspended")}
        fields = {} if suspend is None else {"suspend": suspend}
        situation = seen(workers(1, status=suspended, **fields))
        found = plan(situation)
        assert not found.actions
        told = after(situation, found)
        assert condition(told, "RayClusterSuspended") == ("False" if resumes else "True")
        assert bool(plan(told).actions) is resumes


def cluster_with(situation: Any, **spec: Any) -> Any:
    return workers(1, status=situation.cluster.status.to_dict(), **spec)


def condition(situation: Any, kind: str) -> str:
    (found,) = [each.status for each in situation.cluster.status.conditions if each.type == kind]
    return str(found)


def test_the_head_service_is_made_from_the_spec() -> None:
    (action,) = list(plan(seen(workers(0), head(), head_service=None)).actions)
    assert isinstance(action, Create)
    assert action.resource == SERVICES
    assert action.name == "rc-head-svc"


class TestTemplatesOfTheWrongShape:
    BENT = template("ray-worker", imagePullPolicie="Always")

    def test_are_told_with_their_field_and_do_not_stop_the_cluster(self) -> None:
        found = plan(seen(cluster(groups=[group(template=self.BENT)])))
        (event,) = found.events
        assert event.type == "Warning"
        assert "spec.workerGroupSpecs[0].template.spec.containers[0].imagePullPolicie" in event.note
        assert creates(found)

    def test_once_for_each_generation(self) -> None:
        rc = cluster(groups=[group(template=self.BENT)], status={"observedGeneration": 1})
        assert plan(seen(rc)).events == ()
