"""Who an object is: read the same way from a dict and from any typed object with `metadata`."""

from __future__ import annotations

from typing import Any, NamedTuple


class Key(NamedTuple):
    """Where an object lives. Objects without namespace have an empty one."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


class Identity(NamedTuple):
    """What tells one state of one object from all others."""

    key: Key
    uid: str
    resource_version: str
    leaving: bool
    """Whether its deletion was asked for."""


def identity(obj: Any) -> Identity:
    """The identity of a dict or of a typed object."""
    if isinstance(obj, dict):
        meta = obj.get("metadata") or {}
        return Identity(
            Key(meta.get("namespace") or "", meta.get("name") or ""),
            meta.get("uid") or "",
            meta.get("resourceVersion") or "",
            meta.get("deletionTimestamp") is not None,
        )
    meta = obj.metadata
    return Identity(
        Key(meta.namespace or "", meta.name or ""),
        meta.uid or "",
        meta.resource_version or "",
        meta.deletion_timestamp is not None,
    )


def version_of(obj: Any) -> str:
    """The resourceVersion alone: most questions to thousands of objects are about it."""
    if isinstance(obj, dict):
        return (obj.get("metadata") or {}).get("resourceVersion") or ""
    return obj.metadata.resource_version or ""


def version_order(resource_version: str) -> tuple[int, str]:
    """Sorts resourceVersions by age, as Kubernetes defines it: the longer is newer, then the lexically greater."""
    return len(resource_version), resource_version
