"""Request bodies: JSON in, an object out; or a clear word about what is not understood."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import orjson

from kuberay.api.kubernetes import definitions
from kuberay.kube.errors import BadRequest, Invalid, UnsupportedMediaType
from kuberay.kube.patches import MalformedPatch, PatchError, json_patch, merge_patch
from kuberay.kube.strategic import strategic_merge

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kuberay.engine.apiserver.storage import Object

LIMIT = 3 * 1024 * 1024
"""Kubernetes' own limit: its largest CRDs are about half of it."""

_JSON_PATCH = "application/json-patch+json"
_MERGE_PATCH = "application/merge-patch+json"
_STRATEGIC = "application/strategic-merge-patch+json"
_INSTEAD = {
    _STRATEGIC: "a strategic merge patch of a custom resource",
    "application/apply-patch+yaml": "server-side apply",
    "application/apply-patch+cbor": "server-side apply",
}


def media_type(header: str) -> str:
    """The type of a `Content-Type` header without its parameters."""
    return header.partition(";")[0].strip().lower()


def decode_object(body: bytes | None, content_type: str, *, wanted: str) -> Object:
    """The object of a create or replace.

    :raises UnsupportedMediaType: not JSON.
    :raises BadRequest: not a JSON object.
    """
    kind = media_type(content_type)
    if kind == "application/vnd.kubernetes.protobuf":
        raise UnsupportedMediaType(
            "this API server reads no protobuf bodies: send application/json"
            " (with kubectl: write the object to a file and use `kubectl create -f FILE`)"
        )
    if kind not in ("application/json", ""):
        raise UnsupportedMediaType(f"this API server reads no {kind} bodies: send application/json")
    obj = _parse(body or b"", f"the object provided is unrecognized (must be of type {wanted})")
    if not isinstance(obj, dict):
        raise BadRequest(f"the object provided is unrecognized (must be of type {wanted}): not a JSON object")
    return obj


def patch_type(content_type: str, *, custom: bool) -> str:
    """The kind of patch.

    :param custom: for a custom resource, whose schema does not say how lists are merged.
    :raises UnsupportedMediaType: one that is not served; names those that are.
    """
    kind = media_type(content_type)
    if kind not in (_JSON_PATCH, _MERGE_PATCH) and (custom or kind != _STRATEGIC):
        what = _INSTEAD.get(kind, f"{kind or 'a body without Content-Type'} as a patch")
        raise UnsupportedMediaType(
            f"this API server does not serve {what}: send {_MERGE_PATCH} (`kubectl patch --type=merge`) or"
            f" {_JSON_PATCH} (`kubectl patch --type=json`), or replace the object (`kubectl replace -f FILE`)"
        )
    return kind


def apply_patch(current: Object, body: bytes | None, kind: str, schema: Object) -> Object:
    """The object after a patch of a `patch_type`, sharing nothing with the one before.

    :raises BadRequest: not a patch.
    :raises Invalid: a patch that does not fit the object.
    """
    patch = _parse(body or b"", "error decoding patch")
    try:
        if kind == _JSON_PATCH:
            patched = json_patch(current, patch)
        elif not isinstance(patch, dict):
            raise BadRequest("error decoding patch: a merge patch is a JSON object")
        elif kind == _STRATEGIC:
            patched = strategic_merge(current, patch, schema, definitions())
        else:
            patched = merge_patch(current, patch)
    except MalformedPatch as error:
        raise BadRequest(f"error decoding patch: {error}") from error
    except PatchError as error:
        raise Invalid(f"the patch does not apply: {error}") from error
    if not isinstance(patched, dict):
        raise Invalid("the patch does not apply: what it leaves is not an object")
    fresh: Object = orjson.loads(orjson.dumps(patched))
    return fresh


def duplicate_fields(body: bytes) -> list[str]:
    """Paths of fields that stand twice in a JSON object."""
    return list(_duplicates(json.loads(body, object_pairs_hook=_Pairs), ""))


class _Pairs(dict[str, Any]):
    """A JSON object that remembers which of its names came more than once."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        names = [name for name, _ in pairs]
        self.repeated = sorted({name for name in names if names.count(name) > 1}) if len(self) < len(names) else []


def _duplicates(value: Any, path: str) -> Iterator[str]:
    if isinstance(value, _Pairs):
        yield from (f"{path}.{name}".lstrip(".") for name in value.repeated)
        for name, item in value.items():
            yield from _duplicates(item, f"{path}.{name}".lstrip("."))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _duplicates(item, f"{path}[{index}]")


def _parse(body: bytes, context: str) -> Any:
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise BadRequest(f"{context}: {error}") from error
