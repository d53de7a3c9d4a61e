"""The helper's loop: one request after the other, and a report for every process that ends."""

from __future__ import annotations

import os
import select
import signal
import socket
from ipaddress import IPv4Address, IPv4Network
from typing import TYPE_CHECKING, Any

from kuberay.engine.node import netlink
from kuberay.engine.node.channel import Channel, Disconnected
from kuberay.engine.node.helper import forks, sandbox

if TYPE_CHECKING:
    from collections.abc import Callable

Answer = tuple[dict[str, Any], list[int]]
_BACKLOG = 128


class Server:
    """Serves one engine until it goes away."""

    def __init__(self, channel: Channel, pods: IPv4Network) -> None:
        self._channel = channel
        self._pods = pods
        self._sandboxes: dict[str, sandbox.Sandbox] = {}
        self._processes: dict[str, int] = {}
        self._names: dict[int, str] = {}
        self._sandbox_of: dict[str, str] = {}
        self._links = 0
        self._requests: dict[str, Callable[[dict[str, Any], list[int]], Answer]] = {
            "create-sandbox": self._create_sandbox,
            "remove-sandbox": self._remove_sandbox,
            "start": self._start,
            "join": self._join,
            "signal": self._signal,
            "socket": self._socket,
            "add-address": self._add_address,
            "remove-address": self._remove_address,
        }

    def serve(self) -> None:
        """Answer requests and report exits; returns when the engine has closed its end."""
        wake, woken = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        signal.set_wakeup_fd(woken, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        poll = select.poll()
        poll.register(self._channel.socket, select.POLLIN)
        poll.register(wake, select.POLLIN)
        try:
            while True:
                ready = {descriptor for descriptor, _ in poll.poll()}
                if wake in ready:
                    os.read(wake, 4096)
                    self._report_exits()
                if self._channel.socket.fileno() in ready:
                    for message, descriptors in self._channel.receive():
                        self._answer(message, descriptors)
        except Disconnected:
            return

    def _answer(self, message: dict[str, Any], descriptors: list[int]) -> None:
        given: list[int] = []
        try:
            result, given = self._requests[message["do"]](message, descriptors)
            answer = {"id": message["id"], "ok": result}
        except forks.ChildFailed as problem:
            answer = {"id": message["id"], "error": str(problem)}
        except OSError as problem:
            answer = {"id": message["id"], "error": problem.strerror or str(problem)}
        except KeyError as problem:
            answer = {"id": message["id"], "error": f"no such thing: {problem}"}
        self._channel.send(answer, given)
        for descriptor in descriptors + given:
            os.close(descriptor)

    def _report_exits(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            name = self._names.pop(pid, None)
            if name is None:  # an orphan of a container; somebody has to wait for it
                continue
            del self._processes[name]
            del self._sandbox_of[name]
            code = os.waitstatus_to_exitcode(status)
            self._channel.send({"exit": name, "code": max(code, 0), "signal": max(-code, 0)})

    def _create_sandbox(self, request: dict[str, Any], _: list[int]) -> Answer:
        name = request["sandbox"]
        self._links += 1
        self._sandboxes[name] = sandbox.create(f"pod{self._links}", request, self._pods)
        return {}, []

    def _remove_sandbox(self, request: dict[str, Any], _: list[int]) -> Answer:
        name = request["sandbox"]
        for process, owner in self._sandbox_of.items():
            if owner == name:
                os.kill(self._processes[process], signal.SIGKILL)
        found = self._sandboxes.pop(name, None)
        if found:
            found.remove()
        return {}, []

    def _start(self, request: dict[str, Any], stdio: list[int]) -> Answer:
        pid = forks.start(self._sandboxes[request["sandbox"]].namespaces, request, stdio)
        return self._remember(request, request["sandbox"], pid)

    def _join(self, request: dict[str, Any], stdio: list[int]) -> Answer:
        target = request["target"]
        namespaces = sandbox.Namespaces.of_process(self._processes[target], ("pid", *sandbox.KINDS))
        try:
            pid = forks.join(namespaces, request, stdio)
        finally:
            namespaces.close()
        return self._remember(request, self._sandbox_of[target], pid)

    def _remember(self, request: dict[str, Any], owner: str, pid: int) -> Answer:
        name = request["process"]
        self._processes[name] = pid
        self._names[pid] = name
        self._sandbox_of[name] = owner
        return {}, []

    def _signal(self, request: dict[str, Any], _: list[int]) -> Answer:
        pid = self._processes.get(request["process"])
        if pid:
            os.kill(pid, request["signal"])
        return {}, []

    def _socket(self, request: dict[str, Any], _: list[int]) -> Answer:
        kind = socket.SOCK_DGRAM if request["datagram"] else socket.SOCK_STREAM
        with socket.socket(socket.AF_INET, kind) as made:
            if request["bind"]:
                made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                made.bind((request["bind"], request["port"]))
                if not request["datagram"]:
                    made.listen(_BACKLOG)
            return {}, [made.detach()]

    def _add_address(self, request: dict[str, Any], _: list[int]) -> Answer:
        with netlink.Netlink() as network:
            network.add_address(socket.if_nametoindex(sandbox.BRIDGE), IPv4Address(request["address"]), 32)
        return {}, []

    def _remove_address(self, request: dict[str, Any], _: list[int]) -> Answer:
        with netlink.Netlink() as network:
            network.remove_address(socket.if_nametoindex(sandbox.BRIDGE), IPv4Address(request["address"]), 32)
        return {}, []
