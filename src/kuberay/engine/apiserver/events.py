"""One store of Events, two shapes: `v1`, which is stored, and `events.k8s.io/v1`, which renames most fields."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kuberay.engine.apiserver.registry import Conversion

if TYPE_CHECKING:
    from kuberay.engine.apiserver.storage import Object

_NEW_NAMES = {
    "involvedObject": "regarding",
    "message": "note",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
    "reportingComponent": "reportingController",
}
_OLD_NAMES = {new: old for old, new in _NEW_NAMES.items()}


def _to_stored(obj: Object) -> Object:
    return {**{_OLD_NAMES.get(key, key): value for key, value in obj.items()}, "apiVersion": "v1"}


def _from_stored(obj: Object) -> Object:
    return {**{_NEW_NAMES.get(key, key): value for key, value in obj.items()}, "apiVersion": "events.k8s.io/v1"}


EVENTS_V1 = Conversion(_to_stored, _from_stored)
