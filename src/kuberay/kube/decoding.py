"""Answers of an API server, decoded straight into the type that the caller reads.

Three kinds of type: a msgspec Struct (one pass from bytes to a slim object; fields it does not name are skipped), a
class with `from_dict` (whole objects that keep what they do not know, but for who wrote which field: `managedFields`,
which is half of an object and of no use to its reader), and none at all (a plain dict). One object that
cannot be read never spoils the others of a list or a watch: it is set aside as `Unreadable`.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, cast

import msgspec
import orjson

from kuberay.kube.errors import ApiError, DecodeError, Status, StatusDetails
from kuberay.kube.identity import Key

if TYPE_CHECKING:
    from collections.abc import Callable

    from kuberay.kube.transport import Request

T = TypeVar("T")

INITIAL_EVENTS_END = "k8s.io/initial-events-end"
_SHOWN = 200
_DEEPEST = 10_000
"""How deep an API server lets JSON be nested."""
_NOT_READ = (ValueError, RecursionError)


class EventType(Enum):
    """What happened to an object, or what a line of a watch is instead."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"
    BOOKMARK = "BOOKMARK"
    ERROR = "ERROR"


class Event(msgspec.Struct, Generic[T], frozen=True, gc=False):
    """One change of one object; `type` is ADDED, MODIFIED or DELETED."""

    type: EventType
    object: T


@dataclass(frozen=True, slots=True)
class Bookmark:
    """The watch has passed this version; `initial_events_end` closes the streamed list."""

    resource_version: str
    initial_events_end: bool = False


@dataclass(frozen=True, slots=True)
class Unreadable:
    """An object that is there but could not be decoded, and why. `type` is absent in a list."""

    namespace: str
    name: str
    resource_version: str
    why: str
    type: EventType | None = None


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """A list, or a part of one: `continue_` is not empty when there is more."""

    items: list[T]
    resource_version: str
    continue_: str = ""
    unreadable: tuple[Unreadable, ...] = ()


class _HasFromDict(Protocol):
    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Any: ...


class _Meta(msgspec.Struct, rename="camel"):
    name: str = ""
    namespace: str = ""
    resource_version: str = ""
    annotations: dict[str, str] | None = None


class _ListMeta(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")


class _Named(msgspec.Struct):
    metadata: _Meta = msgspec.field(default_factory=_Meta)


class _List(msgspec.Struct, Generic[T]):
    metadata: _ListMeta = msgspec.field(default_factory=_ListMeta)
    items: list[T] | None = None


class _Kind(msgspec.Struct):
    kind: str = ""


_raw_list = msgspec.json.Decoder(_List[msgspec.Raw])
_raw_event = msgspec.json.Decoder(Event[msgspec.Raw])
_named = msgspec.json.Decoder(_Named)
_status = msgspec.json.Decoder(Status)
_kind = msgspec.json.Decoder(_Kind)


class Decoder(Generic[T]):
    """Reads objects, lists and watch lines of one type. Made once per type by `decoder_for`."""

    def __init__(self, type: type[T] | None) -> None:
        self._object: Callable[[bytes | msgspec.Raw], T]
        self._list: Callable[[bytes], _List[T]] | None = None
        self._event: Callable[[bytes | memoryview], Event[T]] | None = None
        if type is None:
            self._object = cast("Callable[[bytes | msgspec.Raw], T]", lambda body: orjson.loads(memoryview(body)))
        elif hasattr(type, "from_dict"):
            read = cast(_HasFromDict, type).from_dict
            self._object = lambda body: cast(T, read(_without_managed_fields(orjson.loads(memoryview(body)))))
        else:
            self._object = msgspec.json.Decoder(type).decode
            self._list = msgspec.json.Decoder(_List[type]).decode  # type: ignore[valid-type]
            self._event = msgspec.json.Decoder(Event[type]).decode  # type: ignore[valid-type]

    def object(self, body: bytes) -> T:
        """One object.

        :raises DecodeError: it is not one.
        """
        try:
            return self._object(body)
        except _NOT_READ as error:
            raise DecodeError(
                f"cannot read the server's answer: {_why(error)}; it starts with {_start(body)!r}"
            ) from error

    def page(self, body: bytes) -> Page[T]:
        """A list; objects that cannot be read are set aside in it.

        :raises DecodeError: it is not a list.
        """
        if self._list is not None:
            try:
                whole = self._list(body)
            except (msgspec.ValidationError, RecursionError):
                pass  # read again below, one object at a time
            except ValueError as error:
                raise DecodeError(f"cannot read a list: {error}; it starts with {_start(body)!r}") from error
            else:
                return Page(whole.items or [], whole.metadata.resource_version, whole.metadata.continue_)
        try:
            parts = _skimmed(_raw_list, body)
        except _NOT_READ as error:
            raise DecodeError(f"cannot read a list: {_why(error)}; it starts with {_start(body)!r}") from error
        items: list[T] = []
        unreadable = []
        for raw in parts.items or ():
            try:
                items.append(self._object(raw))
            except _NOT_READ as error:
                unreadable.append(_set_aside(raw, error, None))
        return Page(items, parts.metadata.resource_version, parts.metadata.continue_, tuple(unreadable))

    def event(
        self, line: bytes | memoryview, known: Callable[[Key, str], T | None] = lambda *_: None
    ) -> Event[T] | Bookmark | Unreadable:
        """One line of a watch.

        :param known: an object by key and version, if it was read before. Asked only where reading takes long.
        :raises ApiError: the line is the server's refusal to go on (`Expired`: list again).
        :raises DecodeError: it is not an event.
        """
        if self._event is not None:
            try:
                event = self._event(line)
            except (msgspec.ValidationError, RecursionError):
                pass  # a Status, or an object that cannot be read
            except ValueError as error:
                raise DecodeError(f"cannot read a watch event: {error}; it starts with {_start(line)!r}") from error
            else:
                if event.type is not EventType.BOOKMARK and event.type is not EventType.ERROR:
                    return event
        try:
            raw = _skimmed(_raw_event, line)
            if raw.type is EventType.ERROR:
                raise ApiError.from_status(_status.decode(raw.object))
            if raw.type is EventType.BOOKMARK:
                meta = _named.decode(raw.object).metadata
                return Bookmark(meta.resource_version, (meta.annotations or {}).get(INITIAL_EVENTS_END) == "true")
        except _NOT_READ as error:
            raise DecodeError(f"cannot read a watch event: {_why(error)}; it starts with {_start(line)!r}") from error
        try:
            return Event(raw.type, self._known(raw, known) or self._object(raw.object))
        except _NOT_READ as error:
            return _set_aside(raw.object, error, raw.type)

    def _known(self, raw: Event[msgspec.Raw], known: Callable[[Key, str], T | None]) -> T | None:
        if self._event is not None:
            return None  # to look for it takes as long as to read it
        meta = _named.decode(raw.object).metadata
        return known(Key(meta.namespace, meta.name), meta.resource_version)


_decoders: dict[object, Decoder[Any]] = {}


def decoder_for(type: type[T] | None) -> Decoder[T]:
    """The decoder of a type, made once."""
    decoder = _decoders.get(type)
    if decoder is None:
        decoder = _decoders[type] = Decoder(type)
    return decoder


def refusal(request: Request, status: int, headers: Any, body: bytes) -> ApiError:
    """The exception for an answer that is no success, whoever made it: the API server, or a proxy on the way."""
    found = Status()
    try:
        if _kind.decode(body).kind == "Status":
            found = _status.decode(body)
    except _NOT_READ:
        pass  # not from an API server
    message = found.message
    if not message:
        said = body.decode("utf-8", "replace").strip()[:_SHOWN]
        message = f"{request.method} {request.path} was answered with HTTP {status}" + (f": {said}" if said else "")
    details = found.details
    seconds = headers.get("retry-after", "")
    if seconds.isdecimal() and not (details and details.retry_after_seconds):
        details = msgspec.structs.replace(details or StatusDetails(), retry_after_seconds=int(seconds))
    return ApiError.from_status(
        msgspec.structs.replace(found, status="Failure", message=message, code=found.code or status, details=details)
    )


def is_status(body: bytes) -> bool:
    """Whether an answer is a `Status` rather than the object that was asked for."""
    try:
        return _kind.decode(body).kind == "Status"
    except _NOT_READ:
        return False


def _set_aside(raw: msgspec.Raw, error: Exception, type: EventType | None) -> Unreadable:
    try:
        meta = _skimmed(_named, raw).metadata
    except _NOT_READ:
        raise DecodeError(f"cannot read an object, nor its name: {_why(error)}") from error
    return Unreadable(meta.namespace, meta.name, meta.resource_version, _why(error), type)


def _why(error: Exception) -> str:
    return "it is nested too deeply" if isinstance(error, RecursionError) else str(error)


def _skimmed(decoder: msgspec.json.Decoder[T], body: bytes | memoryview | msgspec.Raw) -> T:
    """What a type reads that only passes over what is nested. An API server takes objects ten times as deep as Python
    goes, and passing over takes little of the stack."""
    try:
        return decoder.decode(body)
    except RecursionError:
        limit = sys.getrecursionlimit()
        sys.setrecursionlimit(limit + _DEEPEST)
        try:
            return decoder.decode(body)
        finally:
            sys.setrecursionlimit(limit)


def _without_managed_fields(document: Any) -> Any:
    metadata = document.get("metadata") if isinstance(document, dict) else None
    if isinstance(metadata, dict):
        metadata.pop("managedFields", None)
    return document


def _start(body: bytes | memoryview) -> str:
    return bytes(body[:_SHOWN]).decode("utf-8", "replace")
