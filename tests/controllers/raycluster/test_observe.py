"""What counts as a cluster's own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
import pytest

from kuberay.api.core import Job, Metadata, Owner, Pod, Service
from kuberay.controllers.raycluster.census import Census
from kuberay.controllers.raycluster.observe import (
    BY_OWNER,
    Seen,
    may_be_a_clusters,
    observe,
    owner_index,
)
from kuberay.kube.store import Store
from tests.controllers.raycluster.situations import OWNER, cluster, head, pod

if TYPE_CHECKING:
    from collections.abc import Sequence

Thing = TypeVar("Thing", Pod, Job)

LABELS = {"ray.io/cluster": "rc", "ray.io/node-type": "head", "ray.io/identifier": "rc-head"}


def look(*pods: Pod, services: Sequence[Service] = (), jobs: Sequence[Job] = ()) -> Seen:
    indexes: Any = {BY_OWNER: owner_index}
    pod_store: Store[Pod] = Store(indexes)
    service_store: Store[Service] = Store(indexes)
    job_store: Store[Job] = Store({BY_OWNER: owner_index})
    pod_store.replaced(pods, "1")
    service_store.replaced(services, "1")
    job_store.replaced(jobs, "1")
    return observe(cluster(), Census(pod_store), service_store, jobs=job_store, failures={}, reported=frozenset())


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
