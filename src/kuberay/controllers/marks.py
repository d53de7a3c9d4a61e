"""What a Pod is known by: its labels and its owner, and whether a server has kept them as they were sent.

An admission webhook may change an object before it is stored. A Pod that has lost what it is counted by looks as if it
had never been made, and another would be made in its place without end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from kuberay.build import labels
from kuberay.kube.resources import PODS

if TYPE_CHECKING:
    from kuberay.controllers.plan import Create

MARKS = (
    labels.CLUSTER,
    labels.NODE_TYPE,
    labels.GROUP,
    labels.REPLICA_INDEX,
    labels.REPLICA_NAME,
    labels.HOST_INDEX,
)
"""The labels by which Pods are found, counted and told apart. All others are anybody's to add or to change."""


def altered(action: Create, stored: Any) -> list[str]:
    """How a stored Pod differs from the one that was to be made in what it is known by; nothing if it does not.

    Other kinds have names that follow from their owner's, and are found by these.

    :param stored: as the server has it, decoded as the type of its cache.
    """
    if action.resource != PODS:
        return []
    sent = orjson.loads(action.body)["metadata"]
    wanted = sent.get("labels") or {}
    found = stored.metadata.labels
    changes = [
        f"label {key} {_change(wanted.get(key), found.get(key))}" for key in MARKS if wanted.get(key) != found.get(key)
    ]
    owner = next((each["uid"] for each in sent.get("ownerReferences") or () if each.get("controller")), None)
    controller = stored.metadata.controller.uid if stored.metadata.controller is not None else None
    if owner != controller:
        changes.append(f"controlling owner reference {_change(owner, controller)}")
    return changes


def _change(wanted: str | None, found: str | None) -> str:
    if found is None:
        return "missing"
    return "added" if wanted is None else "changed"
