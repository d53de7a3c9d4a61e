"""How far an object is from what it shall be, when others may write to it too.

Controllers of Ingresses keep notes in annotations, and webhooks add labels. Whoever takes them away is written to
again at once, and so on without end: what others add stays, and only what we ask for is brought back. A spec is ours
as a whole. It is compared as a server stores it, or else it would be written for ever to no effect.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kuberay.controllers.merging import merge_patch_between

if TYPE_CHECKING:
    from kuberay.api.partial import Ingress, NetworkPolicy

Json = dict[str, Any]

_LABELS = "matchLabels"


def drift(present: Ingress | NetworkPolicy, wanted: Json) -> Json:
    """The merge patch that brings an object back to what it shall be; empty when it is."""
    found: Json = {}
    metadata = wanted["metadata"]
    lost = {
        "labels": _lost(present.metadata.labels, metadata["labels"]),
        "annotations": _lost(present.metadata.annotations, metadata.get("annotations", {})),
    }
    if changes := {field: missing for field, missing in lost.items() if missing}:
        found["metadata"] = changes
    if spec := merge_patch_between(_stored(present.spec), _stored(wanted["spec"])):
        found["spec"] = spec
    return found


def _lost(present: dict[str, str], wanted: dict[str, str]) -> dict[str, str]:
    return {key: value for key, value in wanted.items() if present.get(key) != value}


def _stored(value: Any) -> Any:
    """As an API server stores it: without what is empty, and with a protocol for every port.

    Empty objects mean something, be it a rule that allows all or a selector of everything, and are kept; but labels
    to match are no object, and one of them may well be empty.
    """
    if isinstance(value, list):
        return [_stored(each) for each in value]
    if not isinstance(value, dict):
        return value
    kept = {
        key: member if key == _LABELS else _stored(member)
        for key, member in value.items()
        if member not in (None, [], "") and (key, member) != (_LABELS, {})
    }
    for port in kept.get("ports", ()) if isinstance(kept.get("ports"), list) else ():
        if isinstance(port, dict):
            port.setdefault("protocol", "TCP")
    return kept
