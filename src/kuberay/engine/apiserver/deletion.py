"""What a delete does to an object: remove it now, or mark it and let it finish. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal

from kuberay.engine.apiserver import problems
from kuberay.engine.apiserver.ages import timestamp
from kuberay.kube.errors import Conflict, StatusDetails
from kuberay.kube.resources import Resource

if TYPE_CHECKING:
    from kuberay.engine.apiserver.registry import Kind
    from kuberay.engine.apiserver.storage import Object

ORPHAN = "orphan"
FOREGROUND = "foregroundDeletion"

Propagation = Literal["Background", "Foreground", "Orphan"]
POLICIES: tuple[Propagation, ...] = ("Background", "Foreground", "Orphan")
_DELETE_OPTIONS = Resource("meta.k8s.io", "v1", "deleteoptions", "DeleteOptions")


@dataclass(frozen=True, slots=True)
class DeleteOptions:
    """The body or query of a delete, decoded. `None` means not given."""

    grace_period_seconds: int | None = None
    propagation: Propagation | None = None
    uid: str | None = None
    resource_version: str | None = None
    dry_run: bool = False


def parse_options(fields: dict[str, Any]) -> DeleteOptions:
    """:raises Invalid: a value that no delete has."""
    found: list[problems.Problem] = []
    grace = fields.get("gracePeriodSeconds")
    if grace is not None and (not isinstance(grace, int) or grace < 0):
        found.append(problems.invalid("gracePeriodSeconds", grace, "must be a number of seconds, 0 or more"))
    policy = fields.get("propagationPolicy")
    if policy is None and fields.get("orphanDependents") is not None:
        policy = "Orphan" if fields["orphanDependents"] else "Background"
    if policy not in (None, *POLICIES):
        found.append(problems.unsupported("propagationPolicy", policy, POLICIES))
    dry_run = fields.get("dryRun") or []
    if dry_run not in ([], ["All"]):
        found.append(problems.unsupported("dryRun", dry_run, ("All",)))
    preconditions = fields.get("preconditions") or {}
    if not isinstance(preconditions, dict):
        found.append(problems.wrong_type("preconditions", preconditions, "object"))
    if found:
        raise problems.refusal(_DELETE_OPTIONS, "", found)
    return DeleteOptions(
        grace, policy, preconditions.get("uid"), preconditions.get("resourceVersion"), dry_run == ["All"]
    )


def check_preconditions(kind: Kind, meta: Object, options: DeleteOptions) -> None:
    """:raises Conflict: the object is not the one that was meant."""
    for label, wanted, found, guess in (
        ("UID", options.uid, meta["uid"], "deleted and then recreated"),
        ("ResourceVersion", options.resource_version, meta["resourceVersion"], "modified"),
    ):
        if wanted is not None and wanted != found:
            raise Conflict(
                f'Operation cannot be fulfilled on {kind.resource.kind} "{meta["name"]}": the {label} in the'
                f" precondition ({wanted}) does not match the {label} in record ({found})."
                f" The object might have been {guess}",
                details=StatusDetails(name=meta["name"], group=kind.resource.group, kind=kind.resource.kind),
            )


def grace_of(kind: Kind, obj: Object, options: DeleteOptions) -> int:
    """Seconds an object gets to finish. Only a Pod that a node is running gets any."""
    if kind.table != "pods" or not obj["spec"].get("nodeName"):
        return 0
    if obj.get("status", {}).get("phase") in ("Succeeded", "Failed"):
        return 0
    if options.grace_period_seconds is not None:
        return options.grace_period_seconds
    return int(obj["spec"].get("terminationGracePeriodSeconds", 30))


def marked(kind: Kind, obj: Object, options: DeleteOptions, now: datetime) -> Object:
    """The object as a delete leaves it: with its deletion time, grace and finalizers. `obj` stays as it is.

    A second delete may shorten the grace, never lengthen it.
    """
    meta = dict(obj["metadata"])
    finalizers = [one for one in meta.get("finalizers", ()) if one not in _DROPPED.get(options.propagation or "", ())]
    if (added := _ADDED.get(options.propagation or "")) and added not in finalizers:
        finalizers.append(added)
    meta["finalizers"] = finalizers
    if not finalizers:
        del meta["finalizers"]
    grace = grace_of(kind, obj, options)
    if "deletionTimestamp" not in meta:
        if "generation" in meta:
            meta["generation"] += 1
        started = now
    else:
        current = meta.get("deletionGracePeriodSeconds", 0)
        if grace >= current:
            return {**obj, "metadata": meta}
        started = now
    meta["deletionTimestamp"] = timestamp(started + timedelta(seconds=grace))
    if kind.table != "namespaces":
        meta["deletionGracePeriodSeconds"] = grace
    marked_obj = {**obj, "metadata": meta}
    if kind.table == "namespaces":
        marked_obj["status"] = {**obj.get("status", {}), "phase": "Terminating"}
    return marked_obj


def is_finished(obj: Object) -> bool:
    """Whether an object that is being deleted has nothing left to wait for."""
    meta = obj["metadata"]
    if "deletionTimestamp" not in meta or meta.get("finalizers"):
        return False
    if obj.get("kind") == "Namespace":
        return not obj.get("spec", {}).get("finalizers")
    return not meta.get("deletionGracePeriodSeconds")


_ADDED = {"Foreground": FOREGROUND, "Orphan": ORPHAN}
_DROPPED = {"Background": (ORPHAN, FOREGROUND), "Foreground": (ORPHAN,), "Orphan": (FOREGROUND,)}
