"""The one seam for I/O: a request as data goes in, a response comes out.

Two things implement `Transport`: `kube.http.HttpTransport` (HTTPS) and the embedded API server's
in-process transport. Nothing above this seam knows which one it has.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from contextlib import AbstractAsyncContextManager


@dataclass(frozen=True, slots=True)
class Request:
    """An HTTP request to an API server, complete but not sent.

    `path` starts with `/` and holds no query; `query` keeps the order and repetition of its names.
    """

    method: str
    path: str
    query: tuple[tuple[str, str], ...] = ()
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None


@dataclass(frozen=True, slots=True)
class Response:
    """A whole answer. Headers are found under their lower-case names."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Stream(Protocol):
    """An answer that goes on: a watch, or followed logs. Headers are found under their
    lower-case names."""

    status: int
    headers: Mapping[str, str]

    def chunks(self) -> AsyncIterator[bytes]:
        """The body as it arrives, cut anywhere; ends when the server ends it.

        :raises TransportError: the connection broke.
        """
        ...

    async def read(self) -> bytes:
        """The rest of the body at once; for reading the Status of a refusal."""
        ...


class Transport(Protocol):
    """Sends requests. Never interprets a status code: a 404 is an ordinary response here."""

    async def send(self, request: Request, *, timeout: float | None = None) -> Response:
        """Send and read the whole answer.

        :param timeout: seconds for the whole exchange; `None` leaves it to the transport's default.
        :raises TransportError: there was no answer.
        """
        ...

    def stream(self, request: Request) -> AbstractAsyncContextManager[Stream]:
        """Send and hand over the answer while it arrives; leaving the context closes it.

        :raises TransportError: there was no answer.
        """
        ...

    async def close(self) -> None:
        """Close connections. Requests under way fail with `TransportError`."""
        ...
