"""The engine's side of the helper process: requests as coroutines, processes as handles, sockets ready to use.

Everything the node does to the kernel goes through here; nothing here decides anything.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
import socket
import subprocess
import sys
from dataclasses import asdict, dataclass, field
from ipaddress import IPv4Network
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kuberay.engine.errors import NodeUnavailable
from kuberay.engine.node import netlink
from kuberay.engine.node.channel import Channel, Disconnected
from kuberay.engine.node.errors import HelperGone, HelperRefused, StartFailed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kuberay.engine.node.helper.mounts import Mount

POD_NETWORK = IPv4Network("10.244.0.0/16")
_START_SECONDS = 20.0
_BOOT = (
    "import sys; sys.path.insert(0, sys.argv[1]); from kuberay.engine.node.helper.main import main; main(sys.argv[2:])"
)
# The folder that holds the package: the helper runs without site-packages, which it does not need.
_PACKAGES = str(Path(__file__).parents[3])


@dataclass(frozen=True, slots=True)
class Exit:
    """How a process ended: with a code, or by a signal."""

    code: int = 0
    signal: int = 0

    @property
    def status(self) -> int:
        """The exit code as a container runtime reports it."""
        return 128 + self.signal if self.signal else self.code


@dataclass(frozen=True, slots=True)
class MemoryVolume:
    """A tmpfs of the Pod, mounted on a folder of the Pod's; `size` in bytes, `None` for half of the memory."""

    path: str
    size: int | None = None


@dataclass(frozen=True, slots=True)
class Command:
    """What to execute. `env` is the whole environment: nothing is inherited."""

    argv: Sequence[str]
    env: Mapping[str, str]
    cwd: str = "/"


@dataclass(slots=True)
class Process:
    """A process in a Pod. It may have ended already."""

    name: str
    _helper: Helper
    _exit: asyncio.Future[Exit] = field(repr=False)

    async def wait(self) -> Exit:
        """Wait for the end.

        :raises HelperGone: the helper ended, so the process did too, but nobody knows how.
        """
        return await asyncio.shield(self._exit)

    @property
    def exit(self) -> Exit | None:
        return self._exit.result() if self._exit.done() and not self._exit.exception() else None

    async def send_signal(self, number: int) -> None:
        """Send a signal; without effect on a process that has ended."""
        await self._helper.ask("signal", process=self.name, signal=number)

    async def kill(self) -> None:
        await self.send_signal(signal.SIGKILL)


class Helper:
    """A running helper process. Make one with `Helper.start`; `close` ends every Pod at once."""

    def __init__(self, channel: Channel, process: subprocess.Popen[bytes], pods: IPv4Network) -> None:
        self.pods = pods
        self.gateway = netlink.gateway_of(pods)
        self._channel = channel
        self._process = process
        self._numbers = itertools.count(1)
        self._answers: dict[int, asyncio.Future[tuple[dict[str, Any], list[int]]]] = {}
        self._exits: dict[str, asyncio.Future[Exit]] = {}
        self._loop = asyncio.get_running_loop()
        self._ready: asyncio.Future[None] = self._loop.create_future()
        self._gone = asyncio.Event()
        self._loop.add_reader(channel.socket, self._read)

    @classmethod
    async def start(cls, *, pods: IPv4Network = POD_NETWORK) -> Helper:
        """Start the helper and wait until Pods can be made.

        Call it in a thread that lives as long as the engine: the helper dies with the thread that started it.

        :raises NodeUnavailable: this machine does not allow what Pods need; the message says what to do.
        """
        helper = cls(*_launch(pods), pods)
        try:
            async with asyncio.timeout(_START_SECONDS):
                await helper._ready
        except (TimeoutError, HelperGone) as problem:
            await helper.close()
            raise NodeUnavailable(
                f"the helper process that owns the Pods' namespaces did not start ({str(problem) or 'no answer'})"
            ) from problem
        except BaseException:
            await helper.close()
            raise
        return helper

    @property
    def pid(self) -> int:
        """The process whose end, by whatever signal, ends every Pod."""
        return self._process.pid

    async def wait_gone(self) -> None:
        """Return when the helper has ended, expected or not."""
        await self._gone.wait()

    async def close(self) -> None:
        """End the helper and, with it, whatever still runs; safe to repeat."""
        self._lose("the node was stopped")
        self._process.kill()
        await asyncio.to_thread(self._process.wait)

    async def create_sandbox(
        self, name: str, *, address: str, hostname: str, memory: Sequence[MemoryVolume] = ()
    ) -> None:
        """Make a Pod's namespaces, on the bridge with its address."""
        volumes = [asdict(volume) for volume in memory]
        await self.ask("create-sandbox", sandbox=name, address=address, hostname=hostname, memory=volumes)

    async def remove_sandbox(self, name: str) -> None:
        """Take a Pod off the network and kill what is left of it; safe to repeat."""
        await self.ask("remove-sandbox", sandbox=name)

    async def start_container(
        self,
        sandbox: str,
        command: Command,
        *,
        stage: str,
        mounts: Sequence[Mount] = (),
        stdio: tuple[int, int, int],
    ) -> Process:
        """Start a container's command as the first process of its own PID and mount namespace.

        :param stage: an empty folder of the container's, used while its file system is put together.
        :param mounts: in any order; a mount below another is laid over it.
        :raises StartFailed: a mount or the command itself failed.
        """
        ordered = sorted(mounts, key=lambda mount: mount.target.rstrip("/").count("/"))
        return await self._launch(
            "start", command, stdio, sandbox=sandbox, stage=stage, mounts=[asdict(mount) for mount in ordered]
        )

    async def join_container(self, target: Process, command: Command, *, stdio: tuple[int, int, int]) -> Process:
        """Start a command beside a container's own, as `exec` does.

        :raises StartFailed: the container has ended, or the command failed.
        """
        return await self._launch("join", command, stdio, target=target.name)

    async def listen(self, address: str, port: int) -> socket.socket:
        """A listening TCP socket in the Pods' network."""
        return await self._socket(datagram=False, bind=address, port=port)

    async def receive_datagrams(self, address: str, port: int) -> socket.socket:
        """A bound UDP socket in the Pods' network."""
        return await self._socket(datagram=True, bind=address, port=port)

    async def connect(self, address: str, port: int) -> socket.socket:
        """A TCP socket connected to an address of the Pods' network.

        A socket belongs to the network it was made in, whoever uses it: the helper makes it, we connect it.
        """
        made = await self._socket(datagram=False, bind=None, port=0)
        try:
            await self._loop.sock_connect(made, (address, port))
        except BaseException:
            made.close()
            raise
        return made

    async def add_address(self, address: str) -> None:
        """Give the bridge one more address, for a Service."""
        await self.ask("add-address", address=address)

    async def remove_address(self, address: str) -> None:
        await self.ask("remove-address", address=address)

    async def ask(self, do: str, /, descriptors: Sequence[int] = (), **request: Any) -> list[int]:
        """Send one request and wait for its answer; returns the descriptors that came with it."""
        if self._gone.is_set():
            raise HelperGone("the helper process has ended, and every Pod with it")
        number = next(self._numbers)
        answer: asyncio.Future[tuple[dict[str, Any], list[int]]] = self._loop.create_future()
        self._answers[number] = answer
        try:
            self._channel.send({"id": number, "do": do, **request}, list(descriptors))
        except Disconnected as problem:
            self._lose(str(problem))
        else:
            self._watch_writable()
        try:
            message, received = await asyncio.shield(answer)
        except asyncio.CancelledError:
            answer.add_done_callback(_close_unwanted)
            raise
        if "error" in message:
            raise HelperRefused(message["error"])
        return received

    async def _launch(self, do: str, command: Command, stdio: tuple[int, int, int], **request: Any) -> Process:
        name = f"process-{next(self._numbers)}"
        ended = self._exits[name] = self._loop.create_future()
        ended.add_done_callback(lambda future: future.cancelled() or future.exception())
        try:
            await self.ask(
                do,
                descriptors=stdio,
                process=name,
                argv=list(command.argv),
                env=dict(command.env),
                cwd=command.cwd,
                **request,
            )
        except HelperRefused as problem:
            self._exits.pop(name, None)
            raise StartFailed(str(problem)) from problem
        return Process(name, self, ended)

    async def _socket(self, **request: Any) -> socket.socket:
        (descriptor,) = await self.ask("socket", **request)
        made = socket.socket(fileno=descriptor)
        made.setblocking(False)
        return made

    def _read(self) -> None:
        try:
            for message, descriptors in self._channel.receive():
                self._handle(message, descriptors)
        except Disconnected as problem:
            self._lose(str(problem))

    def _handle(self, message: dict[str, Any], descriptors: list[int]) -> None:
        if "exit" in message:
            ended = self._exits.pop(message["exit"], None)
            if ended and not ended.done():
                ended.set_result(Exit(message["code"], message["signal"]))
        elif "id" in message:
            answer = self._answers.pop(message["id"])
            answer.set_result((message, descriptors))
        elif "unavailable" in message:
            self._ready.set_exception(NodeUnavailable(message["unavailable"]))
        else:
            self._ready.set_result(None)

    def _watch_writable(self) -> None:
        if self._channel.has_unsent:
            self._loop.add_writer(self._channel.socket, self._write)

    def _write(self) -> None:
        try:
            self._channel.flush()
        except Disconnected as problem:
            self._lose(str(problem))
            return
        if not self._channel.has_unsent:
            self._loop.remove_writer(self._channel.socket)

    def _lose(self, why: str) -> None:
        if self._gone.is_set():
            return
        self._gone.set()
        self._loop.remove_reader(self._channel.socket)
        self._loop.remove_writer(self._channel.socket)
        self._channel.close()
        waiting: list[asyncio.Future[Any]] = [self._ready, *self._answers.values(), *self._exits.values()]
        for future in waiting:
            if not future.done():
                future.set_exception(HelperGone(f"the helper process has ended ({why}), and every Pod with it"))
                future.exception()  # not everybody who asked is still waiting
        self._answers.clear()
        self._exits.clear()


def _launch(pods: IPv4Network) -> tuple[Channel, subprocess.Popen[bytes]]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    ours.setblocking(False)
    libraries = {key: os.environ[key] for key in ("LD_LIBRARY_PATH",) if key in os.environ}
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _BOOT, _PACKAGES, str(theirs.fileno()), str(os.getpid()), str(pods)],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            env=libraries,
            cwd="/",
            start_new_session=True,  # Ctrl-C is for the engine; when Pods stop is its decision
        )
    return Channel(ours), process


def _close_unwanted(answer: asyncio.Future[tuple[dict[str, Any], list[int]]]) -> None:
    if answer.cancelled() or answer.exception():
        return
    for descriptor in answer.result()[1]:
        os.close(descriptor)
