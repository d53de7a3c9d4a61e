"""The handful of rtnetlink requests that make a bridge, a veth pair, an address and a route.

Written out by hand because the helper process has to start in a few milliseconds, and has to fork: a netlink
library with its own event loop costs more time to import than all of the networking below takes.
"""

from __future__ import annotations

import os
import socket
import struct
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from ipaddress import IPv4Address, IPv4Network

_NLMSG_ERROR = 2
_RTM_NEWLINK, _RTM_DELLINK, _RTM_SETLINK = 16, 17, 19
_RTM_NEWADDR, _RTM_DELADDR = 20, 21
_RTM_NEWROUTE = 24
_REQUEST, _ACK, _EXCLUSIVE, _CREATE = 0x1, 0x4, 0x200, 0x400

_IFLA_ADDRESS, _IFLA_IFNAME, _IFLA_MASTER, _IFLA_LINKINFO, _IFLA_NET_NS_FD = 1, 3, 10, 18, 28
_IFLA_INFO_KIND, _IFLA_INFO_DATA, _VETH_INFO_PEER = 1, 2, 1
_IFA_ADDRESS, _IFA_LOCAL = 1, 2
_RTA_GATEWAY = 5
_IFF_UP = 0x1
_MAIN_TABLE, _PROTOCOL_BOOT, _UNIVERSE, _UNICAST = 254, 3, 0, 1

_HEADER = struct.Struct("=IHHII")
_LINK = struct.Struct("=BxHiII")
_ADDRESS = struct.Struct("=BBBBI")
_ROUTE = struct.Struct("=BBBBBBBBI")


def hardware_address(address: IPv4Address) -> bytes:
    """The MAC address of a Pod or of the bridge: it follows from the IP address.

    A recreated head gets its predecessor's IP back; with the old MAC too, no neighbour has to find out first
    that what it remembers is stale. The bridge needs one given to it for the same reason: without, it takes the
    lowest MAC among its ports, another one whenever Pods come and go.
    """
    return b"\x0a\x58" + address.packed


def _attribute(kind: int, value: bytes) -> bytes:
    size = 4 + len(value)
    return struct.pack("=HH", size, kind) + value + b"\0" * (-size % 4)


def _text(kind: int, value: str) -> bytes:
    return _attribute(kind, value.encode() + b"\0")


def _number(kind: int, value: int) -> bytes:
    return _attribute(kind, struct.pack("=I", value))


def _link(*, up: bool = False) -> bytes:
    """The fixed part of a request about a link; the link itself is named by an attribute."""
    flags = _IFF_UP if up else 0
    return _LINK.pack(socket.AF_UNSPEC, 0, 0, flags, flags)


class Netlink:
    """A socket to the network namespace it was opened in; it keeps to that one when its process moves on."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, socket.NETLINK_ROUTE)
        self._socket.bind((0, 0))
        self._sequence = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def add_bridge(self, name: str, *, mac: bytes) -> None:
        """A bridge with a MAC of its own, which it keeps whatever its ports are."""
        info = _attribute(_IFLA_LINKINFO, _text(_IFLA_INFO_KIND, "bridge"))
        body = _link() + _text(_IFLA_IFNAME, name) + _attribute(_IFLA_ADDRESS, mac) + info
        self._ask(_RTM_NEWLINK, body, f"bridge {name}", _CREATE | _EXCLUSIVE)

    def add_veth(self, name: str, *, peer: str, peer_netns: int, peer_mac: bytes) -> None:
        """A pair of links: `name` here, `peer` in the namespace `peer_netns` (a descriptor) stands for."""
        there = (
            _link()
            + _text(_IFLA_IFNAME, peer)
            + _attribute(_IFLA_ADDRESS, peer_mac)
            + _number(_IFLA_NET_NS_FD, peer_netns)
        )
        data = _attribute(_IFLA_INFO_DATA, _attribute(_VETH_INFO_PEER, there))
        info = _attribute(_IFLA_LINKINFO, _text(_IFLA_INFO_KIND, "veth") + data)
        self._ask(_RTM_NEWLINK, _link() + _text(_IFLA_IFNAME, name) + info, f"veth {name}", _CREATE | _EXCLUSIVE)

    def set_up(self, name: str, *, master: int | None = None) -> None:
        """Bring a link up; with `master`, as a port of the bridge of that index."""
        attributes = _text(_IFLA_IFNAME, name) + (b"" if master is None else _number(_IFLA_MASTER, master))
        self._ask(_RTM_SETLINK, _link(up=True) + attributes, f"link {name} up")

    def remove_link(self, name: str) -> None:
        self._ask(_RTM_DELLINK, _link() + _text(_IFLA_IFNAME, name), f"removal of link {name}")

    def add_address(self, index: int, address: IPv4Address, prefix: int) -> None:
        self._address(_RTM_NEWADDR, index, address, prefix, _CREATE | _EXCLUSIVE)

    def remove_address(self, index: int, address: IPv4Address, prefix: int) -> None:
        self._address(_RTM_DELADDR, index, address, prefix)

    def add_default_route(self, gateway: IPv4Address) -> None:
        body = _ROUTE.pack(socket.AF_INET, 0, 0, 0, _MAIN_TABLE, _PROTOCOL_BOOT, _UNIVERSE, _UNICAST, 0)
        self._ask(_RTM_NEWROUTE, body + _attribute(_RTA_GATEWAY, gateway.packed), "default route", _CREATE)

    def _address(self, kind: int, index: int, address: IPv4Address, prefix: int, flags: int = 0) -> None:
        body = _ADDRESS.pack(socket.AF_INET, prefix, 0, _UNIVERSE, index)
        body += _attribute(_IFA_LOCAL, address.packed) + _attribute(_IFA_ADDRESS, address.packed)
        self._ask(kind, body, f"address {address}/{prefix}", flags)

    def _ask(self, kind: int, body: bytes, what: str, flags: int = 0) -> None:
        self._sequence += 1
        size = _HEADER.size + len(body)
        self._socket.send(_HEADER.pack(size, kind, _REQUEST | _ACK | flags, self._sequence, 0) + body)
        while True:
            answer = self._socket.recv(65536)
            _, answered, _, sequence, _ = _HEADER.unpack_from(answer)
            if sequence == self._sequence and answered == _NLMSG_ERROR:
                (code,) = struct.unpack_from("=i", answer, _HEADER.size)
                if code:
                    raise OSError(-code, f"netlink ({what}): {os.strerror(-code)}")
                return


def gateway_of(network: IPv4Network) -> IPv4Address:
    """The address of the bridge: the first of the Pod network."""
    return network[1]
