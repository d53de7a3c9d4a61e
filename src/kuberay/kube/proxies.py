"""Which proxy the environment asks for, by the rules of kubectl: `HTTPS_PROXY`, `HTTP_PROXY` and `NO_PROXY`.

The rules are Go's, not those of Python's libraries: ranges of addresses are understood, and what runs on this machine
is never reached through a proxy.
"""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from kuberay.kube import socks
from kuberay.kube.access import is_address
from kuberay.kube.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping


def proxy_for(server: str, environ: Mapping[str, str]) -> str | None:
    """The proxy through which a server is to be reached; `None` for none.

    :raises ConfigError: the environment names a proxy that cannot be used.
    """
    if not is_address(server):
        return None  # whoever connects says so
    parts = urlsplit(server)
    name = "HTTPS_PROXY" if parts.scheme == "https" else "HTTP_PROXY"
    proxy = (environ.get(name) or environ.get(name.lower()) or "").strip()
    if not proxy:
        return None
    excluded = environ.get("NO_PROXY") or environ.get("no_proxy") or ""
    port = parts.port or (443 if parts.scheme == "https" else 80)
    if _goes_direct((parts.hostname or "").lower().rstrip("."), port, excluded):
        return None
    return checked(proxy if "://" in proxy else f"http://{proxy}", f"the environment variable {name}")


def checked(proxy: str, origin: str) -> str:
    """The proxy, when it is one that can be used.

    :raises ConfigError: it is not.
    """
    # Not the address itself: it may hold a password.
    try:
        parts = urlsplit(proxy)
        _ = parts.port
    except ValueError:
        raise ConfigError(f"{origin} names a proxy whose address cannot be read; http://host:port is wanted") from None
    if parts.scheme not in ("http", "https", *socks.SCHEMES):
        raise ConfigError(
            f"{origin} names a proxy of a kind ({parts.scheme}) that is not supported; use http, https or socks5"
        )
    if parts.scheme in socks.SCHEMES and not socks.is_installed():
        raise ConfigError(f"{origin} names a SOCKS proxy, for which python-socks is needed: pip install kuberay[socks]")
    if not parts.hostname:
        raise ConfigError(f"{origin} names a proxy without a host; http://host:port is wanted")
    return proxy


def _goes_direct(host: str, port: int, excluded: str) -> bool:
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        address = None
    if host == "localhost" or (address is not None and address.is_loopback):
        return True
    return any(_matches(each, host, address, port) for each in excluded.lower().replace(" ", "").split(",") if each)


def _matches(entry: str, host: str, address: ipaddress.IPv4Address | ipaddress.IPv6Address | None, port: int) -> bool:
    if entry == "*":
        return True
    try:
        network = ipaddress.ip_network(entry, strict=False)
    except ValueError:
        pass  # a name, or something with a port
    else:
        return address is not None and address in network
    name, colon, digits = entry.rpartition(":")
    if colon and digits.isdecimal():
        if int(digits) != port:
            return False
        entry = name.strip("[]")
    if address is not None:
        return entry == host
    entry = entry.removeprefix("*")
    return host.endswith(entry) if entry.startswith(".") else host == entry or host.endswith(f".{entry}")
