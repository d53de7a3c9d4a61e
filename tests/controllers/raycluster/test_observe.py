"""What counts as a cluster's own."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
import pytest

from kuberay.api.core import Job, Metadata, Owner, PersistentVolumeClaim, Pod, Service
from kuberay.api.gates import FeatureGates, Gate
from kuberay.controllers.raycluster.census import Census
from kuberay.controllers.raycluster.observe import (
    BY_OWNER,
    Seen,
    may_be_a_clusters,
    observe,
    owner_index,
)
from kuberay.kube.resources import SERVICES
from kuberay.kube.store import Store
from tests.build.clusters import template
from tests.controllers.raycluster.situations import OPTIONS, OWNER, cluster, head, plan, pod, with_status

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kuberay.api.v1 import RayCluster

Thing = TypeVar("Thing", Pod, Job)

EMBEDDED = replace(OPTIONS, gates=FeatureGates({Gate.GCS_FAULT_TOLERANCE_EMBEDDED_STORAGE: True}))
LABELS = {"ray.io/cluster": "rc", "ray.io/node-type": "head", "ray.io/identifier": "rc-head"}


def look(
    *pods: Pod,
    rc: RayCluster | None = None,
    services: Sequence[Service] = (),
    jobs: Sequence[Job] = (),
    claims: Sequence[PersistentVolumeClaim] = (),
) -> Seen:
    indexes: Any = {BY_OWNER: owner_index}
    pod_store: Store[Pod] = Store(indexes)
    service_store: Store[Service] = Store(indexes)
    job_store: Store[Job] = Store({BY_OWNER: owner_index})
    pod_store.replaced(pods, "1")
    service_store.replaced(services, "1")
    job_store.replaced(jobs, "1")
    claim_store: Store[PersistentVolumeClaim] = Store()
    claim_store.replaced(claims, "1")
    return observe(
        rc or cluster(),
        Census(pod_store),
        service_store,
        jobs=job_store,
        claims=claim_store,
        failures={},
        reported=frozenset(),
    )


def elsewhere(found: Thing) -> Thing:
    """The same in another namespace, with the same words about its owner."""
    return msgspec.structs.replace(found, metadata=msgspec.structs.replace(found.metadata, namespace="elsewhere"))


def service(owner: Owner | None, labels: dict[str, str]) -> Service:
    owners = [owner] if owner else []
    return Service(metadata=Metadata(name="rc-head-svc", namespace="default", labels=labels, owner_references=owners))


class TestPods:
    def test_they_belong_by_their_owner(self) -> None:
        seen = look(head(), pod("a"))
        assert [each.name for each in seen.heads] == ["rc-head"]
        assert [each.name for each in seen.of_group("wg")] == ["a"]

    def test_one_without_an_owner_or_with_another_is_a_stranger(self) -> None:
        other = msgspec.structs.replace(OWNER, uid="u-2")
        seen = look(pod("a"), pod("b", owner=None), pod("c", owner=other))
        assert [each.name for each in seen.workers] == ["a"]
        assert [each.name for each in seen.strangers] == ["b", "c"]

    def test_one_in_another_namespace_is_none_of_its_own_whatever_it_says(self) -> None:
        """Owners are in the same namespace; somebody who may make Pods elsewhere must not stop a cluster here."""
        seen = look(head(), elsewhere(head("evil")), elsewhere(pod("a")))
        assert [each.name for each in seen.pods] == ["rc-head"]
        assert [each.name for each in seen.heads] == ["rc-head"]
        assert seen.strangers == ()

    def test_a_helper_of_the_cluster_is_no_stranger(self) -> None:
        helper = pod("cleanup", owner=None)
        helper.metadata.labels["ray.io/node-type"] = "redis-cleanup"
        assert look(helper).strangers == ()


class TestCleanupJobs:
    def test_they_belong_by_their_owner(self) -> None:
        job = Job(metadata=Metadata(name="cleanup", namespace="default", owner_references=[OWNER]))
        assert look(jobs=[job, elsewhere(job)]).cleanup_jobs == (job,)


class TestWhatIsKept:
    def test_what_belongs_to_a_cluster_whatever_its_labels(self) -> None:
        assert may_be_a_clusters(service(OWNER, {}))

    @pytest.mark.parametrize("key", ["ray.io/cluster", "ray.io/headless-worker-svc", "ray.io/serve"])
    def test_what_a_user_may_have_made_in_its_place(self, key: str) -> None:
        assert may_be_a_clusters(service(None, {key: "x"}))

    def test_nothing_of_others(self) -> None:
        other = Owner(api_version="v1", kind="Gateway", name="g", uid="u", controller=True)
        assert not may_be_a_clusters(service(other, {"app": "x"}))


class TestWhatAnEarlierClusterOfTheNameHasLeft:
    """It goes by itself; until then nothing can be made in its place, and nothing shall be built on it."""

    EARLIER = msgspec.structs.replace(OWNER, uid="u-0")

    def test_its_head_service_is_waited_for(self) -> None:
        seen = look(services=[service(self.EARLIER, LABELS)])
        assert (seen.head_service, seen.left_behind) == (None, ("Service rc-head-svc",))
        found = plan(seen)
        assert found.actions == []
        assert found.events == ()
        status = with_status(seen.cluster, found).status
        (ready,) = [each for each in status.conditions if each.type == "HeadPodReady"]
        assert ready.message == "Head Pod not found; waiting for Service rc-head-svc of an earlier cluster to go"

    @pytest.mark.parametrize("policy", ["Retain", "DeleteWithCluster"])
    def test_its_volume_claim_is_waited_for(self, policy: str) -> None:
        storage = {"backend": "rocksdb", "storage": {"deletionPolicy": policy}}
        owners = [self.EARLIER]
        claim = PersistentVolumeClaim(
            metadata=Metadata(name="rc-gcs-pvc", namespace="default", uid="u-c", owner_references=owners)
        )
        seen = look(rc=cluster(gcsFaultToleranceOptions=storage), claims=[claim])
        assert (seen.claim, seen.left_behind) == (None, ("PersistentVolumeClaim rc-gcs-pvc",))
        found = plan(seen, EMBEDDED)
        assert found.actions == []
        assert found.events == ()

    def test_what_was_orphaned_on_purpose_is_taken(self) -> None:
        seen = look(services=[service(None, LABELS)])
        assert seen.head_service is not None
        assert seen.left_behind == ()


class TestHeadService:
    def test_ours_is_found(self) -> None:
        assert look(services=[service(OWNER, {"ray.io/cluster": "rc"})]).head_service is not None

    def test_one_that_a_user_made_with_its_labels_is_taken(self) -> None:
        assert look(services=[service(None, LABELS)]).head_service is not None

    def test_one_that_only_has_the_name_is_not(self) -> None:
        assert look(services=[service(None, {"ray.io/cluster": "rc"})]).head_service is None

    def test_without_one(self) -> None:
        assert look().head_service is None

    def test_of_several_that_look_like_it_the_one_with_its_name_counts(self) -> None:
        """raycluster EX-41: to KubeRay they are an error that stops the cluster."""
        ours = service(OWNER, LABELS)
        copy = msgspec.structs.replace(ours, metadata=msgspec.structs.replace(ours.metadata, name="copy"))
        assert look(services=[copy, ours]).head_service is ours

    def test_one_under_an_earlier_name_is_known_by_its_labels(self) -> None:
        former = service(OWNER, LABELS)
        renamed = cluster(head={"template": template("ray-head"), "headService": {"metadata": {"name": "other"}}})
        seen = look(rc=renamed, services=[former])
        assert seen.head_service is None
        assert seen.children == {(SERVICES, "rc-head-svc"): former}
