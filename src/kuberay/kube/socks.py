"""Connections through a SOCKS5 proxy, such as the one that `ssh -D` opens into a private network.

The protocol is spoken by python-socks, which few need and is therefore an extra. As in kubectl, names are resolved by
the proxy whether its address says `socks5:` or `socks5h:`: only it knows the names of the network behind it.
"""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING
from urllib.parse import unquote

if TYPE_CHECKING:
    import socket
    from urllib.parse import SplitResult

SCHEMES = ("socks5", "socks5h")
_PORT = 1080


def is_installed() -> bool:
    """Whether what speaks the protocol is there."""
    return importlib.util.find_spec("python_socks") is not None


async def connected(proxy: SplitResult, host: str, port: int) -> socket.socket:
    """A socket that a proxy has connected to a host.

    :raises OSError: it has not.
    """
    from python_socks import ProxyError, ProxyType
    from python_socks.async_.asyncio import Proxy

    name, password = (unquote(each) if each else None for each in (proxy.username, proxy.password))
    through = Proxy(ProxyType.SOCKS5, proxy.hostname or "", proxy.port or _PORT, name, password, rdns=True)
    try:
        return await through.connect(host, port)
    except ProxyError as error:
        raise OSError(f"the SOCKS proxy {proxy.hostname}:{proxy.port or _PORT} refused: {error}") from error
