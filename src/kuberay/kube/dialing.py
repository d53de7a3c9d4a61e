"""How a connection to an API server is made: straight, or through a proxy.

A server of several addresses is tried at all of them, a little after one another: one that does not answer costs a
moment and not the connection.
"""

from __future__ import annotations

import asyncio
import base64
import socket
import ssl
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from aiohappyeyeballs import start_connection

from kuberay.kube import socks
from kuberay.kube.connection import Connection, Until

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from typing import Any, TypeAlias
    from urllib.parse import SplitResult

    from kuberay.kube.access import Access

    AddressInfo: TypeAlias = tuple[socket.AddressFamily, socket.SocketKind, int, str, tuple[Any, ...]]
    Resolve: TypeAlias = Callable[[str, int], Awaitable[Sequence[AddressInfo]]]

_NEXT_ADDRESS = 0.25
_PATIENCE = 10.0
"""Seconds that a proxy may take to reach a server."""
_PORTS = {"http": 80, "https": 443}


async def resolve(host: str, port: int) -> Sequence[AddressInfo]:
    """The addresses of a host, as the system knows them."""
    return await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)


class Dialer:
    """Makes connections to the server of an access.

    :param resolve: looks up the addresses of a host.
    """

    def __init__(self, access: Access, resolve: Resolve) -> None:
        self._access = access
        self._resolve = resolve
        self._proxy = urlsplit(access.proxy) if access.proxy is not None else None

    async def dial(self, tls: ssl.SSLContext | None) -> Connection:
        """A new connection.

        :raises OSError: there is none to be had.
        """
        server = urlsplit(self._access.server)
        name = self._access.server_name or server.hostname or ""
        if self._proxy is None:
            return await _spoken(await self._connected(server), tls, name)
        if self._proxy.scheme in socks.SCHEMES:
            made = await socks.connected(self._proxy, server.hostname or "", _port(server))
            keep_alive(made)
            return await _spoken(made, tls, name)
        connection = await self._to_proxy(self._proxy)
        return connection if tls is None else await self._through(connection, server, tls, name)

    @property
    def speaks_to_proxy(self) -> bool:
        """Whether requests are for a proxy to read: it has to be told the whole address, and who asks."""
        plain = urlsplit(self._access.server).scheme == "http"
        return plain and self._proxy is not None and self._proxy.scheme not in socks.SCHEMES

    @property
    def proxy_authorization(self) -> str:
        """What a proxy wants to know of who asks; empty when there is nothing to tell."""
        if self._proxy is None or self._proxy.username is None:
            return ""
        who = f"{unquote(self._proxy.username)}:{unquote(self._proxy.password or '')}"
        return f"Basic {base64.b64encode(who.encode()).decode()}"

    async def _connected(self, to: SplitResult) -> socket.socket:
        found = await self._resolve(to.hostname or "", _port(to))
        made = await start_connection(list(found), happy_eyeballs_delay=_NEXT_ADDRESS)
        keep_alive(made)
        return made

    async def _to_proxy(self, proxy: SplitResult) -> Connection:
        try:
            made = await self._connected(proxy)
            tls = ssl.create_default_context() if proxy.scheme == "https" else None
            return await _spoken(made, tls, proxy.hostname or "")
        except OSError as error:
            raise OSError(f"the proxy {proxy.hostname}:{_port(proxy)} cannot be reached: {error}") from error

    async def _through(self, proxy: Connection, server: SplitResult, tls: ssl.SSLContext, name: str) -> Connection:
        """A connection to the server inside of one to the proxy."""
        made = Connection(proxy.socket)
        try:
            tunnel = await self._tunnel(proxy, server)
            secured = await asyncio.get_running_loop().start_tls(tunnel, made, tls, server_hostname=name)
        except BaseException:
            proxy.abort()
            raise
        if secured is None:
            raise OSError("the proxy closed the connection")
        made.connection_made(secured)
        return made

    async def _tunnel(self, connection: Connection, server: SplitResult) -> asyncio.Transport:
        """Have the proxy pass on everything from here on."""
        host = server.hostname or ""
        target = f"[{host}]:{_port(server)}" if ":" in host else f"{host}:{_port(server)}"
        credential = self.proxy_authorization
        lines = [f"CONNECT {target} HTTP/1.1", f"host: {target}"]
        if credential:
            lines.append(f"proxy-authorization: {credential}")
        head = "\r\n".join((*lines, "", "")).encode()
        deadline = asyncio.get_running_loop().time() + _PATIENCE
        answer = await connection.ask(head, b"", Until.HEAD, deadline=deadline)
        if answer.status != 200:
            raise OSError(f"the proxy does not connect to {target}: it answered with HTTP {answer.status}")
        connection.pause()
        return connection.transport


async def _spoken(made: socket.socket, tls: ssl.SSLContext | None, name: str) -> Connection:
    """HTTP over a socket, with TLS or without it."""
    _, connection = await asyncio.get_running_loop().create_connection(
        lambda: Connection(made), sock=made, ssl=tls, server_hostname=name if tls is not None else None
    )
    return connection


def keep_alive(made: socket.socket) -> None:
    """Let a socket find out within two minutes that nobody is at the other end any more."""
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 30), ("TCP_KEEPCNT", 3)):
        option = getattr(socket, name, None)  # not all systems have all of them
        if option is not None and made.family != socket.AF_UNIX:
            made.setsockopt(socket.IPPROTO_TCP, option, value)


def _port(of: SplitResult) -> int:
    return of.port or _PORTS.get(of.scheme, 0)
