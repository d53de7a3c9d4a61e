"""How the helper comes to life: two hops, each of which dies with the one before it.

    engine -> keeper -> helper

The keeper makes the namespaces and waits; the helper is the first process in the new PID namespace, so the kernel
ends everything in there together with it. Killing any of the three leaves nothing of the later ones.
"""

from __future__ import annotations

import contextlib
import os
import socket
import sys
from ipaddress import IPv4Network

from kuberay.engine.node import syscalls
from kuberay.engine.node.channel import Channel, Disconnected
from kuberay.engine.node.helper import advice, sandbox
from kuberay.engine.node.helper.server import Server

_CAP_NET_ADMIN, _CAP_SYS_ADMIN = 12, 21
_NEEDED = 1 << _CAP_NET_ADMIN | 1 << _CAP_SYS_ADMIN


def main(arguments: list[str]) -> None:
    """Run with: descriptor of the socket, pid of the engine, network of the Pods."""
    descriptor, engine, pods = int(arguments[0]), int(arguments[1]), IPv4Network(arguments[2])
    channel = Channel(socket.socket(fileno=descriptor))
    os.set_inheritable(descriptor, False)
    steps = _Steps()
    try:
        _become_keeper(engine, steps)
        helper = os.fork()
        if helper:
            channel.socket.close()
            _, status = os.waitpid(helper, 0)
            sys.exit(os.waitstatus_to_exitcode(status) != 0)
        _become_helper(pods, steps)
    except OSError as problem:
        message = advice.explain(steps.current, problem, advice.read_settings(), as_root=not steps.in_user_namespace)
        channel.send({"unavailable": message})
        os._exit(1)
    with contextlib.suppress(Disconnected):
        channel.send({"ready": os.getpid()})
        Server(channel, pods).serve()
    os._exit(0)


class _Steps:
    """Which step of the way is being taken, for the message when it fails."""

    current = "starting"
    in_user_namespace = False


def _become_keeper(engine: int, steps: _Steps) -> None:
    if os.getppid() != engine:
        os._exit(1)
    if not _has_rights():
        steps.current = "making a user namespace"
        steps.in_user_namespace = True
        _enter_user_namespace()
    steps.current = "making network, mount, PID, IPC and UTS namespaces"
    syscalls.unshare(sum(sandbox.KINDS.values()) | syscalls.CLONE_NEWPID)
    # Only now: entering a user namespace may forget the wish. An engine that died meanwhile is noticed by its pid.
    syscalls.die_with_parent()
    if os.getppid() != engine:
        os._exit(1)


def _become_helper(pods: IPv4Network, steps: _Steps) -> None:
    syscalls.die_with_parent()
    os.setsid()
    steps.current = "making mounts private"
    syscalls.mount("none", "/", flags=syscalls.MS_REC | syscalls.MS_PRIVATE)
    steps.current = "mounting /proc"
    syscalls.mount("proc", "/proc", "proc", syscalls.MS_NOSUID | syscalls.MS_NODEV | syscalls.MS_NOEXEC)
    steps.current = "making the Pod network"
    sandbox.open_network(pods)


def _has_rights() -> bool:
    """Whether this process may make namespaces as it is; root in a container often may not."""
    with open("/proc/self/status") as status:
        for line in status:
            if line.startswith("CapEff:"):
                return int(line.split()[1], 16) & _NEEDED == _NEEDED
    return False


def _enter_user_namespace() -> None:
    user, group = os.geteuid(), os.getegid()
    syscalls.unshare(syscalls.CLONE_NEWUSER)
    for name, content in (("setgroups", "deny"), ("uid_map", f"0 {user} 1"), ("gid_map", f"0 {group} 1")):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(content)
