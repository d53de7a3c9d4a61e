"""How a cluster is said to be doing."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from kuberay.api.core import ContainerState, ContainerStatus, Pod, PodCondition, ServicePort, Terminated, Waiting
from kuberay.controllers.failures import Failure
from kuberay.controllers.raycluster.status import status, status_patch, timestamp
from tests.build.clusters import group, limits, requests, template
from tests.controllers.raycluster.situations import (
    NOW,
    cluster,
    head,
    holding,
    pod,
    seen,
    service,
    workers,
)

if TYPE_CHECKING:
    from kuberay.api.v1 import RayClusterStatus
    from kuberay.controllers.raycluster.observe import Seen


def of(situation: Seen) -> RayClusterStatus:
    return status(situation, None, NOW)


def condition(found: RayClusterStatus, kind: str) -> tuple[str, str, str]:
    (one,) = [each for each in found.conditions if each.type == kind]
    return one.status, one.reason, one.message


def refused() -> dict[str, Failure]:
    return {
        "group wg": Failure(
            scope="group wg",
            reason="FailedCreateWorkerPod",
            message="exceeded quota",
            generation=1,
            attempts=1,
            retry_at=NOW + 1,
        )
    }


class TestCounts:
    def test_workers_are_counted_by_what_they_do(self) -> None:
        found = of(seen(workers(4), head(), pod("a"), pod("b", ready=False), pod("c", phase="Pending", ready=None)))
        assert found.ready_worker_replicas == 1
        assert found.available_worker_replicas == 2
        assert found.desired_worker_replicas == 4
        assert found.min_worker_replicas is None
        assert found.max_worker_replicas == 10

    def test_a_leaving_worker_counts_no_more(self) -> None:
        found = of(seen(workers(1), head(), pod("a"), pod("b", leaving=True)))
        assert found.ready_worker_replicas == 1
        assert found.available_worker_replicas == 1

    def test_zero_is_written_by_leaving_it_away(self) -> None:
        assert "readyWorkerReplicas" not in of(seen(workers(1), head())).to_dict()

    def test_the_generation_that_was_seen(self) -> None:
        assert of(seen(workers(1, metadata={"generation": 7}), head())).observed_generation == 7


class TestResources:
    def test_the_head_and_all_replicas_are_summed(self) -> None:
        """raycluster EX-76."""
        one = template("ray-head", resources=requests(cpu="2", memory="1Gi"))
        other = group(numOfHosts=2, replicas=3, template=template("w", resources=requests(cpu="1", memory="512Mi")))
        found = of(seen(cluster(head={"template": one}, groups=[other])))
        assert (found.desired_cpu, found.desired_memory) == ("8", "4Gi")
        other["suspend"] = True
        found = of(seen(cluster(head={"template": one}, groups=[other])))
        assert (found.desired_cpu, found.desired_memory) == ("2", "1Gi")

    def test_replicas_count_as_they_are_written(self) -> None:
        """raycluster EX-77, pod-template 28.11."""
        one = template("h", resources=requests(cpu="1"))
        other = group(replicas=0, minReplicas=2, template=template("w", resources=requests(cpu="1")))
        found = of(seen(cluster(head={"template": one}, groups=[other])))
        assert found.desired_worker_replicas == 2
        assert found.desired_cpu == "1"

    def test_gpus_of_all_names_are_one_number(self) -> None:
        """raycluster EX-78."""
        amounts = {"nvidia.com/gpu": "2", "nvidia.com/mig-1g.5gb": "4", "amd.com/gpu": "1", "google.com/tpu": "8"}
        one = template("h", resources={"limits": amounts})
        found = of(seen(cluster(head={"template": one}, groups=[])))
        assert (found.desired_gpu, found.desired_tpu) == ("7", "8")

    def test_a_request_comes_before_a_limit(self) -> None:
        """raycluster EX-79."""
        one = template("h", resources=requests(cpu="1") | limits(cpu="2", memory="4Gi"))
        found = of(seen(cluster(head={"template": one}, groups=[])))
        assert (found.desired_cpu, found.desired_memory) == ("1", "4Gi")

    def test_an_amount_that_means_the_same_keeps_its_writing(self) -> None:
        one = template("h", resources=requests(cpu="2"))
        rc = cluster(head={"template": one}, groups=[], status={"desiredCPU": "2000m"})
        assert of(seen(rc)).desired_cpu == "2000m"


class TestState:
    def test_all_pods_ready_is_ready(self) -> None:
        found = of(seen(workers(1), head(), pod("a")))
        assert found.state == "ready"
        assert found.state_transition_times == {"ready": timestamp(NOW)}

    def test_a_pod_without_a_word_about_readiness_is_accepted(self) -> None:
        assert of(seen(workers(1), head(), pod("a", ready=None))).state == "ready"

    def test_it_is_not_ready_while_something_is_refused(self) -> None:
        """raycluster EX-80."""
        assert of(seen(workers(1), head(), pod("a"), failures=refused())).state is None

    def test_once_ready_it_stays_ready(self) -> None:
        """raycluster EX-80."""
        ready = {"state": "ready", "stateTransitionTimes": {"ready": "2026-01-01T00:00:00Z"}}
        found = of(seen(workers(1, status=ready), head(ready=False), failures=refused()))
        assert found.state == "ready"
        assert found.state_transition_times == {"ready": "2026-01-01T00:00:00Z"}

    def test_a_suspended_group_is_not_waited_for(self) -> None:
        """raycluster EX-81."""
        rc = cluster(groups=[group(suspend=True, replicas=9, minReplicas=9, maxReplicas=9)])
        found = of(seen(rc, head()))
        assert (found.desired_worker_replicas, found.min_worker_replicas, found.max_worker_replicas) == (None,) * 3
        assert found.state == "ready"

    def test_a_head_alone_is_not_ready(self) -> None:
        """raycluster EX-82."""
        found = of(seen(workers(3), head()))
        assert found.state is None
        assert found.state_transition_times == {}

    def test_a_pod_too_many_does_not_make_up_for_one_that_is_missing(self) -> None:
        """The autoscaler may leave more Pods in one group than it wants, while another is refused its own."""
        rc = cluster(groups=[group("a", replicas=1), group("b", replicas=1)], enableInTreeAutoscaling=True)
        for pods in ((pod("a-1", group="a"), pod("a-2", group="a")), (head("rc-head-2"), pod("a-1", group="a"))):
            found = of(seen(rc, head(), *pods))
            assert found.state is None
            assert condition(found, "RayClusterProvisioned")[0] == "False"
        assert of(seen(rc, head(), pod("a-1", group="a"), pod("b-1", group="b"))).state == "ready"

    def test_a_leaving_pod_does_not_keep_the_others_from_being_ready(self) -> None:
        assert of(seen(workers(1), head(), pod("a"), pod("b", leaving=True))).state == "ready"


class TestHeadPodReady:
    def ready(self, *conditions: PodCondition, containers: list[ContainerStatus] | None = None) -> tuple[str, str, str]:
        one = head(ready=None)
        one_status = msgspec.structs.replace(
            one.status, conditions=list(conditions), container_statuses=containers or []
        )
        return condition(of(seen(workers(0), msgspec.structs.replace(one, status=one_status))), "HeadPodReady")

    def test_without_a_head(self) -> None:
        found = of(seen(workers(0)))
        assert condition(found, "HeadPodReady") == ("False", "HeadPodNotFound", "Head Pod not found")

    def test_of_a_head_that_says_nothing(self) -> None:
        assert self.ready() == ("False", "Unknown", "")

    def test_of_a_ready_head(self) -> None:
        assert self.ready(PodCondition(type="Ready", status="True")) == ("True", "HeadPodRunningAndReady", "")

    def test_the_containers_word_says_more(self) -> None:
        """raycluster EX-83."""
        waiting = ContainerState(waiting=Waiting(reason="ImagePullBackOff", message="m2"))
        assert self.ready(
            PodCondition(type="Ready", status="False", reason="ContainersNotReady", message="m1"),
            containers=[ContainerStatus(name="ray-head", state=waiting)],
        ) == ("False", "ImagePullBackOff", "m1; ray-head: m2")

    def test_only_the_first_container_in_trouble_is_quoted(self) -> None:
        """raycluster EX-84."""
        first = ContainerState(terminated=Terminated(reason="Error", message="m3"))
        second = ContainerState(waiting=Waiting(reason="CrashLoopBackOff", message="m4"))
        assert self.ready(
            PodCondition(type="Ready", status="False", reason="ContainersNotReady"),
            containers=[ContainerStatus(name="c1", state=first), ContainerStatus(name="c2", state=second)],
        ) == ("False", "Error", "c1: m3")

    @pytest.mark.parametrize("reason", ["", "with blanks", "ends:"])
    def test_a_word_that_the_api_would_refuse_is_not_used(self, reason: str) -> None:
        waiting = ContainerState(waiting=Waiting(reason=reason, message="m"))
        assert self.ready(
            PodCondition(type="Ready", status="False", reason="ContainersNotReady"),
            containers=[ContainerStatus(name="c", state=waiting)],
        ) == ("False", "ContainersNotReady", "c: m")

    @pytest.mark.parametrize("reason", ["node-lost", "two words", "x" * 1025])
    def test_nor_is_one_of_the_pod_itself(self, reason: str) -> None:
        """A status with such a reason would be refused, and with it everything else that it tells."""
        lost = PodCondition(type="Ready", status="False", reason=reason, message="m")
        assert self.ready(lost) == ("False", "Unknown", "m")
        running = PodCondition(type="Ready", status="True", reason=reason)
        assert self.ready(running) == ("True", "HeadPodRunningAndReady", "")

    def test_a_leaving_head_is_waited_for(self) -> None:
        found = of(seen(workers(0), head(leaving=True)))
        assert condition(found, "HeadPodReady") == (
            "False",
            "HeadPodTerminating",
            "waiting for head Pod rc-head to terminate",
        )


class TestProvisioned:
    def test_it_waits_for_every_pod_and_then_stays(self) -> None:
        """raycluster EX-85."""
        first = of(seen(workers(1), head(), pod("a", ready=False)))
        assert condition(first, "HeadPodReady")[0] == "True"
        assert condition(first, "RayClusterProvisioned")[0] == "False"
        second = of(seen(workers(1, status=first.to_dict()), head(), pod("a")))
        assert condition(second, "RayClusterProvisioned")[:2] == ("True", "AllPodRunningAndReadyFirstTime")
        third = of(seen(workers(1, status=second.to_dict()), head(ready=False), pod("a", ready=False)))
        assert condition(third, "RayClusterProvisioned")[0] == "True"
        assert condition(third, "HeadPodReady")[0] == "False"

    def test_a_cluster_without_its_workers_is_not_provisioned(self) -> None:
        """raycluster EX-86."""
        found = of(seen(workers(2), head(), failures=refused()))
        assert condition(found, "RayClusterProvisioned")[0] == "False"
        assert condition(found, "ReplicaFailure")[:2] == ("True", "FailedCreateWorkerPod")


class TestReplicaFailure:
    def test_what_others_use_of_a_quota_is_no_news(self) -> None:
        def used(pods: int) -> dict[str, Failure]:
            return {"group wg": replace(refused()["group wg"], message=f"exceeded quota: used: pods={pods}")}

        first = of(seen(workers(2), head(), failures=used(9)))
        again = of(seen(workers(2, status=first.to_dict()), head(), failures=used(10)))
        assert again.conditions == first.conditions

    def test_it_says_what_was_refused_and_when_it_is_tried_again(self) -> None:
        assert condition(of(seen(workers(2), head(), failures=refused())), "ReplicaFailure")[2] == (
            "exceeded quota. It is tried again at least every 60 seconds, and when the spec changes"
        )

    def test_it_goes_when_nothing_is_refused_any_more(self) -> None:
        """raycluster EX-87: also when a broken Pod has to be replaced meanwhile, which is no failure of ours."""
        broken = of(seen(workers(1, status=holding("ReplicaFailure")), head(), pod("a", phase="Failed")))
        assert "ReplicaFailure" not in [each.type for each in broken.conditions]
        found = of(seen(workers(0, status=holding("ReplicaFailure")), head()))
        assert "ReplicaFailure" not in [each.type for each in found.conditions]

    def test_what_the_others_wait_for_is_told_first(self) -> None:
        failures = refused()
        failures["head"] = replace(failures["group wg"], scope="head", reason="FailedCreateHeadPod")
        found = of(seen(workers(1), failures=failures))
        assert condition(found, "ReplicaFailure")[1] == "FailedCreateHeadPod"


class TestConditions:
    def test_on_a_fresh_cluster_they_stand_in_kuberays_order(self) -> None:
        assert [each.type for each in of(seen(workers(0))).conditions] == [
            "HeadPodReady",
            "RayClusterProvisioned",
            "RayClusterSuspended",
            "RayClusterSuspending",
        ]

    def test_their_time_moves_only_with_their_status(self) -> None:
        old = of(seen(workers(0), head(ready=False)))
        later = status(seen(workers(0, status=old.to_dict()), head(ready=False, phase="Pending")), None, NOW + 60)
        assert later.conditions[0].last_transition_time == timestamp(NOW)
        ready = status(seen(workers(0, status=old.to_dict()), head()), None, NOW + 60)
        assert ready.conditions[0].last_transition_time == timestamp(NOW + 60)

    def test_somebody_elses_condition_is_kept(self) -> None:
        found = of(seen(workers(0, status=holding("SomethingElse")), head()))
        assert found.conditions[0].type == "SomethingElse"


class TestEndpoints:
    def test_a_headless_service_has_the_heads_address(self) -> None:
        """raycluster EX-88."""
        found = of(seen(workers(0), head(ip="1.1.1.1")))
        assert found.head is not None
        assert (found.head.service_ip, found.head.service_name) == ("1.1.1.1", "rc-head-svc")
        assert (found.head.pod_ip, found.head.pod_name) == ("1.1.1.1", "rc-head")
        assert found.endpoints == {
            "client": "10001",
            "dashboard": "8265",
            "gcs-server": "6379",
            "metrics": "8080",
            "serve": "8000",
        }

    def test_a_node_port_is_where_it_is_reached(self) -> None:
        """raycluster EX-89."""
        ports = [
            ServicePort(name="dashboard", port=8265, target_port=8265, node_port=30265),
            ServicePort(port=1, target_port=1),
            ServicePort(name="named", port=2, target_port="http"),
        ]
        found = of(seen(workers(0), head(), head_service=service("10.0.0.7", ports)))
        assert found.endpoints == {"dashboard": "30265", "named": "http"}
        assert found.head is not None
        assert found.head.service_ip == "10.0.0.7"

    def test_an_endpoint_stays_when_its_port_is_gone(self) -> None:
        found = of(seen(workers(0, status={"endpoints": {"old": "1"}}), head(), head_service=service(ports=[])))
        assert found.endpoints == {"old": "1"}


class TestWriting:
    def settled(self, *pods: Pod, **fields: Any) -> Seen:
        situation = seen(workers(1, **fields), *(pods or (head(), pod("a"))))
        written = of(situation).to_dict() | {"lastUpdateTime": timestamp(NOW)}
        return replace(situation, cluster=workers(1, status=written, **fields))

    def test_nothing_changed_is_not_written(self) -> None:
        """raycluster EX-90."""
        situation = self.settled()
        assert status_patch(situation.cluster, status(situation, None, NOW + 60), NOW + 60) is None

    def test_a_new_generation_and_other_amounts_are_written_by_themselves(self) -> None:
        """raycluster EX-90: KubeRay leaves them as they were until something else changes."""
        situation = self.settled()
        asking = template("ray-head", resources=requests(cpu="3"))
        written = situation.cluster.status.to_dict()
        rc = workers(1, head={"template": asking}, metadata={"generation": 2}, status=written)
        patch = status_patch(rc, of(replace(situation, cluster=rc)), NOW)
        assert patch is not None
        assert (patch.patch["desiredCPU"], patch.patch["observedGeneration"]) == ("3", 2)

    def test_what_changed_is_written_with_the_time(self) -> None:
        situation = self.settled()
        changed = replace(situation, pods=(head(), pod("a", ready=False)))
        patch = status_patch(situation.cluster, of(changed), NOW + 60)
        assert patch is not None
        assert patch.patch == {"readyWorkerReplicas": None, "lastUpdateTime": timestamp(NOW + 60)}
        assert patch.why == "changed: readyWorkerReplicas"
        assert patch.uid == "u-1"

    def test_becoming_ready_is_urgent_and_growing_is_not(self) -> None:
        new = seen(workers(1), head(), pod("a"))
        first = status_patch(new.cluster, of(new), NOW)
        assert first is not None
        assert first.is_urgent
        starting = seen(workers(1), head(ready=False))
        second = status_patch(starting.cluster, of(starting), NOW)
        assert second is not None
        assert not second.is_urgent

    def test_having_grown_is_urgent_and_being_about_to_is_not(self) -> None:
        ready = self.settled().cluster.status
        larger = msgspec.structs.replace(workers(2), status=ready)
        growing = status_patch(larger, of(seen(larger, head(), pod("a"), pod("b", ready=False))), NOW)
        grown = status_patch(larger, of(seen(larger, head(), pod("a"), pod("b"))), NOW)
        assert growing is not None
        assert grown is not None
        assert (growing.is_urgent, grown.is_urgent) == (False, True)

    def test_a_refusal_is_urgent(self) -> None:
        situation = self.settled()
        patch = status_patch(situation.cluster, of(replace(situation, failures=refused())), NOW)
        assert patch is not None
        assert patch.is_urgent
