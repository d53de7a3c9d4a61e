"""Which changes are worth a look: ready-made conditions on the old and the new state of an object.

`Controller.watches(..., when=...)` takes any function of (old, new); these are the common ones. Arrivals and departures
are always news, and so is another object under the same name: only changes of one and the same object are judged.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Predicate = Callable[[Any, Any], bool]
"""Judges a change by the old and the new state; no old is an arrival, no new a departure."""


def generation_changed(old: Any, new: Any) -> bool:
    """Its spec was changed, or its deletion was asked for. Kinds without generations (Pods) never show it."""
    return _differs(old, new, "generation", "generation")


def labels_changed(old: Any, new: Any) -> bool:
    """Its labels were changed."""
    return _differs(old, new, "labels", "labels")


def annotations_changed(old: Any, new: Any) -> bool:
    """Its annotations were changed."""
    return _differs(old, new, "annotations", "annotations")


def deletion_asked(old: Any, new: Any) -> bool:
    """It began to leave: for kinds without generations."""
    return _differs(old, new, "deletionTimestamp", "deletion_timestamp")


def resource_version_changed(old: Any, new: Any) -> bool:
    """Anything at all was changed; a state that is shown once more was not."""
    return _differs(old, new, "resourceVersion", "resource_version")


def any_of(*predicates: Predicate) -> Predicate:
    """At least one of them holds."""
    return lambda old, new: any(each(old, new) for each in predicates)


def all_of(*predicates: Predicate) -> Predicate:
    """Each of them holds."""
    return lambda old, new: all(each(old, new) for each in predicates)


def _differs(old: Any, new: Any, field: str, attribute: str) -> bool:
    if old is None or new is None:
        return True
    if _meta(old, "uid", "uid") != _meta(new, "uid", "uid"):
        return True
    return bool(_meta(old, field, attribute) != _meta(new, field, attribute))


def _meta(obj: Any, field: str, attribute: str) -> Any:
    """A part of the metadata of a dict or of a typed object; one that is empty is one that is absent."""
    if isinstance(obj, dict):
        return (obj.get("metadata") or {}).get(field) or None
    return getattr(obj.metadata, attribute) or None
