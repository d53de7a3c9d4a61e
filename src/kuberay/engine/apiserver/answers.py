"""Answers: objects, lists, Tables and refusals as bytes, in the form the client accepts."""

from __future__ import annotations

import base64
import binascii
from enum import Enum
from typing import TYPE_CHECKING, Any

import orjson

from kuberay.engine.apiserver.table import table
from kuberay.kube.errors import ApiError, BadRequest, Status
from kuberay.kube.transport import Response

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Mapping
    from datetime import datetime

    from kuberay.engine.apiserver.registry import Kind
    from kuberay.engine.apiserver.storage import Entry, Object

JSON = {"content-type": "application/json"}


class Form(Enum):
    """In which shape a client wants an object or a list."""

    OBJECT = "object"
    TABLE = "table"
    METADATA = "metadata"


def wanted_form(accept: str) -> Form:
    """The first form of an `Accept` header that is served.

    :raises ApiError: 406, none of them is.
    """
    for choice in accept.split(",") if accept else ["*/*"]:
        media, *parameters = [part.strip() for part in choice.split(";")]
        if media not in ("application/json", "application/*", "*/*"):
            continue
        asked = dict(one.partition("=")[::2] for one in parameters)
        match asked.get("as", ""):
            case "":
                return Form.OBJECT
            case "Table" if asked.get("g") == "meta.k8s.io":
                return Form.TABLE
            case "PartialObjectMetadata" | "PartialObjectMetadataList" if asked.get("g") == "meta.k8s.io":
                return Form.METADATA
    message = f"this API server answers application/json only, and {accept!r} does not accept it"
    raise ApiError(status=Status(status="Failure", message=message, reason="NotAcceptable", code=406))


class StreamAnswer:
    """An answer that goes on (`kube.transport.Stream`)."""

    def __init__(self, headers: Mapping[str, str], chunks: AsyncGenerator[bytes, None]) -> None:
        self.status = 200
        self.headers = headers
        self._chunks = chunks

    def chunks(self) -> AsyncIterator[bytes]:
        return self._chunks

    async def read(self) -> bytes:
        return b"".join([chunk async for chunk in self._chunks])

    async def close(self) -> None:
        """Stop; nobody listens any more."""
        await self._chunks.aclose()


def json_answer(content: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Any JSON value."""
    return Response(status, {**JSON, **(headers or {})}, orjson.dumps(content))


def refusal(error: ApiError) -> Response:
    """A Status."""
    headers = dict(JSON)
    if error.status.details is not None and error.status.details.retry_after_seconds:
        headers["retry-after"] = str(error.status.details.retry_after_seconds)
    return Response(error.status.code or 500, headers, orjson.dumps(error.status.to_dict()))


def success(kind: Kind, entry: Entry) -> Response:
    """The Status of a delete that is finished."""
    details = {"name": entry.name, "kind": kind.resource.plural, "uid": entry.obj["metadata"]["uid"]}
    if kind.resource.group:
        details["group"] = kind.resource.group
    return json_answer({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details})


def object_bytes(kind: Kind, entry: Entry) -> bytes:
    """An object as this version of its kind shows it; the stored bytes where they are the same."""
    return entry.body if kind.is_stored_shape(entry.obj) else orjson.dumps(kind.view(entry.obj))


def object_answer(
    kind: Kind, entry: Entry, form: Form, now: datetime, *, include: str = "", status: int = 200, warnings: str = ""
) -> Response:
    """One object in the form that is wanted."""
    headers = {**JSON, "warning": warnings} if warnings else JSON
    match form:
        case Form.OBJECT:
            return Response(status, headers, object_bytes(kind, entry))
        case Form.METADATA:
            return Response(status, headers, orjson.dumps(partial_metadata(entry.obj)))
        case Form.TABLE:
            rows = table(kind, [entry], now, include=include)
            rows["metadata"]["resourceVersion"] = entry.obj["metadata"].get("resourceVersion", "")
            return Response(status, headers, orjson.dumps(rows))


def list_answer(
    kind: Kind, entries: list[Entry], meta: Object, form: Form, now: datetime, *, include: str = ""
) -> Response:
    """A list in the form that is wanted. The stored bytes of its items are joined, not encoded again."""
    if form is Form.TABLE:
        return json_answer({**table(kind, entries, now, include=include), "metadata": meta})
    if form is Form.METADATA:
        items = [orjson.dumps(partial_metadata(entry.obj)) for entry in entries]
        name, version = "PartialObjectMetadataList", "meta.k8s.io/v1"
    else:
        items = [object_bytes(kind, entry) for entry in entries]
        name, version = kind.list_kind or f"{kind.resource.kind}List", kind.resource.api_version
    head = orjson.dumps({"kind": name, "apiVersion": version, "metadata": meta})
    return Response(200, JSON, b'%s,"items":[%s]}' % (head[:-1], b",".join(items)))


def partial_metadata(obj: Object) -> Object:
    """An object without its contents."""
    return {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": obj["metadata"]}


def continue_token(version: int, entry: Entry) -> str:
    """Where the next page starts, and at which version all pages are read."""
    return base64.urlsafe_b64encode(orjson.dumps([version, entry.namespace, entry.name])).decode()


def parse_continue(token: str) -> tuple[int, tuple[str, str]]:
    """:raises BadRequest: not one of our tokens."""
    try:
        version, namespace, name = orjson.loads(base64.urlsafe_b64decode(token))
        return int(version), (str(namespace), str(name))
    except (binascii.Error, ValueError, TypeError):
        raise BadRequest("invalid continue token: start the list again without it") from None
