"""The volume claim of a head that keeps Ray's cluster state itself: made once, never changed, kept or not as told."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import orjson

from kuberay.build import fault_tolerance
from kuberay.build.fault_tolerance import gcs_storage
from kuberay.build.pod import owner_reference
from kuberay.controllers.plan import Create, EmitEvent, Patch, Subject
from kuberay.controllers.raycluster.status import Blocked
from kuberay.kube import quantity
from kuberay.kube.resources import PERSISTENT_VOLUME_CLAIMS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kuberay.api.core import Owner, PersistentVolumeClaim
    from kuberay.api.v1 import RayCluster
    from kuberay.controllers.raycluster.observe import Seen

CLAIM = Subject("GCS storage PVC", "PVC")
SCOPE = "storage"

_OWNERSHIP = Subject("GCS storage PVC", "PVC", is_announced=False)


def foreign_claim(seen: Seen) -> Blocked | None:
    """A claim that belongs to somebody else must not be written to by two heads."""
    if seen.claim is None or not _is_managed(seen.cluster):
        return None
    owner = seen.claim.metadata.controller
    if owner is None or owner.uid == seen.cluster.metadata.uid:
        return None
    message = (
        f"PVC {seen.cluster.namespace}/{seen.claim.name} belongs to {owner.kind} {owner.name}; delete or rename it"
    )
    return Blocked("FailedToCreatePVC", message)


def claim_action(seen: Seen) -> Create | Patch | None:
    """What is to be done about the claim: make it, or give it the owner that its deletion policy asks for."""
    cluster = seen.cluster
    if not _is_managed(cluster) or seen.left_behind:
        return None
    if seen.claim is None:
        return _create(cluster)
    owned = seen.claim.metadata.controller is not None
    if owned != _is_retained(cluster):
        return None
    return _align(seen.claim, cluster)


def claim_events(seen: Seen) -> Iterator[EmitEvent]:
    """What a user has to know about the claim; each thing is told once."""
    cluster = seen.cluster
    given = _given_name(cluster) if fault_tolerance.is_embedded(cluster) else None
    if given and seen.claim is None and not seen.left_behind:
        yield _warning("Validate", f"PVC {cluster.namespace}/{given} does not exist; the head waits for it")
    if seen.claim is None or not _is_managed(cluster):
        return
    drift = list(_drift(seen.claim, cluster))
    if drift:
        name = f"{cluster.namespace}/{seen.claim.name}"
        listed = ", ".join(drift)
        yield _warning("Update", f"PVC {name} is used as it is, but differs: {listed}. To apply the spec, delete it")


def _create(cluster: RayCluster) -> Create:
    body = fault_tolerance.claim(cluster)
    if not _is_retained(cluster):
        body["metadata"]["ownerReferences"] = [owner_reference(cluster)]
    return Create(
        resource=PERSISTENT_VOLUME_CLAIMS,
        namespace=cluster.namespace,
        name=body["metadata"]["name"],
        body=orjson.dumps(body),
        subject=CLAIM,
        scope=SCOPE,
        why="the head keeps its state on a volume",
        takes_any=True,
    )


def _align(claim: PersistentVolumeClaim, cluster: RayCluster) -> Patch:
    others = [_reference(owner) for owner in claim.metadata.owner_references if owner.uid != cluster.metadata.uid]
    is_retained = _is_retained(cluster)
    owners = others if is_retained else [*others, owner_reference(cluster)]
    return Patch(
        resource=PERSISTENT_VOLUME_CLAIMS,
        namespace=cluster.namespace,
        name=claim.name,
        uid=claim.metadata.uid,
        patch={"metadata": {"ownerReferences": owners, "resourceVersion": claim.metadata.resource_version}},
        subject=_OWNERSHIP,
        scope=SCOPE,
        why="its deletion policy is Retain" if is_retained else "it shall go with the cluster",
    )


def _reference(owner: Owner) -> dict[str, object]:
    """As it was written: a list is replaced as a whole, and the others in it are somebody else's."""
    reference = {
        "apiVersion": owner.api_version,
        "kind": owner.kind,
        "name": owner.name,
        "uid": owner.uid,
        "controller": owner.controller,
        "blockOwnerDeletion": owner.block_owner_deletion,
    }
    return {key: value for key, value in reference.items() if value is not None}


def _drift(claim: PersistentVolumeClaim, cluster: RayCluster) -> Iterator[str]:
    """How a claim differs from what the spec asks for, field by field."""
    storage = gcs_storage(cluster)
    wanted, found = fault_tolerance.size(storage), claim.spec.resources.requests.get("storage", 0)
    if not _is_same_amount(wanted, found):
        yield f"size is {found} and shall be {wanted}"
    wanted_class = storage.storage_class_name if storage is not None else None
    if wanted_class is not None and wanted_class != claim.spec.storage_class_name:
        yield f"storageClassName is {claim.spec.storage_class_name or 'unset'} and shall be {wanted_class}"
    modes = fault_tolerance.access_modes(storage)
    if Counter(modes) != Counter(claim.spec.access_modes):
        yield f"accessModes are {', '.join(claim.spec.access_modes)} and shall be {', '.join(modes)}"


def _is_same_amount(one: str | int, other: str | int) -> bool:
    try:
        return quantity.parse(one) == quantity.parse(other)
    except ValueError:
        return one == other


def _given_name(cluster: RayCluster) -> str | None:
    storage = gcs_storage(cluster)
    return storage.claim_name or None if storage is not None else None


def _is_managed(cluster: RayCluster) -> bool:
    return fault_tolerance.is_embedded(cluster) and _given_name(cluster) is None


def _is_retained(cluster: RayCluster) -> bool:
    storage = gcs_storage(cluster)
    return storage is not None and storage.deletion_policy == "Retain"


def _warning(action: str, note: str) -> EmitEvent:
    return EmitEvent(type="Warning", reason="FailedToCreatePVC", action=action, note=note, once=note)
