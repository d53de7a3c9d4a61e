"""Events: one store, two shapes, and an end.

`v1` is the shape that is stored; `events.k8s.io/v1` renames most of its fields. An Event that was not repeated for an
hour is forgotten, or a machine that runs for weeks would keep every word ever said.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from kuberay.engine.apiserver import ages
from kuberay.engine.apiserver.registry import Conversion

if TYPE_CHECKING:
    from kuberay.engine.apiserver.storage import Object

KEPT = timedelta(hours=1)
SWEEP_EVERY = 64
"""Old Events are looked for once in so many versions, not at every write."""

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


def is_old(event: Object, now: datetime) -> bool:
    """Whether a stored Event has not been repeated for so long that it is forgotten."""
    times = (
        (event.get("series") or {}).get("lastObservedTime"),
        event.get("lastTimestamp"),
        event.get("eventTime"),
        event["metadata"].get("creationTimestamp"),
    )
    latest = max((moment for text in times if (moment := ages.parse(text))), default=now)
    return now - latest > KEPT
