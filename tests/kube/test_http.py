from __future__ import annotations

import asyncio
import socket
import ssl
from contextlib import ExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any

import orjson
import pytest
from aiohttp import web

from kuberay.kube.access import Access, Material, Token
from kuberay.kube.client import Client
from kuberay.kube.dialing import keep_alive
from kuberay.kube.errors import ConfigError, NotFound, TransportError
from kuberay.kube.exec_plugin import Credential
from kuberay.kube.http import HttpTransport
from kuberay.kube.resources import PODS
from kuberay.kube.tls import TlsContexts
from kuberay.kube.transport import Request
from tests.kube.certificates import Authority, Signed
from tests.kube.raw_server import RawServer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from pathlib import Path


@asynccontextmanager
async def serving(
    handler: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]], tls: ssl.SSLContext | None = None
) -> AsyncIterator[str]:
    runner = web.ServerRunner(web.Server(handler), shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
    await site.start()
    port = runner.addresses[0][1]
    try:
        yield f"{'https' if tls else 'http'}://127.0.0.1:{port}"
    finally:
        await runner.cleanup()


@asynccontextmanager
async def connected(access: Access, **options: Any) -> AsyncIterator[HttpTransport]:
    transport = HttpTransport(access, **options)
    try:
        yield transport
    finally:
        await transport.close()


class Outpouring(RawServer):
    """Says one byte, and the rest at once when the reader pauses after it."""

    def __init__(self, pieces: int) -> None:
        super().__init__()
        self.pauses = 0
        self._rest = (b"10000\r\n" + b"x" * 2**16 + b"\r\n") * pieces + b"0\r\n\r\n"
        self._may_pour, self._has_poured = asyncio.Event(), asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.transport.set_write_buffer_limits(0)
        writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\nx\r\n")
        await self._may_pour.wait()
        writer.write(self._rest)
        await writer.drain()
        self._has_poured.set()

    async def pour(self, _: float) -> None:
        """The reader's pause, which ends when all is on its way."""
        self.pauses += 1
        self._may_pour.set()
        await self._has_poured.wait()


def server_side(signed: Signed, client_authority: Authority | None = None) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(signed.certificate, signed.key)
    if client_authority is not None:
        context.load_verify_locations(client_authority.file)
        context.verify_mode = ssl.CERT_REQUIRED
    return context


async def echo(request: web.BaseRequest) -> web.StreamResponse:
    return web.json_response(
        {
            "method": request.method,
            "target": request.raw_path,
            "headers": [[k.lower(), v] for k, v in request.headers.items()],
            "body": (await request.read()).decode(),
        },
        headers={"X-Answer": "Yes"},
    )


async def exchanged(access: Access, request: Request) -> dict[str, Any]:
    async with connected(access) as transport:
        answer: dict[str, Any] = orjson.loads((await transport.send(request)).body)
        return answer


class TestWhatIsSent:
    async def test_is_the_request_and_nothing_more(self) -> None:
        async with serving(echo) as url:
            seen = await exchanged(
                Access(url), Request("POST", "/api", (("a", "1"),), {"content-type": "application/json"}, b"{}")
            )
        assert (seen["method"], seen["target"], seen["body"]) == ("POST", "/api?a=1", "{}")
        assert {name for name, _ in seen["headers"]} == {"host", "content-type", "content-length", "accept-encoding"}
        assert ["accept-encoding", "identity"] in seen["headers"]

    async def test_a_large_body_arrives_whole(self) -> None:
        body = b"x" * 3_000_000

        async def size(request: web.BaseRequest) -> web.StreamResponse:
            content = b"".join([chunk async for chunk in request.content.iter_any()])
            return web.json_response({"equal": content == body, "length": request.headers["content-length"]})

        async with serving(size) as url:
            assert await exchanged(Access(url), Request("POST", "/", body=body)) == {"equal": True, "length": "3000000"}

    async def test_special_characters_arrive_as_they_are_meant(self) -> None:
        query = (("labelSelector", "a in (b,c),d!=e"), ("continue", "x+/=&"), ("labelSelector", "ü"))
        async with serving(echo) as url:
            seen = await exchanged(Access(url), Request("GET", "/api/v1/nodes/system:node:a b?#", query))
        assert seen["target"] == (
            "/api/v1/nodes/system:node:a%20b%3F%23"
            "?labelSelector=a+in+%28b%2Cc%29%2Cd%21%3De&continue=x%2B%2F%3D%26&labelSelector=%C3%BC"
        )

    async def test_goes_below_the_path_of_the_server(self) -> None:
        async with serving(echo) as url:
            seen = await exchanged(Access(f"{url}/clusters/7"), Request("GET", "/api"))
        assert seen["target"] == "/clusters/7/api"

    async def test_goes_through_the_proxy_of_the_access(self) -> None:
        async with serving(echo) as proxy:
            seen = await exchanged(Access("http://api.example", proxy=proxy), Request("GET", "/api"))
        assert seen["target"] == "http://api.example/api"

    async def test_carries_the_token_and_whom_to_act_as(self) -> None:
        headers = (("impersonate-group", "a"), ("impersonate-group", "b"))
        async with serving(echo) as url:
            seen = await exchanged(Access(url, token=Token("t"), headers=headers), Request("GET", "/"))
        assert ["authorization", "Bearer t"] in seen["headers"]
        assert [v for k, v in seen["headers"] if k == "impersonate-group"] == ["a", "b"]

    async def test_a_token_that_is_refused_is_read_again(self, tmp_path: Path) -> None:
        file = tmp_path / "token"
        file.write_text("old")

        async def guarded(request: web.BaseRequest) -> web.StreamResponse:
            return web.Response(status=200 if request.headers["authorization"] == "Bearer new" else 401)

        async with serving(guarded) as url, connected(Access(url, token=Token(file=file))) as transport:
            assert (await transport.send(Request("GET", "/"))).status == 401
            file.write_text("new")
            assert (await transport.send(Request("GET", "/"))).status == 200

    async def test_a_request_whose_token_has_just_been_renewed_is_sent_again(self, tmp_path: Path) -> None:
        file = tmp_path / "token"
        file.write_text("old")
        bodies: list[bytes] = []

        async def guarded(request: web.BaseRequest) -> web.StreamResponse:
            bodies.append(await request.read())
            return web.Response(status=200 if request.headers["authorization"] == "Bearer new" else 401)

        async with serving(guarded) as url, connected(Access(url, token=Token(file=file))) as transport:
            await transport.send(Request("GET", "/"))
            file.write_text("new")
            assert (await transport.send(Request("POST", "/", body=b"x"))).status == 200
            file.write_text("old")
            transport.access.token.refused()  # type: ignore[union-attr]
            await transport.send(Request("GET", "/"))
            file.write_text("new")
            async with transport.stream(Request("GET", "/")) as stream:
                assert stream.status == 200
        assert bodies[1:3] == [b"x", b"x"]


class TestAnswers:
    async def test_header_names_are_lower_case(self) -> None:
        async with serving(echo) as url, connected(Access(url)) as transport:
            assert (await transport.send(Request("GET", "/"))).headers["x-answer"] == "Yes"

    async def test_a_redirect_is_not_followed(self) -> None:
        async def redirect(request: web.BaseRequest) -> web.StreamResponse:
            return web.Response(status=302, headers={"location": "http://127.0.0.1:1/"})

        async with serving(redirect) as url, connected(Access(url)) as transport:
            assert (await transport.send(Request("GET", "/"))).status == 302

    async def test_what_comes_in_dribbles_is_handed_over_together(self) -> None:
        async def dribbling(request: web.BaseRequest) -> web.StreamResponse:
            answer = web.StreamResponse()
            await answer.prepare(request)
            for number in range(50):
                await answer.write(b"%d\n" % number)
                await asyncio.sleep(0)  # lets the reader run between any two of them
            return answer

        async with (
            serving(dribbling) as url,
            connected(Access(url)) as transport,
            transport.stream(Request("GET", "/")) as stream,
        ):
            chunks = [chunk async for chunk in stream.chunks()]
        assert b"".join(chunks).split() == [b"%d" % number for number in range(50)]
        assert len(chunks) < 10

    async def test_much_is_handed_over_without_a_pause_after_every_piece(self) -> None:
        source = Outpouring(pieces=10)
        async with (
            source.serving() as where,
            connected(Access(f"http://{where}"), sleep=source.pour) as transport,
            transport.stream(Request("GET", "/")) as stream,
        ):
            assert sum([len(chunk) async for chunk in stream.chunks()]) == 1 + 10 * 2**16
        assert source.pauses <= 2  # after the first byte, and where the kernel has to ask for more

    async def test_a_stream_is_handed_over_while_it_arrives(self) -> None:
        go_on = asyncio.Event()

        async def slow(request: web.BaseRequest) -> web.StreamResponse:
            answer = web.StreamResponse()
            await answer.prepare(request)
            await answer.write(b"one")
            await go_on.wait()
            await answer.write(b"two" * 1_000_000)
            return answer

        async with (
            serving(slow) as url,
            connected(Access(url)) as transport,
            transport.stream(Request("GET", "/")) as stream,
        ):
            chunks = stream.chunks()
            assert await anext(chunks) == b"one"
            go_on.set()
            assert len(b"".join([chunk async for chunk in chunks])) == 3_000_000

    async def test_little_news_after_little_news_is_not_kept_waiting_for_more(self) -> None:
        has_read = asyncio.Event()

        async def talking(request: web.BaseRequest) -> web.StreamResponse:
            answer = web.StreamResponse()
            await answer.prepare(request)
            for word in (b"one", b"two", b"three"):
                has_read.clear()
                await answer.write(word)
                await has_read.wait()
            return answer

        async with (
            serving(talking) as url,
            connected(Access(url)) as transport,
            transport.stream(Request("GET", "/")) as stream,
        ):
            found = []
            async for chunk in stream.chunks():
                found.append(chunk)
                has_read.set()
        assert found == [b"one", b"two", b"three"]

    async def test_leaving_a_stream_closes_its_connection(self) -> None:
        gone = asyncio.Event()

        async def endless(request: web.BaseRequest) -> web.StreamResponse:
            answer = web.StreamResponse()
            try:
                await answer.prepare(request)
                await answer.write(b"one")
                await asyncio.sleep(60)
            finally:
                gone.set()
            return answer

        runner = web.ServerRunner(web.Server(endless, handler_cancellation=True))
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        async with connected(Access(f"http://127.0.0.1:{runner.addresses[0][1]}")) as transport:
            async with transport.stream(Request("GET", "/")) as stream:
                assert await anext(stream.chunks()) == b"one"
            await gone.wait()
        await runner.cleanup()

    async def test_the_client_works_over_it(self) -> None:
        async def missing(request: web.BaseRequest) -> web.StreamResponse:
            status = {"kind": "Status", "reason": "NotFound", "code": 404, "message": "no such pod"}
            return web.json_response(status, status=404)

        async with serving(missing) as url, connected(Access(url)) as transport:
            client = Client(transport)
            with pytest.raises(NotFound, match="no such pod"):
                await client.get(PODS, "a", namespace="n")
            with pytest.raises(NotFound, match="no such pod"):
                async with client.watch(PODS):
                    pass


class TestNoAnswer:
    async def test_nobody_listens(self, unused_port: int) -> None:
        async with connected(Access(f"http://127.0.0.1:{unused_port}")) as transport:
            with pytest.raises(TransportError, match=f"GET http://127.0.0.1:{unused_port}/api: "):
                await transport.send(Request("GET", "/api"))
            with pytest.raises(TransportError):
                async with transport.stream(Request("GET", "/api")):
                    pass

    async def test_an_answer_that_takes_too_long(self) -> None:
        async def hang(request: web.BaseRequest) -> web.StreamResponse:
            await asyncio.sleep(60)
            return web.Response()

        async with serving(hang) as url, connected(Access(url), timeout=0.05) as transport:
            with pytest.raises(TransportError, match="no answer in time"):
                await transport.send(Request("GET", "/"))
            with pytest.raises(TransportError, match="no answer in time"):
                async with transport.stream(Request("GET", "/")):
                    pass

    async def test_a_server_that_hangs_up(self) -> None:
        async def hang_up(request: web.BaseRequest) -> web.StreamResponse:
            assert request.transport is not None
            request.transport.close()
            return web.Response()

        async with serving(hang_up) as url, connected(Access(url)) as transport:
            with pytest.raises(TransportError):
                await transport.send(Request("POST", "/"))

    async def test_a_stream_that_breaks(self) -> None:
        async def half(request: web.BaseRequest) -> web.StreamResponse:
            answer = web.StreamResponse()
            await answer.prepare(request)
            await answer.write(b"one")
            assert request.transport is not None
            request.transport.close()
            return answer

        async with (
            serving(half) as url,
            connected(Access(url)) as transport,
            transport.stream(Request("GET", "/")) as stream,
        ):
            with pytest.raises(TransportError):
                _ = [chunk async for chunk in stream.chunks()]

    async def test_closing_fails_what_is_under_way_and_what_comes_after(self) -> None:
        arrived = asyncio.Event()

        async def hang(request: web.BaseRequest) -> web.StreamResponse:
            arrived.set()
            await asyncio.sleep(60)
            return web.Response()

        async with serving(hang) as url:
            transport = HttpTransport(Access(url))
            under_way = asyncio.create_task(transport.send(Request("GET", "/")))
            await arrived.wait()
            await transport.close()
            with pytest.raises(TransportError):
                await under_way
            with pytest.raises(TransportError, match="closed"):
                await transport.send(Request("GET", "/"))

    async def test_a_server_that_does_not_speak_tls(self) -> None:
        async with (
            serving(echo) as url,
            connected(Access(url.replace("http:", "https:"), insecure=True)) as transport,
        ):
            with pytest.raises(TransportError, match="does not speak TLS; is the port right"):
                await transport.send(Request("GET", "/"))


def test_connections_find_out_when_nobody_is_there_any_more() -> None:
    with socket.socket() as made:
        keep_alive(made)
        assert made.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        idle = made.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE)
        again = made.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL)
        times = made.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT)
        assert idle + again * times <= 120


class TestTls:
    @pytest.fixture
    def authority(self, tmp_path: Path) -> Authority:
        return Authority(tmp_path)

    async def ask(self, access: Access) -> int:
        async with connected(access) as transport:
            return (await transport.send(Request("GET", "/"))).status

    def material(self, file: Path) -> Material:
        return Material("test", file=file)

    async def test_a_server_that_the_authority_signed_is_trusted(self, authority: Authority) -> None:
        async with serving(echo, server_side(authority.sign("server"))) as url:
            assert await self.ask(Access(url, authority=self.material(authority.file))) == 200
            data = Material("test", data=authority.file.read_bytes())
            assert await self.ask(Access(url, authority=data)) == 200

    async def test_others_are_not(self, authority: Authority, tmp_path: Path) -> None:
        stranger = Authority(tmp_path, "stranger")
        async with serving(echo, server_side(authority.sign("server"))) as url:
            for access in (Access(url), Access(url, authority=self.material(stranger.file))):
                with pytest.raises(TransportError, match="the server's certificate is not trusted"):
                    await self.ask(access)

    async def test_unless_nobody_cares(self, authority: Authority) -> None:
        async with serving(echo, server_side(authority.sign("server"))) as url:
            assert await self.ask(Access(url, insecure=True)) == 200

    async def test_a_server_may_be_known_by_another_name(self, authority: Authority) -> None:
        async with serving(echo, server_side(authority.sign("api.only"))) as url:
            trusted = self.material(authority.file)
            assert await self.ask(Access(url, authority=trusted, server_name="api.only")) == 200
            with pytest.raises(TransportError, match="the server's certificate is not trusted"):
                await self.ask(Access(url, authority=trusted))

    async def test_a_client_certificate_is_shown(self, authority: Authority) -> None:
        client = authority.sign("client")
        async with serving(echo, server_side(authority.sign("server"), authority)) as url:
            trusted = self.material(authority.file)
            by_data = Material("test", data=client.key.read_bytes())
            assert (
                await self.ask(
                    Access(url, authority=trusted, certificate=self.material(client.certificate), key=by_data)
                )
                == 200
            )
            with pytest.raises(TransportError):
                await self.ask(Access(url, authority=trusted))

    async def test_closing_does_not_wait_for_a_goodbye_of_the_server(self, authority: Authority) -> None:
        with socket.create_server(("127.0.0.1", 0)) as listening, ExitStack() as accepted:

            def accept() -> ssl.SSLSocket:
                """Take one request, and neither answer it nor read on."""
                made = server_side(authority.sign("server")).wrap_socket(listening.accept()[0], server_side=True)
                accepted.enter_context(made)
                made.recv(2**16)
                return made

            url = f"https://127.0.0.1:{listening.getsockname()[1]}"
            async with connected(Access(url, authority=self.material(authority.file))) as transport:
                under_way = asyncio.create_task(transport.send(Request("GET", "/")))
                peer = await asyncio.to_thread(accept)
                under_way.cancel()
                await asyncio.wait([under_way])
            ended = socket.socket(fileno=peer.detach())
            accepted.enter_context(ended).setblocking(False)
            while ended.recv(2**16):  # blocks, and so fails, as long as the other end is open
                pass

    async def test_an_authority_that_changes_in_its_file_is_read_again(self, tmp_path: Path) -> None:
        first, second = Authority(tmp_path, "first"), Authority(tmp_path, "second")
        file = tmp_path / "ca.crt"
        file.write_bytes(first.file.read_bytes())
        before, after = server_side(first.sign("a")), server_side(second.sign("b"))
        async with (
            serving(echo, before) as old_url,
            serving(echo, after) as new_url,
            connected(Access(old_url, authority=self.material(file))) as transport,
        ):
            assert (await transport.send(Request("GET", "/"))).status == 200
            object.__setattr__(transport.access, "server", new_url)  # as a restart behind one address does
            with pytest.raises(TransportError, match="the server's certificate is not trusted"):
                await transport.send(Request("GET", "/"))
            file.write_bytes(b"half written")
            with pytest.raises(TransportError, match="the server's certificate is not trusted"):
                await transport.send(Request("GET", "/"))
            file.write_bytes(second.file.read_bytes())
            assert (await transport.send(Request("GET", "/"))).status == 200

    def test_files_are_looked_at_once_a_minute(self, tmp_path: Path) -> None:
        now = 0.0
        file = tmp_path / "ca.crt"
        first, second = Authority(tmp_path, "first"), Authority(tmp_path, "second")
        file.write_bytes(first.file.read_bytes())
        contexts = TlsContexts(Access("https://x", authority=self.material(file)), clock=lambda: now)
        before = contexts.context(Credential())
        file.write_bytes(second.file.read_bytes() + b"\n")
        now = 59.0
        assert contexts.context(Credential()) is before
        now = 60.0
        assert contexts.context(Credential()) is not before

    @pytest.mark.parametrize("content", [None, b"not pem"])
    def test_material_that_cannot_be_used_is_named(self, tmp_path: Path, content: bytes | None) -> None:
        file = tmp_path / "ca.crt"
        if content:
            file.write_bytes(content)
        with pytest.raises(ConfigError, match=r"clusters\[0\].cluster.certificate-authority .*ca.crt.* cannot be used"):
            HttpTransport(Access("https://x", authority=Material("clusters[0].cluster.certificate-authority", file)))


@pytest.fixture
def unused_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
