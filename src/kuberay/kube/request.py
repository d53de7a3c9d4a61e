"""Verbs of the Kubernetes API as requests: complete, but not sent.

Everything that decides what goes over the wire is here and pure, so that it can be tested by looking at it. Names that
could escape their place in a path are refused here, for every transport.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Literal

import orjson

from kuberay.kube.transport import Request

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kuberay.kube.resources import Resource
    from kuberay.kube.selectors import FieldSelector, LabelSelector

Body = bytes | dict[str, Any] | list[Any]
"""What can be sent: JSON values, or JSON text that is ready."""

FieldValidation = Literal["Strict", "Warn", "Ignore"]
"""What becomes of fields that the server does not know: refused, warned of, or dropped."""

_JSON = "application/json"


class PatchType(Enum):
    """The kinds of patch, by their media type."""

    JSON = "application/json-patch+json"
    MERGE = "application/merge-patch+json"
    STRATEGIC = "application/strategic-merge-patch+json"
    APPLY = "application/apply-patch+yaml"


class Propagation(Enum):
    """What becomes of the objects that the deleted one owns."""

    BACKGROUND = "Background"
    FOREGROUND = "Foreground"
    ORPHAN = "Orphan"


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """What every write may say beside its object."""

    dry_run: bool = False
    field_manager: str | None = None
    force: bool = False
    """Only for apply: take over fields that others own."""
    field_validation: FieldValidation | None = None

    def query(self) -> list[tuple[str, str]]:
        query = []
        if self.dry_run:
            query.append(("dryRun", "All"))
        if self.field_manager:
            query.append(("fieldManager", self.field_manager))
        if self.force:
            query.append(("force", "true"))
        if self.field_validation:
            query.append(("fieldValidation", self.field_validation))
        return query


def get(resource: Resource, name: str, *, namespace: str | None, subresource: str | None = None) -> Request:
    return Request("GET", object_path(resource, name, namespace, subresource), headers={"accept": _JSON})


def list_(
    resource: Resource,
    *,
    namespace: str | None = None,
    labels: str | LabelSelector | None = None,
    fields: str | FieldSelector | None = None,
    shard: str | None = None,
    limit: int | None = None,
    continue_: str | None = None,
    resource_version: str | None = None,
    not_older_than: str | None = None,
) -> Request:
    query = _selection(labels, fields, shard)
    if limit:
        query.append(("limit", str(limit)))
    if continue_:
        query.append(("continue", continue_))
    elif resource_version is not None:
        # The server refuses a version beside a continue token, which holds its own.
        query.append(("resourceVersion", resource_version))
    elif not_older_than:
        query += [("resourceVersion", not_older_than), ("resourceVersionMatch", "NotOlderThan")]
    return Request("GET", collection_path(resource, namespace), tuple(query), {"accept": _JSON})


def watch(
    resource: Resource,
    *,
    namespace: str | None = None,
    labels: str | LabelSelector | None = None,
    fields: str | FieldSelector | None = None,
    shard: str | None = None,
    resource_version: str | None = None,
    timeout_seconds: int | None = None,
    send_initial_events: bool = False,
) -> Request:
    query = [*_selection(labels, fields, shard), ("watch", "true"), ("allowWatchBookmarks", "true")]
    if send_initial_events:
        query += [("sendInitialEvents", "true"), ("resourceVersionMatch", "NotOlderThan")]
    if resource_version is not None:
        query.append(("resourceVersion", resource_version))
    if timeout_seconds:
        query.append(("timeoutSeconds", str(timeout_seconds)))
    return Request("GET", collection_path(resource, namespace), tuple(query), {"accept": _JSON})


def create(
    resource: Resource,
    obj: Body,
    *,
    namespace: str | None,
    name: str | None = None,
    subresource: str | None = None,
    options: WriteOptions,
) -> Request:
    """:param name: only with a subresource, such as `eviction` or `binding`."""
    namespace = namespace or _namespace_of(obj)
    if subresource:
        path = object_path(resource, name or _name_of(obj), namespace, subresource)
    else:
        _require_namespace(resource, namespace)
        path = collection_path(resource, namespace)
    return Request("POST", path, tuple(options.query()), _headers(_JSON), encode(obj))


def replace(
    resource: Resource,
    name: str,
    obj: Body,
    *,
    namespace: str | None,
    subresource: str | None = None,
    options: WriteOptions,
) -> Request:
    path = object_path(resource, name, namespace or _namespace_of(obj), subresource)
    return Request("PUT", path, tuple(options.query()), _headers(_JSON), encode(obj))


def patch(
    resource: Resource,
    name: str,
    patch: Body,
    *,
    namespace: str | None,
    kind: PatchType,
    subresource: str | None = None,
    options: WriteOptions,
) -> Request:
    if kind is PatchType.APPLY and not options.field_manager:
        raise ValueError(f"an apply patch of {resource.name} {name!r} needs a field_manager")
    path = object_path(resource, name, namespace, subresource)
    return Request("PATCH", path, tuple(options.query()), _headers(kind.value), encode(patch))


def delete(
    resource: Resource,
    name: str,
    *,
    namespace: str | None,
    uid: str | None = None,
    resource_version: str | None = None,
    grace_period_seconds: int | None = None,
    propagation: Propagation | None = None,
    dry_run: bool = False,
) -> Request:
    preconditions = {name: value for name, value in (("uid", uid), ("resourceVersion", resource_version)) if value}
    body = _delete_options(grace_period_seconds, propagation, dry_run, preconditions)
    headers = _headers(_JSON) if body else {"accept": _JSON}
    return Request("DELETE", object_path(resource, name, namespace), (), headers, body)


def delete_all(
    resource: Resource,
    *,
    namespace: str | None,
    labels: str | LabelSelector | None = None,
    fields: str | FieldSelector | None = None,
    grace_period_seconds: int | None = None,
    propagation: Propagation | None = None,
    dry_run: bool = False,
) -> Request:
    """All that are selected: of one namespace, for there is no such request for all of them."""
    _require_namespace(resource, namespace)
    body = _delete_options(grace_period_seconds, propagation, dry_run, {})
    headers = _headers(_JSON) if body else {"accept": _JSON}
    return Request("DELETE", collection_path(resource, namespace), tuple(_selection(labels, fields)), headers, body)


def _delete_options(
    grace_period_seconds: int | None, propagation: Propagation | None, dry_run: bool, preconditions: Mapping[str, str]
) -> bytes | None:
    options: dict[str, Any] = {}
    if preconditions:
        options["preconditions"] = preconditions
    if grace_period_seconds is not None:
        options["gracePeriodSeconds"] = grace_period_seconds
    if propagation:
        options["propagationPolicy"] = propagation.value
    if dry_run:
        options["dryRun"] = ["All"]
    return encode({"kind": "DeleteOptions", "apiVersion": "v1", **options}) if options else None


def object_path(resource: Resource, name: str, namespace: str | None, subresource: str | None = None) -> str:
    """The path of one object.

    :raises ValueError: a name that cannot be one, or a namespace missing or too many.
    """
    _require_namespace(resource, namespace)
    _check_segment(f"name of {resource.name}", name)
    return resource.path(namespace=_segment("namespace", namespace), name=name, subresource=subresource)


def collection_path(resource: Resource, namespace: str | None) -> str:
    """The path of all objects, or of those of a namespace."""
    return resource.path(namespace=_segment("namespace", namespace))


def encode(body: Body) -> bytes:
    """JSON text of what is to be sent."""
    return body if isinstance(body, bytes) else orjson.dumps(body)


def _headers(content_type: str) -> Mapping[str, str]:
    return {"accept": _JSON, "content-type": content_type}


def _selection(
    labels: str | LabelSelector | None, fields: str | FieldSelector | None, shard: str | None = None
) -> list[tuple[str, str]]:
    pairs: Sequence[tuple[str, str | None]] = (
        ("labelSelector", None if labels is None else str(labels)),
        ("fieldSelector", None if fields is None else str(fields)),
        ("shardSelector", shard),
    )
    return [(key, value) for key, value in pairs if value]


def _require_namespace(resource: Resource, namespace: str | None) -> None:
    if resource.namespaced and not namespace:
        raise ValueError(f"{resource.name} are namespaced: a namespace is needed")


def _segment(what: str, value: str | None) -> str | None:
    if value:
        _check_segment(what, value)
    return value


def _check_segment(what: str, value: str) -> None:
    if not value or value in (".", "..") or "/" in value or "%" in value:
        raise ValueError(f"{value!r} cannot be the {what}")


def _metadata(obj: Body) -> Mapping[str, Any]:
    metadata = obj.get("metadata") if isinstance(obj, dict) else None
    return metadata if isinstance(metadata, dict) else {}


def _namespace_of(obj: Body) -> str | None:
    return _metadata(obj).get("namespace")


def _name_of(obj: Body) -> str:
    return _metadata(obj).get("name") or ""
