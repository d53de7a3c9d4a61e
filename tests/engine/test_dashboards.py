"""Who reaches a dashboard on loopback: real sockets, owned by whoever made them."""

from __future__ import annotations

import asyncio
import os
import socket
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import orjson
import pytest

from kuberay.engine.apiserver import ApiServer, InProcessTransport, MemoryStorage
from kuberay.engine.dashboards import Dashboards, refusal
from kuberay.engine.peers import uid_of_peer
from kuberay.kube.client import Client
from kuberay.kube.resources import PODS, SERVICES
from tests.ray.laptop import until
from tests.unprivileged import NOBODY

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

ASK = b"GET / HTTP/1.1\r\nHost: dashboard\r\n\r\n"
BE_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can make the sockets of another user")
FAMILIES = pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_INET6])


def own(family: int = socket.AF_INET) -> socket.socket:
    try:
        sock = socket.socket(family)
    except OSError:
        pytest.skip("this machine has no IPv6")
    sock.settimeout(10)
    return sock


def of_nobody(family: int = socket.AF_INET) -> socket.socket:
    """A socket as a program of the user nobody has it: it belongs to who made it."""
    os.seteuid(NOBODY)
    try:
        return own(family)
    finally:
        os.seteuid(0)


def connect(client: socket.socket, address: tuple[str, int]) -> None:
    host, port = address
    client.connect((f"::ffff:{host}" if client.family == socket.AF_INET6 else host, port))


@contextmanager
def connected(client: socket.socket) -> Iterator[socket.socket]:
    """The accepted end of a connection."""
    with client, socket.create_server(("127.0.0.1", 0)) as listener:
        connect(client, listener.getsockname())
        with listener.accept()[0] as accepted:
            yield accepted


class TestThePeerOfAConnection:
    @FAMILIES
    def test_is_the_user_of_its_program(self, family: int) -> None:
        with connected(own(family)) as accepted:
            assert uid_of_peer(accepted) == os.geteuid()

    @FAMILIES
    @BE_ROOT
    def test_is_another_user(self, family: int) -> None:
        with connected(of_nobody(family)) as accepted:
            assert uid_of_peer(accepted) == NOBODY

    def test_may_have_finished_its_direction(self) -> None:
        client = own()
        with connected(client) as accepted:
            client.shutdown(socket.SHUT_WR)
            assert uid_of_peer(accepted) == os.geteuid()

    def test_that_has_closed_its_socket_is_nobody_we_know(self) -> None:
        client = own()
        with connected(client) as accepted:
            client.close()
            assert uid_of_peer(accepted) is None

    def test_that_is_no_connection_of_this_machine_is_nobody_we_know(self) -> None:
        with own() as unconnected:
            assert uid_of_peer(unconnected) is None
        one, other = socket.socketpair()
        with one, other:
            assert uid_of_peer(one) is None


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """A server in a Pod's place."""
    await reader.readuntil(b"\r\n\r\n")
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello")
    writer.close()


@asynccontextmanager
async def dashboards(folder: Path, *, open_to_all: bool = False) -> AsyncIterator[tuple[str, int]]:
    """The address of the one dashboard of a machine."""
    client = Client(InProcessTransport(ApiServer(MemoryStorage())))
    labels = {"ray.io/node-type": "head", "ray.io/cluster": "example"}
    metadata = {"name": "head", "namespace": "default", "labels": labels}
    containers = [{"name": "ray-head", "image": "ray"}]
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": containers}}
    await client.create(PODS, pod, namespace="default")
    status = {"status": {"podIP": "10.244.0.2"}}
    await client.patch(PODS, "head", status, namespace="default", subresource="status")
    spec = {"ports": [{"name": "dashboard", "port": 8265}]}
    service = {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}
    await client.create(SERVICES, service, namespace="default")

    server = await asyncio.start_server(answer, "127.0.0.1", 0)

    async def dial(_host: str, _port: int) -> socket.socket:
        sock = socket.socket()
        sock.setblocking(False)
        await asyncio.get_running_loop().sock_connect(sock, server.sockets[0].getsockname())
        return sock

    file = folder / "addresses.json"
    running = asyncio.create_task(Dashboards(client, dial, file=file, open_to_all=open_to_all).run())
    try:
        async with server, asyncio.timeout(20):
            while True:
                if file.exists() and (found := orjson.loads(file.read_bytes())):
                    break
                await asyncio.sleep(0.01)
            yield "127.0.0.1", int(found["default/example"].rpartition(":")[2])
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def ask(client: socket.socket, address: tuple[str, int], request: bytes = ASK) -> str:
    """Everything that is answered, to the end of the connection."""

    def talk() -> str:
        with client:
            connect(client, address)
            client.sendall(request)
            return b"".join(iter(lambda: client.recv(1 << 16), b"")).decode()

    return await asyncio.to_thread(talk)


class TestADashboard:
    @FAMILIES
    async def test_answers_the_user_of_the_engine(self, family: int, tmp_path: Path) -> None:
        async with dashboards(tmp_path) as address:
            assert (await ask(own(family), address)).endswith("hello")

    @FAMILIES
    @BE_ROOT
    async def test_refuses_another_user_and_says_why(self, family: int, tmp_path: Path) -> None:
        async with dashboards(tmp_path) as address:
            answer = await ask(of_nobody(family), address)
        assert answer.startswith("HTTP/1.1 403 Forbidden\r\n")
        assert "text/plain" in answer
        assert "for user root only" in answer
        assert "kuberay local up --open-dashboards" in answer
        assert "hello" not in answer

    @BE_ROOT
    async def test_refuses_without_a_reset_what_sends_much(self, tmp_path: Path) -> None:
        async with dashboards(tmp_path) as address:
            assert "403 Forbidden" in await ask(of_nobody(), address, ASK + bytes(1 << 24))

    @BE_ROOT
    async def test_that_is_open_answers_everybody(self, tmp_path: Path) -> None:
        async with dashboards(tmp_path, open_to_all=True) as address:
            assert (await ask(of_nobody(), address)).endswith("hello")
            assert (await ask(own(), address)).endswith("hello")

    @BE_ROOT
    def test_refuses_one_who_asks_and_has_closed_before_we_looked(self) -> None:
        hasty = of_nobody()
        with connected(hasty) as accepted:
            ends = f":{hasty.getsockname()[1]:04X} 0100007F:{accepted.getsockname()[1]:04X} "
            hasty.sendall(ASK)
            hasty.close()
            until(lambda: f"{ends}05" in Path("/proc/net/tcp").read_text(), "the acknowledged end", seconds=10)
            assert refusal(accepted)  # the kernel shows root as the owner now
