"""What servers say on a connection, byte by byte, and what becomes of the connection."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import socket
from typing import TYPE_CHECKING

import pytest

from kuberay.kube import dialing
from kuberay.kube.access import Access, Material
from kuberay.kube.connection import Connection, Until
from kuberay.kube.errors import TransportError
from kuberay.kube.transport import Request
from tests.kube.certificates import Authority
from tests.kube.raw_server import RawServer, pass_on
from tests.kube.test_http import connected, echo, server_side, serving

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from pathlib import Path

    from kuberay.kube.connection import Answer
    from kuberay.kube.dialing import AddressInfo

GET = Request("GET", "/")
POST = Request("POST", "/", body=b"{}")
OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
GO_ON = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n"
NOTHING = b""
CLOSE = None


class Scripted(RawServer):
    """Reads the requests of a connection and answers each with the next bytes; `CLOSE` ends the connection.

    :param scripts: for each connection in the order in which they come; the last one is for all that follow.
    """

    def __init__(self, *scripts: Sequence[bytes | None]) -> None:
        super().__init__()
        self.heads: list[bytes] = []
        self._scripts = scripts

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for said in self._scripts[min(self.connections, len(self._scripts)) - 1]:
            if said is CLOSE:
                return
            self.heads.append(await reader.readuntil(b"\r\n\r\n"))
            if b"content-length: 2\r\n" in self.heads[-1]:
                await reader.readexactly(2)
            writer.write(said)
            await writer.drain()
        await reader.read()  # until the other end hangs up


class Flood(RawServer):
    """Sends as much as it can."""

    def __init__(self) -> None:
        super().__init__()
        self.sent = 0
        self.is_stuck = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
        with contextlib.suppress(TimeoutError):
            while self.sent < 2**28:
                writer.write(b"10000\r\n" + b"x" * 2**16 + b"\r\n")
                async with asyncio.timeout(0.2):
                    await writer.drain()
                self.sent += 2**16
        self.is_stuck.set()
        writer.transport.abort()


class TestAnAnswer:
    @pytest.mark.parametrize(
        "script",
        [
            [b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nbody"],
            [b"HTTP/1.1 200\r\ncontent-length: 4\r\n\r\nbody"],
            [b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nb\r\n3\r\nody\r\n0\r\n\r\n"],
            [b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4;x=y\r\nbody\r\n0\r\nTrailer: t\r\n\r\n"],
            [GO_ON + b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nbody"],
            [b"HTTP/1.1 200 OK\r\nserver: old\r\n\r\nbody", CLOSE],
            [b"HTTP/1.0 200 OK\r\nserver: older\r\n\r\nbody", CLOSE],
        ],
        ids=["of a length", "without a word", "in pieces", "in strange pieces", "after others", "to the end", "in 1.0"],
    )  # fmt: skip
    async def test_is_read_whole(self, script: list[bytes | None]) -> None:
        async with Scripted(script).serving() as where, connected(Access(f"http://{where}")) as transport:
            response = await transport.send(GET)
            assert (response.status, response.body) == (200, b"body")

    async def test_may_have_no_body(self) -> None:
        said = b"HTTP/1.1 204 No Content\r\nserver: x\r\n\r\n"
        async with Scripted([said]).serving() as where, connected(Access(f"http://{where}")) as transport:
            assert (await transport.send(GET)).body == b""

    async def test_has_repeated_headers_in_one(self) -> None:
        said = b"HTTP/1.1 200 OK\r\nWarning: a\r\nwarning: b\r\ncontent-length: 0\r\n\r\n"
        async with Scripted([said]).serving() as where, connected(Access(f"http://{where}")) as transport:
            assert (await transport.send(GET)).headers["warning"] == "a, b"

    @pytest.mark.parametrize(
        ("script", "why"),
        [
            ([b"220 mail.example ESMTP\r\n"], "what the server says is not HTTP"),
            ([b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nbo", CLOSE], "the server closed the connection"),
            ([b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\nbo", CLOSE], "closed the connection"),
            ([b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nfour\r\n"], "not HTTP"),
            ([b"HTTP/1.1 200 OK\r\n" + b"x-%d: y\r\n" * 2000 % tuple(range(2000))], "not HTTP"),
            ([b"HTTP/1.1 200 OK\r\ncont", CLOSE], "closed the connection"),
            ([b"HTTP/1.1 101 Switching\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n"], "in another protocol"),
        ],
        ids=[
            "of something else",
            "cut short",
            "cut within a piece",
            "of no size",
            "of headers only",
            "cut in its head",
            "of another protocol",
        ],
    )
    async def test_that_makes_no_sense_is_none(self, script: list[bytes | None], why: str) -> None:
        async with Scripted(script).serving() as where, connected(Access(f"http://{where}")) as transport:
            with pytest.raises(TransportError, match=why):
                await transport.send(POST)

    async def test_may_come_before_all_of_the_request_was_read(self) -> None:
        refusal = b"HTTP/1.1 413 Too Large\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
        async with Scripted([refusal]).serving() as where, connected(Access(f"http://{where}")) as transport:
            response = await transport.send(Request("POST", "/", body=b"x" * 500_000))
        assert response.status == 413


class TestAConnection:
    async def test_is_used_again(self) -> None:
        server = Scripted([OK, OK, OK])
        async with server.serving() as where, connected(Access(f"http://{where}")) as transport:
            for _ in range(3):
                assert (await transport.send(POST)).body == b"ok"
        assert server.connections == 1

    async def test_is_used_again_after_a_stream_that_came_to_its_end(self) -> None:
        server = Scripted([OK, OK])
        async with server.serving() as where, connected(Access(f"http://{where}")) as transport:
            async with transport.stream(GET) as stream:
                assert [chunk async for chunk in stream.chunks()] == [b"ok"]
            await transport.send(POST)
        assert server.connections == 1

    @pytest.mark.parametrize(
        "script",
        [
            [b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok"],
            [b"HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\nok"],
            [OK + b"HTTP/1.1 408 Request Timeout\r\n\r\n"],
            [OK + b"and more"],
        ],
        ids=["the server will close", "by the old rules", "a second answer came", "more came"],
    )
    async def test_is_not_used_again_when(self, script: list[bytes | None]) -> None:
        server = Scripted(script, [OK])
        async with server.serving() as where, connected(Access(f"http://{where}")) as transport:
            assert (await transport.send(POST)).body == b"ok"
            assert (await transport.send(POST)).body == b"ok"
        assert server.connections == 2

    async def test_is_not_used_again_after_a_long_pause(self) -> None:
        now = 0.0
        server = Scripted([OK, OK])
        async with server.serving() as where, connected(Access(f"http://{where}"), clock=lambda: now) as transport:
            await transport.send(POST)
            now = 16.0
            await transport.send(POST)
        assert server.connections == 2

    async def test_that_somebody_gave_up_waiting_on_is_not_used_again(self) -> None:
        server = Scripted([NOTHING], [OK])
        async with server.serving() as where, connected(Access(f"http://{where}")) as transport:
            with pytest.raises(TransportError, match="no answer in time"):
                await transport.send(POST, timeout=0.05)
            assert (await transport.send(POST)).body == b"ok"
        assert server.connections == 2

    async def test_that_the_server_drops_when_it_is_used_again_is_made_anew(self) -> None:
        server = Scripted([OK, NOTHING, CLOSE], [OK])
        async with server.serving() as where, connected(Access(f"http://{where}")) as transport:
            await transport.send(GET)
            assert (await transport.send(GET)).body == b"ok"
        assert server.connections == 2

    async def test_but_nothing_is_written_twice(self) -> None:
        server = Scripted([OK, NOTHING, CLOSE], [OK])
        async with server.serving() as where, connected(Access(f"http://{where}")) as transport:
            await transport.send(POST)
            with pytest.raises(TransportError, match="the server closed the connection"):
                await transport.send(POST)
        assert server.connections == 1

    async def test_waits_for_a_reader_who_is_slow(self) -> None:
        server = Flood()
        async with (
            server.serving() as where,
            connected(Access(f"http://{where}")) as transport,
            transport.stream(GET) as stream,
        ):
            await anext(stream.chunks())
            await server.is_stuck.wait()
        assert server.sent < 2**26  # what buffers on the way hold, but not what the reader has not asked for

    async def test_a_header_that_would_be_two_is_not_sent(self) -> None:
        async with Scripted([OK]).serving() as where:
            access = Access(
                f"http://{where}", headers=(("impersonate-user", "me\r\nimpersonate-group: system:masters"),)
            )
            async with connected(access) as transport:
                with pytest.raises(TransportError, match="a header holds a line break"):
                    await transport.send(GET)


class Wire(asyncio.Transport):
    """Carries a connection in the hand of a test. It takes one piece of a request, and no more."""

    def __init__(self) -> None:
        super().__init__()
        self.is_read = True
        self._sent = 0
        self.connection = Connection(socket.socket())
        self.connection.connection_made(self)

    def brings(self, data: bytes) -> None:
        """Let something come, as much at a time as is taken in."""
        while data:
            room = self.connection.get_buffer(-1)
            size = min(len(room), len(data))
            room[:size] = data[:size]
            self.connection.buffer_updated(size)
            data = data[size:]

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self._sent += len(data)
        if self._sent > 2**18:
            self.connection.pause_writing()

    def pause_reading(self) -> None:
        self.is_read = False

    def resume_reading(self) -> None:
        self.is_read = True

    def is_closing(self) -> bool:
        return False


@pytest.fixture
async def wire() -> AsyncIterator[Wire]:
    wire = Wire()
    yield wire
    wire.connection.socket.close()


async def asked(wire: Wire, body: bytes = b"") -> asyncio.Task[Answer]:
    """A request that is under way."""
    deadline = asyncio.get_running_loop().time() + 10
    asking = asyncio.create_task(wire.connection.ask(b"head", body, Until.HEAD, deadline=deadline))
    await asyncio.sleep(0)
    return asking


class TestAnAnswerThatNobodyTakes:
    async def test_waits_outside_while_there_is_more_of_it(self, wire: Wire) -> None:
        asking = await asked(wire)
        wire.brings(b"HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\n" + b"x" * 2**18)
        await asking
        assert not wire.is_read

    async def test_does_not_hold_up_the_next_when_it_is_whole(self, wire: Wire) -> None:
        asking = await asked(wire)
        wire.brings(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % (2**18) + b"x" * 2**18)
        await asking
        assert wire.is_read
        assert wire.connection.is_free

    async def test_and_whose_end_comes_all_the_same_has_to_be_taken_before_the_next(self, wire: Wire) -> None:
        asking = await asked(wire)
        wire.brings(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % (2**18 + 1) + b"x" * 2**18)
        wire.brings(b"x")
        assert not wire.connection.is_free
        await (await asking).rest()
        assert wire.is_read
        assert wire.connection.is_free


class TestARefusalOfALargeRequest:
    async def test_is_heard_although_the_server_takes_no_more_of_it(self, wire: Wire) -> None:
        asking = await asked(wire, b"x" * 2**20)
        assert not asking.done()
        wire.brings(b"HTTP/1.1 413 Too Large\r\ncontent-length: 0\r\n\r\n")
        assert (await asking).status == 413
        assert not wire.connection.is_free, "the server would take the next request for the rest of this one"

    async def test_is_heard_although_the_server_hangs_up(self, wire: Wire) -> None:
        asking = await asked(wire, b"x" * 2**20)
        wire.brings(b"HTTP/1.1 413 Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
        wire.connection.connection_lost(ConnectionResetError())
        assert (await asking).status == 413


class TestAServerOfSeveralAddresses:
    async def test_is_reached_at_the_one_that_answers(self) -> None:
        server = Scripted([OK])
        async with server.serving() as where:

            async def resolve(host: str, port: int) -> Sequence[AddressInfo]:
                with socket.socket() as taken:
                    taken.bind(("127.0.0.1", 0))
                    closed = taken.getsockname()
                kind = (socket.AF_INET, socket.SOCK_STREAM, 6, "")
                return [(*kind, closed), *await dialing.resolve(host, port)]

            async with connected(Access(f"http://{where}"), resolve=resolve) as transport:
                assert (await transport.send(GET)).body == b"ok"


class Tunnel(RawServer):
    """A proxy that passes on everything after `CONNECT`.

    :param refusal: what it answers instead.
    """

    def __init__(self, refusal: bytes = b"") -> None:
        super().__init__()
        self.heads: list[bytes] = []
        self._refusal = refusal

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.heads.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(self._refusal or b"HTTP/1.1 200 Connection established\r\n\r\n")
        if not self._refusal:
            await pass_on(reader, writer, int(self.heads[-1].split()[1].rpartition(b":")[2]))


class TestThroughAProxy:
    async def test_tls_is_spoken_with_the_server(self, tmp_path: Path) -> None:
        authority = Authority(tmp_path)
        proxy = Tunnel()
        async with proxy.serving() as where, serving(echo, server_side(authority.sign("api.internal"))) as url:
            access = Access(
                url.replace("127.0.0.1", "api.internal"),
                authority=Material("test", file=authority.file),
                proxy=f"http://me:a%20b@{where}",
            )
            async with connected(access) as transport:
                for _ in range(2):
                    assert (await transport.send(GET)).status == 200
        [head] = proxy.heads
        target = url.replace("https://127.0.0.1", "api.internal").encode()
        assert head.startswith(b"CONNECT " + target + b" HTTP/1.1\r\nhost: " + target)
        assert b"proxy-authorization: Basic " + base64.b64encode(b"me:a b") in head

    async def test_without_tls_the_proxy_is_told_the_whole_address(self) -> None:
        server = Scripted([OK])
        async with server.serving() as where:
            access = Access("http://api.internal:8080", proxy=f"http://me:secret@{where}")
            async with connected(access) as transport:
                await transport.send(Request("GET", "/api"))
        [head] = server.heads
        assert head.startswith(b"GET http://api.internal:8080/api HTTP/1.1\r\nhost: api.internal:8080\r\n")
        assert b"proxy-authorization: Basic " + base64.b64encode(b"me:secret") in head

    async def test_that_refuses_its_answer_is_told_and_the_password_is_not(self) -> None:
        refusal = b"HTTP/1.1 407 Proxy Authentication Required\r\ncontent-length: 0\r\n\r\n"
        async with (
            Tunnel(refusal).serving() as where,
            connected(Access("https://api.internal", proxy=f"http://me:s3cret@{where}")) as transport,
        ):
            with pytest.raises(TransportError, match=r"to api\.internal:443: it answered with HTTP 407") as failed:
                await transport.send(GET)
        assert "s3cret" not in str(failed.value)

    async def test_that_is_not_there_is_named(self) -> None:
        async with Tunnel().serving() as where:
            pass
        async with connected(Access("https://api.internal", proxy=f"http://me:s3cret@{where}")) as transport:
            with pytest.raises(TransportError, match=f"the proxy {where} cannot be reached") as failed:
                await transport.send(GET)
        assert "s3cret" not in str(failed.value)
