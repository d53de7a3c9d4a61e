"""The transport over HTTPS. Everything that is slow by default in aiohttp, and not needed here, is off.

Whatever goes wrong below HTTP comes out as `TransportError` with the method, the address and the reason. A credential
that the server refuses is renewed where that is possible, and the request sent once more: a refused one did nothing.
"""

from __future__ import annotations

import asyncio
import io
import socket
import time
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import quote, urlencode
from weakref import WeakSet

import aiohttp
from yarl import URL

from kuberay.kube.certificates import client_expired, why_not_trusted
from kuberay.kube.errors import CredentialError, TransportError
from kuberay.kube.exec_plugin import Credential, PluginCredentials
from kuberay.kube.socks import SocksConnector, is_socks
from kuberay.kube.tls import TlsContexts
from kuberay.kube.transport import Request, Response

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

    from aiohttp.abc import AbstractResolver
    from aiohttp.connector import AddrInfoType

    from kuberay.kube.access import Access

# Failures of aiohttp, of sockets and TLS, of time, and of a session that was closed meanwhile.
_FAILURES = (aiohttp.ClientError, OSError, TimeoutError, RuntimeError, ValueError)
_NOT_TLS = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "HTTP_REQUEST", "UNEXPECTED_MESSAGE")
_NOBODY = Credential()
_LARGE = 2**20
_PLENTY = 2**16
_GATHERING = 0.01
"""Seconds that news may come late by when there is much of it; what comes after a pause is read at once."""
_LAST_TURNS = 10
"""Of the loop, for connections to end in; two or three are enough."""
_SAFE_IN_PATH = "/:@!$&'()*+,;=~"


class HttpTransport:
    """Sends requests to one API server over connections that are kept open.

    :param timeout: seconds for a whole exchange, when the request does not say otherwise.
    :param connect_timeout: seconds to reach the server, also for streams.
    :param resolver: makes what looks up the server's name; called within the running loop.
    """

    def __init__(
        self,
        access: Access,
        *,
        timeout: float = 30.0,
        connect_timeout: float = 10.0,
        resolver: Callable[[], AbstractResolver] | None = None,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.access = access
        self._timeout = timeout
        self._connect_timeout = connect_timeout
        self._resolver = resolver
        self._tls = TlsContexts(access, clock=clock)
        self._plugin = PluginCredentials(access.plugin, clock=clock, now=now) if access.plugin is not None else None
        self._now = now
        self._sleep = sleep
        self._http_proxy = None if is_socks(access.proxy) else access.proxy
        self._session: aiohttp.ClientSession | None = None
        self._sockets: WeakSet[socket.socket] = WeakSet()
        self._closed = False

    async def send(self, request: Request, *, timeout: float | None = None) -> Response:
        limits = _limits(timeout or self._timeout, self._connect_timeout)
        credential = await self._credential()
        response = await self._exchange(request, credential, limits)
        if response.status == 401 and (renewed := await self._renewed(credential)) is not None:
            response = await self._exchange(request, renewed, limits)
        if response.status == 401:
            self._explain_refusal(request)
        return response

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[_HttpStream]:
        credential = await self._credential()
        answer = await self._begin(request, credential)
        if answer.status == 401 and (renewed := await self._renewed(credential)) is not None:
            answer.close()
            answer = await self._begin(request, renewed)
        try:
            if answer.status == 401:
                self._explain_refusal(request)
            yield _HttpStream(self, request, answer)
        finally:
            # Not `release`: that would read on, and a watch has no end. Nor a TLS goodbye, which the server answers
            # only when it has noticed: nobody waits for that, and a loop that ends meanwhile leaves the socket open.
            if answer.connection is not None and answer.connection.transport is not None:
                answer.connection.transport.abort()
            answer.close()

    async def close(self) -> None:
        self._closed = True
        if self._session is not None:
            await self._session.close()
            await self._hang_up()

    async def _hang_up(self) -> None:
        """End what was cut in the middle of an answer: over TLS it waits for a goodbye, and the loop may end before."""
        for each in self._sockets:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        for _ in range(_LAST_TURNS):
            if all(each.fileno() < 0 for each in self._sockets):
                break
            await asyncio.sleep(0)

    async def _exchange(self, request: Request, credential: Credential, limits: aiohttp.ClientTimeout) -> Response:
        arguments = self._arguments(request, credential)
        try:
            async with self._open().request(**arguments, timeout=limits) as answer:
                return Response(answer.status, answer.headers, await answer.read())
        except _FAILURES as error:
            raise await self._failure(request, error) from error

    async def _begin(self, request: Request, credential: Credential) -> aiohttp.ClientResponse:
        limits = aiohttp.ClientTimeout(total=None, sock_connect=self._connect_timeout)
        arguments = self._arguments(request, credential)
        try:
            async with asyncio.timeout(self._timeout):
                return await self._open().request(**arguments, timeout=limits)
        except _FAILURES as error:
            raise await self._failure(request, error) from error

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

    def _open(self) -> aiohttp.ClientSession:
        if self._closed:
            raise RuntimeError("the transport is closed")
        if self._session is None:
            # Made here because it belongs to the running loop. No limit: who sends decides how much at a time.
            proxy = self.access.proxy
            connector = (
                SocksConnector(proxy, prepare=self._prepare, limit=0)
                if proxy is not None and is_socks(proxy)
                else aiohttp.TCPConnector(
                    limit=0,
                    ttl_dns_cache=30,
                    resolver=self._resolver() if self._resolver is not None else None,
                    socket_factory=self._socket,
                )
            )
            self._session = aiohttp.ClientSession(
                connector=connector,
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
                skip_auto_headers=("accept", "accept-encoding", "content-type", "user-agent"),
                read_bufsize=2**18,
            )
        return self._session

    def _socket(self, address: AddrInfoType) -> socket.socket:
        family, kind, protocol, *_ = address
        made = socket.socket(family, kind, protocol)
        self._prepare(made)
        return made

    def _prepare(self, made: socket.socket) -> None:
        self._sockets.add(made)
        keep_alive(made)

    def _arguments(self, request: Request, credential: Credential) -> dict[str, Any]:
        headers = [*request.headers.items(), *self.access.headers, ("accept-encoding", "identity")]
        if credential.token:
            headers.append(("authorization", f"Bearer {credential.token}"))
        return {
            "method": request.method,
            "url": URL(self._address(request), encoded=True),
            "headers": headers,
            "data": _payload(request.body),
            "allow_redirects": False,
            "proxy": self._http_proxy,
            "server_hostname": self.access.server_name,
            # Given with each request: connections are kept apart by it, so that new certificates get new ones.
            "ssl": self._tls.context(credential) or False,
        }

    def _address(self, request: Request) -> str:
        query = f"?{urlencode(request.query)}" if request.query else ""
        return f"{self.access.server}{quote(request.path, safe=_SAFE_IN_PATH)}{query}"

    def _explain_refusal(self, request: Request) -> None:
        """Who shows an expired certificate is told so, for the server only says that it does not know them.

        :raises CredentialError: that is the case. A refused request did nothing.
        """
        why = client_expired(self.access.certificate, self._now) if self.access.token is None else ""
        if why:
            self._tls.suspect()
            raise CredentialError(f"{request.method} {self.access.server}{request.path}: refused, for {why}")

    async def _failure(self, request: Request, error: Exception) -> TransportError:
        if isinstance(error, aiohttp.ClientConnectorSSLError | aiohttp.ClientConnectorCertificateError):
            self._tls.suspect()
        if isinstance(error, aiohttp.ClientConnectorCertificateError):
            refused = cast("ssl.SSLCertVerificationError", error.certificate_error)
            why = await why_not_trusted(self.access, refused, self._now())
        elif isinstance(error, TimeoutError):
            why = "no answer in time"
        elif isinstance(error, aiohttp.ClientConnectorSSLError) and error.os_error.reason in _NOT_TLS:
            why = "what listens there does not speak TLS; is the port right, and should the address begin with http:?"
        else:
            why = str(error) or type(error).__name__
            if expired := client_expired(self.access.certificate, self._now):
                self._tls.suspect()
                why = f"{expired} ({why})"
        return TransportError(f"{request.method} {self.access.server}{request.path}: {why}")


class _HttpStream:
    def __init__(self, transport: HttpTransport, request: Request, answer: aiohttp.ClientResponse) -> None:
        self.status = answer.status
        self.headers: Mapping[str, str] = answer.headers
        self._transport = transport
        self._request = request
        self._answer = answer

    async def chunks(self) -> AsyncIterator[bytes]:
        try:
            while chunk := await self._answer.content.readany():
                yield chunk
                if len(chunk) < _PLENTY:
                    await self._gather()
        except _FAILURES as error:
            raise await self._transport._failure(self._request, error) from error

    async def _gather(self) -> None:
        """Let what comes in dribbles wait in the socket for a moment: waking up costs more than reading."""
        connection = self._answer.connection
        protocol = connection.protocol if connection is not None else None
        if protocol is None:
            return  # all of it has come
        protocol.pause_reading()
        try:
            await self._transport._sleep(_GATHERING)
        finally:
            protocol.resume_reading()

    async def read(self) -> bytes:
        try:
            async with asyncio.timeout(self._transport._timeout):
                return await self._answer.read()
        except _FAILURES as error:
            raise await self._transport._failure(self._request, error) from error


def keep_alive(made: socket.socket) -> None:
    """Let a socket find out within two minutes that nobody is at the other end any more."""
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 30), ("TCP_KEEPCNT", 3)):
        option = getattr(socket, name, None)  # not all systems have all of them
        if option is not None and made.family != socket.AF_UNIX:
            made.setsockopt(socket.IPPROTO_TCP, option, value)


def _payload(body: bytes | None) -> bytes | io.BytesIO | None:
    """What is large is sent in pieces, so that others get their turn between them."""
    return io.BytesIO(body) if body is not None and len(body) > _LARGE else body


@cache
def _limits(total: float, connect: float) -> aiohttp.ClientTimeout:
    return aiohttp.ClientTimeout(total=total, sock_connect=connect)
