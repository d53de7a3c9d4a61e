"""The transport over HTTPS: connections that are kept open, credentials that are renewed, failures in words.

Whatever goes wrong below HTTP comes out as `TransportError` with the method, the address and the reason. A credential
that the server refuses is renewed where that is possible, and the request sent once more: a refused one did nothing.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING, TypeAlias
from urllib.parse import quote, urlencode, urlsplit

from kuberay.kube import dialing
from kuberay.kube.certificates import client_expired, why_not_trusted
from kuberay.kube.connection import Connection, Until
from kuberay.kube.dialing import Dialer
from kuberay.kube.errors import CredentialError, TransportError
from kuberay.kube.exec_plugin import Credential, PluginCredentials
from kuberay.kube.tls import TlsContexts
from kuberay.kube.transport import Request, Response

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

    from kuberay.kube.access import Access
    from kuberay.kube.connection import Answer
    from kuberay.kube.dialing import Resolve

_Place: TypeAlias = tuple[str, ssl.SSLContext | None]
"""Where a connection leads, and with which certificates: with new ones, new ones are made."""

# Failures of sockets and TLS, of time, of what cannot be written as HTTP, and of a transport that was closed meanwhile.
_FAILURES = (OSError, TimeoutError, RuntimeError, ValueError)
_NOT_TLS = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "HTTP_REQUEST", "UNEXPECTED_MESSAGE")
_NOBODY = Credential()
_LONGEST_IDLE = 15.0
"""Seconds after which a connection may have been dropped on the way without a word."""
_PLENTY = 2**15
"""Bytes of news after which more is read at once: less than a connection takes in at a time."""
_GATHERING = 0.03
"""Seconds that news may come late by when there is much of it; what comes after a pause is read at once."""
_SAFE_IN_PATH = "/:@!$&'()*+,;=~"
_WITH_BODY = ("POST", "PUT", "PATCH")


class HttpTransport:
    """Sends requests to one API server over connections that are kept open.

    :param timeout: seconds for a whole exchange, when the request does not say otherwise.
    :param connect_timeout: seconds to reach the server, also for streams.
    :param resolve: looks up the server's addresses.
    """

    def __init__(
        self,
        access: Access,
        *,
        timeout: float = 30.0,
        connect_timeout: float = 10.0,
        resolve: Resolve = dialing.resolve,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.access = access
        self._timeout = timeout
        self._connect_timeout = connect_timeout
        self._dialer = Dialer(access, resolve)
        self._tls = TlsContexts(access, clock=clock)
        self._plugin = PluginCredentials(access.plugin, clock=clock, now=now) if access.plugin is not None else None
        self._clock = clock
        self._now = now
        self._sleep = sleep
        self._open: dict[Connection, _Place] = {}
        self._idle: dict[_Place, list[Connection]] = {}
        self._closed = False

    async def send(self, request: Request, *, timeout: float | None = None) -> Response:
        limit = timeout or self._timeout
        credential = await self._credential()
        response = await self._exchange(request, credential, limit)
        if response.status == 401 and (renewed := await self._renewed(credential)) is not None:
            response = await self._exchange(request, renewed, limit)
        if response.status == 401:
            self._explain_refusal(request)
        return response

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[_HttpStream]:
        credential = await self._credential()
        connection, answer = await self._ask(request, credential, self._timeout, Until.HEAD)
        try:
            renewed = await self._renewed(credential) if answer.status == 401 else None
        except BaseException:
            self._release(connection)
            raise
        if renewed is not None:
            self._release(connection)
            connection, answer = await self._ask(request, renewed, self._timeout, Until.HEAD)
        try:
            if answer.status == 401:
                self._explain_refusal(request)
            yield _HttpStream(self, request, connection, answer)
        finally:
            self._release(connection)

    async def close(self) -> None:
        self._closed = True
        ended = [connection.ended for connection in self._open]
        for connection in self._open:
            connection.abort()
        await asyncio.gather(*ended)
        if self._plugin is not None:
            await self._plugin.close()

    async def _exchange(self, request: Request, credential: Credential, limit: float) -> Response:
        connection, answer = await self._ask(request, credential, limit, Until.END)
        response = Response(answer.status, answer.headers, await answer.rest())
        self._release(connection)
        return response

    async def _ask(
        self, request: Request, credential: Credential, limit: float, until: Until
    ) -> tuple[Connection, Answer]:
        try:
            return await self._ask_somewhere(request, credential, limit, until)
        except _FAILURES as error:
            raise await self._failure(request, error) from error

    async def _ask_somewhere(
        self, request: Request, credential: Credential, limit: float, until: Until
    ) -> tuple[Connection, Answer]:
        place = (self.access.server, self._tls.context(credential))
        deadline = asyncio.get_running_loop().time() + limit
        head, body = self._head(request, credential), request.body or b""
        while True:
            connection = self._waiting(place) or await self._connected(place, deadline)
            try:
                return connection, await connection.ask(head, body, until, deadline=deadline)
            except OSError as error:
                connection.abort()
                # The server may have given up a connection that nobody used, just when it was used again.
                was_stale = connection.idle_since is not None and connection.is_unanswered
                if not was_stale or request.method != "GET" or isinstance(error, TimeoutError):
                    raise
            except BaseException:
                connection.abort()
                raise

    def _waiting(self, place: _Place) -> Connection | None:
        """A connection that can be used again, if there is one."""
        oldest = self._clock() - _LONGEST_IDLE
        idle = self._idle.get(place, [])
        while idle:
            connection = idle.pop()
            if connection.is_free and connection.idle_since is not None and connection.idle_since >= oldest:
                return connection
            connection.abort()
        return None

    async def _connected(self, place: _Place, deadline: float) -> Connection:
        if self._closed:
            raise RuntimeError("the transport is closed")
        async with asyncio.timeout_at(min(deadline, asyncio.get_running_loop().time() + self._connect_timeout)):
            connection = await self._dialer.dial(place[1])
        self._take_in(connection, place)
        return connection

    def _take_in(self, connection: Connection, place: _Place) -> None:
        self._open[connection] = place
        connection.ended.add_done_callback(lambda _: self._forget(connection))
        if self._closed:
            connection.abort()  # it came too late; who waits for it will hear of that

    def _release(self, connection: Connection) -> None:
        """Keep a connection for the next request; one in the middle of an answer has no next."""
        if not connection.is_free or self._closed:
            connection.abort()
            return
        connection.idle_since = self._clock()
        self._idle.setdefault(self._open[connection], []).append(connection)

    def _forget(self, connection: Connection) -> None:
        place = self._open.pop(connection)
        idle = self._idle.get(place, [])
        if connection in idle:
            idle.remove(connection)
        if not idle:
            self._idle.pop(place, None)

    async def _credential(self) -> Credential:
        if self.access.token is not None:
            return Credential(self.access.token.value())
        return _NOBODY if self._plugin is None else await self._plugin.current()

    async def _renewed(self, refused: Credential) -> Credential | None:
        """Another credential than the one that was refused, if there is one."""
        if self.access.token is not None:
            self.access.token.refused()
        elif self._plugin is not None:
            self._plugin.refused(refused)
        else:
            return None
        renewed = await self._credential()
        return renewed if renewed != refused else None

    def _head(self, request: Request, credential: Credential) -> bytes:
        """The request, up to its body.

        :raises ValueError: something in it cannot be written in HTTP.
        """
        host, prefix = _origin(self.access.server)
        query = f"?{urlencode(request.query)}" if request.query else ""
        origin = self.access.server if self._dialer.speaks_to_proxy else prefix
        lines = [f"{request.method} {origin}{quote(request.path, safe=_SAFE_IN_PATH)}{query} HTTP/1.1", f"host: {host}"]
        for name, value in (*request.headers.items(), *self.access.headers):
            lines.append(f"{name}: {value}")
        lines.append("accept-encoding: identity")
        if request.body is not None or request.method in _WITH_BODY:
            lines.append(f"content-length: {len(request.body or b'')}")
        if credential.token:
            lines.append(f"authorization: Bearer {credential.token}")
        if self._dialer.speaks_to_proxy and (who := self._dialer.proxy_authorization):
            lines.append(f"proxy-authorization: {who}")
        head = "\r\n".join((*lines, "", ""))
        if head.count("\n") != len(lines) + 1:
            raise ValueError("a header holds a line break")
        return head.encode()

    def _explain_refusal(self, request: Request) -> None:
        """Who shows an expired certificate is told so, for the server only says that it does not know them.

        :raises CredentialError: that is the case. A refused request did nothing.
        """
        why = client_expired(self.access.certificate, self._now) if self.access.token is None else ""
        if why:
            self._tls.suspect()
            raise CredentialError(f"{request.method} {self.access.server}{request.path}: refused, for {why}")

    async def _failure(self, request: Request, error: Exception) -> TransportError:
        if isinstance(error, ssl.SSLError):
            self._tls.suspect()
        if self._closed:
            why = "the transport is closed"
        elif isinstance(error, ssl.SSLCertVerificationError):
            why = await why_not_trusted(self.access, error, self._now())
        elif isinstance(error, TimeoutError):
            why = "no answer in time"
        elif isinstance(error, ssl.SSLError) and error.reason in _NOT_TLS:
            why = "what listens there does not speak TLS; is the port right, and should the address begin with http:?"
        else:
            why = str(error) or type(error).__name__
            if expired := client_expired(self.access.certificate, self._now):
                self._tls.suspect()
                why = f"{expired} ({why})"
        return TransportError(f"{request.method} {self.access.server}{request.path}: {why}")


class _HttpStream:
    def __init__(self, transport: HttpTransport, request: Request, connection: Connection, answer: Answer) -> None:
        self.status = answer.status
        self.headers: Mapping[str, str] = answer.headers
        self._transport = transport
        self._request = request
        self._connection = connection
        self._answer = answer

    async def chunks(self) -> AsyncIterator[bytes]:
        try:
            while chunk := await self._answer.more():
                yield chunk
                if len(chunk) < _PLENTY and not self._answer.is_whole:
                    await self._gather()
        except _FAILURES as error:
            raise await self._transport._failure(self._request, error) from error

    async def _gather(self) -> None:
        """Let what comes in dribbles wait in the kernel for a moment: waking up costs more than reading."""
        self._connection.gather(_PLENTY)
        try:
            await self._transport._sleep(_GATHERING)
        finally:
            self._connection.gather(1)

    async def read(self) -> bytes:
        try:
            async with asyncio.timeout(self._transport._timeout):
                return await self._answer.rest()
        except _FAILURES as error:
            raise await self._transport._failure(self._request, error) from error


@lru_cache(maxsize=8)
def _origin(server: str) -> tuple[str, str]:
    """How a server is called in its own requests, and what its paths begin with."""
    parts = urlsplit(server)
    return parts.netloc.rpartition("@")[2], parts.path.rstrip("/")
