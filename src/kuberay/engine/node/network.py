"""Which Pod has which address; pure.

A Pod that is made again under its old name gets its old address back: a head Pod's name is what GCS clients know,
and they find the new head at once instead of after twenty seconds of name resolution.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from ipaddress import IPv4Address, IPv4Network


class NetworkFull(Exception):
    """Every address of the Pods' network is in use."""


class Addresses:
    """The addresses of a network: the first is the gateway's, the last is for broadcasts, the rest are for Pods."""

    def __init__(self, network: IPv4Network) -> None:
        self._network = network
        self._first = 2
        self._next = self._first
        self._in_use: dict[IPv4Address, str] = {}
        self._remembered: dict[str, IPv4Address] = {}

    def take(self, owner: str, *, preferred: IPv4Address | None = None) -> IPv4Address:
        """An address for a Pod: the one it has, the preferred one, its predecessor's, or the next that is free.

        :raises NetworkFull: there is none.
        """
        for candidate in (self._remembered.get(owner), preferred):
            if candidate and self._is_available(candidate, owner):
                return self._give(owner, candidate)
        size = self._network.num_addresses
        for fresh in (True, False):  # addresses that nobody remembers first
            remembered = set(self._remembered.values())
            for step in range(size):
                position = (self._next - self._first + step) % (size - self._first - 1) + self._first
                candidate = self._network[position]
                if candidate not in self._in_use and (not fresh or candidate not in remembered):
                    self._next = position + 1
                    return self._give(owner, candidate)
        raise NetworkFull(f"all addresses of {self._network} are in use")

    def release(self, owner: str) -> None:
        """The Pod is gone; its address is remembered for a successor of the same name."""
        address = self._remembered.get(owner)
        if address and self._in_use.get(address) == owner:
            del self._in_use[address]

    @property
    def in_use(self) -> Mapping[IPv4Address, str]:
        return self._in_use

    def _is_available(self, address: IPv4Address, owner: str) -> bool:
        return address in self._network and self._in_use.get(address, owner) == owner

    def _give(self, owner: str, address: IPv4Address) -> IPv4Address:
        self._in_use[address] = owner
        self._remembered[owner] = address
        return address
