"""The volume claim of a head that keeps its state itself."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import orjson
import pytest

from kuberay.api.core import Metadata, Owner, PersistentVolumeClaim, PersistentVolumeClaimSpec, VolumeResources
from kuberay.api.gates import FeatureGates, Gate
from kuberay.controllers.plan import Patch, Plan
from kuberay.kube.resources import PERSISTENT_VOLUME_CLAIMS
from tests.controllers.raycluster.situations import OPTIONS, OWNER, cluster, creates, holding
from tests.controllers.raycluster.situations import plan as decided
from tests.controllers.raycluster.situations import seen as situation

if TYPE_CHECKING:
    from kuberay.api.v1 import RayCluster

EMBEDDED = replace(OPTIONS, gates=FeatureGates({Gate.GCS_FAULT_TOLERANCE_EMBEDDED_STORAGE: True}))


def rocksdb(**storage: Any) -> RayCluster:
    return cluster(gcsFaultToleranceOptions={"backend": "rocksdb", "storage": storage})


def claim(
    *,
    owners: list[Owner] | None = None,
    size: str = "1Gi",
    modes: tuple[str, ...] = ("ReadWriteOnce",),
    storage_class: str | None = "standard",
) -> PersistentVolumeClaim:
    return PersistentVolumeClaim(
        metadata=Metadata(
            name="rc-gcs-pvc",
            namespace="default",
            uid="uid-claim",
            resource_version="7",
            owner_references=[OWNER] if owners is None else owners,
        ),
        spec=PersistentVolumeClaimSpec(
            access_modes=list(modes),
            storage_class_name=storage_class,
            resources=VolumeResources(requests={"storage": size}),
        ),
    )


def plan(rc: RayCluster, found: PersistentVolumeClaim | None = None, **fields: Any) -> Plan:
    return decided(situation(rc, claim=found, **fields), EMBEDDED)


def claim_action(found: Plan) -> Any:
    actions = [each for each in found.actions if each.resource == PERSISTENT_VOLUME_CLAIMS]
    return actions[0] if actions else None


class TestAClaimThatIsMissing:
    def test_is_made_before_the_head(self) -> None:
        """raycluster EX-30."""
        found = plan(rocksdb())
        assert creates(found)[0] == "GCS storage PVC rc-gcs-pvc"
        made = orjson.loads(claim_action(found).body)
        assert [each["uid"] for each in made["metadata"]["ownerReferences"]] == ["u-1"]

    def test_belongs_to_nobody_when_it_shall_stay(self) -> None:
        made = orjson.loads(claim_action(plan(rocksdb(deletionPolicy="Retain"))).body)
        assert "ownerReferences" not in made["metadata"]

    def test_is_not_made_when_the_user_has_one(self) -> None:
        found = plan(rocksdb(claimName="mine"))
        assert claim_action(found) is None
        assert "head Pod rc-head" in creates(found)
        (event,) = found.events
        assert (event.reason, event.action) == ("FailedToCreatePVC", "Validate")
        assert "default/mine" in event.note

    def test_is_not_needed_for_redis(self) -> None:
        """raycluster EX-30."""
        assert claim_action(plan(cluster(gcsFaultToleranceOptions={}))) is None


class TestAClaimThatIsThere:
    def test_is_left_as_it_is(self) -> None:
        """raycluster EX-31."""
        found = plan(rocksdb(), claim())
        assert claim_action(found) is None
        assert found.events == ()

    def test_of_the_user_is_his(self) -> None:
        found = plan(rocksdb(claimName="mine"), claim(owners=[], size="3Gi"))
        assert claim_action(found) is None
        assert found.events == ()

    @pytest.mark.parametrize(
        ("storage", "told"),
        [
            ({"size": "5Gi"}, "size is 1Gi and shall be 5Gi"),
            ({"storageClassName": "fast"}, "storageClassName is standard and shall be fast"),
            ({"accessModes": ["ReadWriteMany"]}, "accessModes are ReadWriteOnce and shall be ReadWriteMany"),
        ],
    )
    def test_is_not_changed_when_the_spec_is(self, storage: dict[str, Any], told: str) -> None:
        """raycluster EX-31."""
        found = plan(rocksdb(**storage), claim())
        assert claim_action(found) is None
        (event,) = found.events
        assert (event.type, event.reason, event.action) == ("Warning", "FailedToCreatePVC", "Update")
        assert told in event.note

    @pytest.mark.parametrize("size", ["1024Mi", "1073741824"])
    def test_is_as_wanted_however_its_size_is_written(self, size: str) -> None:
        assert plan(rocksdb(size=size), claim()).events == ()

    def test_is_complained_of_once(self) -> None:
        first = plan(rocksdb(size="5Gi"), claim())
        told = frozenset(event.once for event in first.events)
        assert plan(rocksdb(size="5Gi"), claim(), reported=told).events == ()


class TestWhoseClaimItIs:
    """raycluster EX-32."""

    OTHER = Owner(api_version="v1", kind="ConfigMap", name="x", uid="u-x", block_owner_deletion=True)

    def test_nobodys_when_it_shall_stay(self) -> None:
        patch = claim_action(plan(rocksdb(deletionPolicy="Retain"), claim(owners=[self.OTHER, OWNER])))
        assert isinstance(patch, Patch)
        assert patch.patch["metadata"]["ownerReferences"] == [
            {"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "u-x", "blockOwnerDeletion": True}
        ]
        assert patch.patch["metadata"]["resourceVersion"] == "7"

    @pytest.mark.parametrize("kind", ["RayClusterSuspending", "RayClusterSuspended"])
    def test_nobodys_when_it_shall_stay_and_the_cluster_is_suspended(self, kind: str) -> None:
        """Who puts a cluster away for good suspends it, says that its state shall stay, and deletes it."""
        options = {"backend": "rocksdb", "storage": {"deletionPolicy": "Retain"}}
        rc = cluster(gcsFaultToleranceOptions=options, suspend=True, status=holding(kind))
        patch = claim_action(plan(rc, claim()))
        assert isinstance(patch, Patch)
        assert patch.patch["metadata"]["ownerReferences"] == []
        assert not plan(rc, claim(owners=[])).actions

    def test_the_clusters_when_it_shall_go_with_it(self) -> None:
        patch = claim_action(plan(rocksdb(), claim(owners=[])))
        assert isinstance(patch, Patch)
        assert [each["uid"] for each in patch.patch["metadata"]["ownerReferences"]] == ["u-1"]

    def test_a_claim_without_owner_that_shall_stay_is_as_it_should_be(self) -> None:
        assert claim_action(plan(rocksdb(deletionPolicy="Retain"), claim(owners=[]))) is None

    @pytest.mark.parametrize("policy", ["Retain", "DeleteWithCluster"])
    def test_another_clusters_claim_is_not_touched_and_not_used(self, policy: str) -> None:
        other = Owner(api_version="ray.io/v1", kind="RayCluster", name="other", uid="u-2", controller=True)
        found = plan(rocksdb(deletionPolicy=policy), claim(owners=[other]))
        assert found.actions == []
        (event,) = found.events
        assert event.reason == "FailedToCreatePVC"
        assert "belongs to RayCluster other" in event.note
