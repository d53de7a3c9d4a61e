"""Connections through a SOCKS5 proxy, such as the one that `ssh -D` opens into a private network.

The protocol is spoken by python-socks, which few need and is therefore an extra. As in kubectl, names are resolved by
the proxy whether its address says `socks5:` or `socks5h:`: only it knows the names of the network behind it.
"""

from __future__ import annotations

import importlib.util
import socket
import ssl
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from aiohttp.client_proto import ResponseHandler
    from aiohttp.client_reqrep import ClientRequest

SCHEMES = ("socks5", "socks5h")
_PORT = 1080


def is_socks(proxy: str | None) -> bool:
    """Whether this is the address of a SOCKS proxy."""
    return proxy is not None and urlsplit(proxy).scheme in SCHEMES


def is_installed() -> bool:
    """Whether what speaks the protocol is there."""
    return importlib.util.find_spec("python_socks") is not None


class SocksConnector(aiohttp.TCPConnector):
    """Makes aiohttp's connections through a proxy; TLS is spoken with the server, not with the proxy.

    :param prepare: called with each new socket.
    """

    def __init__(self, proxy: str, *, prepare: Callable[[socket.socket], object], **options: Any) -> None:
        super().__init__(resolver=_LeftToTheProxy(), **options)
        self._proxy = urlsplit(proxy)
        self._prepare = prepare

    async def _wrap_create_connection(
        self, *args: Any, req: ClientRequest, timeout: aiohttp.ClientTimeout, **options: Any
    ) -> tuple[asyncio.Transport, ResponseHandler]:
        from python_socks import ProxyError, ProxyType
        from python_socks.async_.asyncio import Proxy

        parts = self._proxy
        name, password = (unquote(each) if each else None for each in (parts.username, parts.password))
        proxy = Proxy(ProxyType.SOCKS5, parts.hostname or "", parts.port or _PORT, name, password, rdns=True)
        try:
            made = await proxy.connect(req.url.raw_host or "", req.url.port or 443, timeout=timeout.sock_connect)
        except ProxyError as error:
            raise OSError(f"the SOCKS proxy {parts.hostname}:{parts.port or _PORT} refused: {error}") from error
        self._prepare(made)
        given = {key: options[key] for key in ("ssl", "server_hostname")}
        try:
            transport, protocol = await self._loop.create_connection(*args, **given, sock=made)
        except ssl.SSLCertVerificationError as error:
            raise aiohttp.ClientConnectorCertificateError(req.connection_key, error) from error
        except ssl.SSLError as error:
            raise aiohttp.ClientConnectorSSLError(req.connection_key, error) from error
        return transport, protocol


class _LeftToTheProxy(AbstractResolver):
    """Resolves nothing."""

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        return [ResolveResult(hostname=host, host=host, port=port, family=family, proto=0, flags=0)]

    async def close(self) -> None:
        pass
