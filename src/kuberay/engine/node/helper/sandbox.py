"""A Pod's own network, IPC, UTS and mount namespaces, held by descriptors alone.

No process keeps them alive: containers enter them, and closing the descriptors after the last container has ended
takes the network and the Pod's memory volumes away.
"""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network
from typing import Any

from kuberay.engine.node import netlink, syscalls
from kuberay.engine.node.helper import forks

BRIDGE = "kuberay0"
# In the order they are entered; the mount namespace last, because entering it changes what paths mean.
KINDS = {
    "net": syscalls.CLONE_NEWNET,
    "ipc": syscalls.CLONE_NEWIPC,
    "uts": syscalls.CLONE_NEWUTS,
    "mnt": syscalls.CLONE_NEWNS,
}


@dataclass(frozen=True, slots=True)
class Namespaces:
    """Descriptors of namespaces by kind."""

    descriptors: dict[str, int]

    @classmethod
    def of_process(cls, pid: int, kinds: tuple[str, ...] = tuple(KINDS)) -> Namespaces:
        return cls({kind: os.open(f"/proc/{pid}/ns/{kind}", os.O_RDONLY | os.O_CLOEXEC) for kind in kinds})

    def enter(self) -> None:
        for kind, descriptor in self.descriptors.items():
            syscalls.setns(descriptor, KINDS.get(kind, 0))

    def close(self) -> None:
        for descriptor in self.descriptors.values():
            os.close(descriptor)


@dataclass(frozen=True, slots=True)
class Sandbox:
    """A Pod's namespaces and its end of the bridge."""

    link: str
    namespaces: Namespaces

    def remove(self) -> None:
        """Take the Pod off the network at once, so that its address is free for a successor."""
        try:
            with netlink.Netlink() as network:
                network.remove_link(self.link)
        finally:
            self.namespaces.close()


def open_network(pods: IPv4Network) -> None:
    """The bridge every Pod hangs on, in this process's own network namespace."""
    with netlink.Netlink() as network:
        network.set_up("lo")
        gateway = netlink.gateway_of(pods)
        network.add_bridge(BRIDGE, mac=netlink.hardware_address(gateway))
        network.add_address(socket.if_nametoindex(BRIDGE), gateway, pods.prefixlen)
        network.set_up(BRIDGE)
    # There is no way out; a router says so at once, where a mere host would leave Pods waiting for a time-out.
    with open("/proc/sys/net/ipv4/ip_forward", "w") as setting:
        setting.write("1")


def create(link: str, request: dict[str, Any], pods: IPv4Network) -> Sandbox:
    """Make a Pod's namespaces: on the bridge, with its address, its host name and its memory volumes."""
    address = IPv4Address(request["address"])
    bridge = socket.if_nametoindex(BRIDGE)

    def arrange() -> None:
        with netlink.Netlink() as outside:
            syscalls.unshare(sum(KINDS.values()))
            here = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
            outside.add_veth(link, peer="eth0", peer_netns=here, peer_mac=netlink.hardware_address(address))
            outside.set_up(link, master=bridge)
        with netlink.Netlink() as inside:
            inside.set_up("lo")
            inside.add_address(socket.if_nametoindex("eth0"), address, pods.prefixlen)
            inside.set_up("eth0")
            inside.add_default_route(netlink.gateway_of(pods))
        syscalls.sethostname(request["hostname"])
        syscalls.mount("none", "/", flags=syscalls.MS_REC | syscalls.MS_PRIVATE)
        for volume in request["memory"]:
            size = f",size={volume['size']}" if volume.get("size") else ""
            flags = syscalls.MS_NOSUID | syscalls.MS_NODEV
            syscalls.mount("tmpfs", volume["path"], "tmpfs", flags, f"mode=1777{size}")

    return Sandbox(link, forks.in_child(arrange, Namespaces.of_process))
