"""Addresses of Pods."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network

import pytest

from kuberay.engine.node.network import Addresses, NetworkFull

NETWORK = IPv4Network("10.244.0.0/29")  # gateway .1, broadcast .7: five for Pods


class TestTaking:
    def test_every_pod_has_its_own(self) -> None:
        addresses = Addresses(NETWORK)
        taken = [str(addresses.take(f"default/{name}")) for name in "abcde"]
        assert taken == [f"10.244.0.{number}" for number in range(2, 7)]

    def test_asking_again_changes_nothing(self) -> None:
        addresses = Addresses(NETWORK)
        assert addresses.take("default/a") == addresses.take("default/a")

    def test_a_successor_of_the_same_name_gets_the_same_address(self) -> None:
        addresses = Addresses(NETWORK)
        first = addresses.take("default/head")
        addresses.release("default/head")
        addresses.take("default/other")
        assert addresses.take("default/head") == first

    def test_an_address_from_an_earlier_life_is_kept(self) -> None:
        wanted = IPv4Address("10.244.0.5")
        assert Addresses(NETWORK).take("default/head", preferred=wanted) == wanted

    def test_a_preferred_address_that_is_taken_or_foreign_is_not_insisted_on(self) -> None:
        addresses = Addresses(NETWORK)
        taken = addresses.take("default/a")
        assert addresses.take("default/b", preferred=taken) != taken
        assert addresses.take("default/c", preferred=IPv4Address("192.0.2.1")) in NETWORK

    def test_when_nothing_fresh_is_left_a_forgotten_address_is_used_again(self) -> None:
        addresses = Addresses(NETWORK)
        for name in "abcde":
            addresses.take(name)
        addresses.release("c")
        assert addresses.take("f") == IPv4Address("10.244.0.4")

    def test_a_full_network_says_so(self) -> None:
        addresses = Addresses(NETWORK)
        for name in "abcde":
            addresses.take(name)
        with pytest.raises(NetworkFull, match=r"10\.244\.0\.0/29"):
            addresses.take("f")
