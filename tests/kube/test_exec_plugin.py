from __future__ import annotations

import asyncio
import os
import stat
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import orjson
import pytest
from aiohttp import web

from kuberay.kube.access import Access, Material
from kuberay.kube.errors import CredentialError, TransportError
from kuberay.kube.exec_plugin import API_VERSIONS, ExecPlugin, PluginCredentials
from kuberay.kube.transport import Request
from tests.kube.certificates import Authority
from tests.kube.raw_server import RawServer
from tests.kube.test_http import connected, echo, server_side, serving

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

V1 = API_VERSIONS[0]


def credential(version: str = V1, **status: Any) -> str:
    return orjson.dumps({"kind": "ExecCredential", "apiVersion": version, "status": status}).decode()


class Program:
    """A plugin as a shell script that counts its runs."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "plugin"
        self._runs = folder / "runs"

    def does(self, script: str) -> ExecPlugin:
        self.file.write_text(f"#!/bin/sh\necho >> {self._runs}\n{script}\n")
        self.file.chmod(stat.S_IRWXU)
        return ExecPlugin(str(self.file), origin="config: users[0].user.exec", timeout=20)

    def prints(self, text: str) -> ExecPlugin:
        output = self.file.with_name("output")
        output.write_text(text)
        return self.does(f"cat {output}")

    @property
    def runs(self) -> int:
        return self._runs.read_text().count("\n") if self._runs.exists() else 0


@pytest.fixture
def program(tmp_path: Path) -> Program:
    return Program(tmp_path)


class Clocks:
    """Time as the test wants it."""

    def __init__(self) -> None:
        self.start = datetime(2026, 1, 1, tzinfo=UTC)
        self.seconds = 0.0

    def credentials(self, plugin: ExecPlugin) -> PluginCredentials:
        return PluginCredentials(plugin, now=lambda: self.at(self.seconds), clock=lambda: self.seconds)

    def at(self, seconds: float) -> datetime:
        return self.start + timedelta(seconds=seconds)


@pytest.fixture
def clocks() -> Clocks:
    return Clocks()


class TestHowItIsCalled:
    async def test_with_arguments_environment_and_what_is_wanted(self, program: Program) -> None:
        plugin = program.does(
            'printf \'{"kind":"ExecCredential","apiVersion":"%s","status":{"token":"%s"}}\' '
            f'"{V1}" "$1-$PROFILE-$HOME-$(echo "$KUBERNETES_EXEC_INFO" | tr -d \'"\')"'
        )
        called = ExecPlugin(
            plugin.command,
            ("get",),
            (("PROFILE", "dev"),),
            cluster={"server": "https://one"},
            environ={"PATH": os.environ["PATH"], "HOME": "/h", "PROFILE": "overridden"},
        )
        token = (await PluginCredentials(called).current()).token
        assert token.startswith("get-dev-/h-")
        assert token.endswith(
            f"{{kind:ExecCredential,apiVersion:{V1},spec:{{interactive:false,cluster:{{server:https://one}}}}}}"
        )

    @pytest.mark.parametrize("version", API_VERSIONS)
    async def test_in_either_version(self, program: Program, version: str) -> None:
        plugin = ExecPlugin(program.prints(credential(version, token="t")).command, api_version=version)
        assert (await PluginCredentials(plugin).current()).token == "t"

    async def test_once_for_all_who_ask_at_the_same_time(self, program: Program) -> None:
        credentials = PluginCredentials(program.prints(credential(token="t")))
        found = await asyncio.gather(*(credentials.current() for _ in range(10)))
        assert {each.token for each in found} == {"t"}
        assert program.runs == 1

    async def test_again_when_it_has_expired(self, program: Program, clocks: Clocks) -> None:
        expires = clocks.at(60).isoformat().replace("+00:00", "Z")
        credentials = clocks.credentials(program.prints(credential(token="t", expirationTimestamp=expires)))
        await credentials.current()
        clocks.seconds = 59
        await credentials.current()
        assert program.runs == 1
        clocks.seconds = 60
        program.prints(credential(token="new"))
        assert (await credentials.current()).token == "new"

    async def test_again_when_its_certificate_has_expired(
        self, program: Program, clocks: Clocks, tmp_path: Path
    ) -> None:
        client = Authority(tmp_path).sign("client")
        pem = {"clientCertificateData": client.certificate.read_text(), "clientKeyData": client.key.read_text()}
        credentials = clocks.credentials(program.prints(credential(**pem)))
        expires = (await credentials.current()).expires
        assert expires is not None
        program.prints(credential(token="new"))
        clocks.seconds = (expires - clocks.start).total_seconds() - 1
        assert (await credentials.current()).token == ""
        clocks.seconds += 1
        assert (await credentials.current()).token == "new"

    async def test_again_when_the_server_refuses_but_not_at_every_request(
        self, program: Program, clocks: Clocks
    ) -> None:
        credentials = clocks.credentials(program.prints(credential(token="t")))
        first = await credentials.current()
        credentials.refused(first)
        assert await credentials.current() is first
        clocks.seconds = 5
        credentials.refused(first)
        second = await credentials.current()
        assert program.runs == 2
        credentials.refused(first)
        clocks.seconds = 20
        credentials.refused(first)
        assert await credentials.current() is second

    async def test_until_its_end_whoever_has_given_up_waiting(self, program: Program, tmp_path: Path) -> None:
        """Those who lead have ten seconds for a request, and a login may take a minute."""
        go_on = tmp_path / "go-on"
        os.mkfifo(go_on)
        plugin = program.does(f"echo > {tmp_path}/began; cat {go_on}; echo '{credential(token='t')}'")
        credentials = PluginCredentials(plugin)
        impatient = asyncio.create_task(credentials.current())
        await written(tmp_path, "began")
        impatient.cancel()
        with pytest.raises(asyncio.CancelledError):
            await impatient
        patient = asyncio.create_task(credentials.current())
        await asyncio.to_thread(go_on.write_text, "")
        assert (await patient).token == "t"
        assert program.runs == 1

    async def test_while_others_work(self, program: Program) -> None:
        credentials = PluginCredentials(program.does("sleep 0.3; " + f"echo '{credential(token='t')}'"))
        ticks = 0

        async def tick() -> None:
            nonlocal ticks
            while True:
                await asyncio.sleep(0.01)
                ticks += 1

        ticking = asyncio.create_task(tick())
        await credentials.current()
        ticking.cancel()
        assert ticks >= 5

    async def test_much_on_its_error_output_is_no_obstacle(self, program: Program) -> None:
        plugin = program.does(f"head -c 1000000 /dev/zero >&2; echo '{credential(token='t')}'")
        assert (await PluginCredentials(plugin).current()).token == "t"


class TestWhenItFails:
    @pytest.mark.parametrize(
        ("prepare", "message"),
        [
            (lambda p: p.does("echo s3cret; echo no network >&2; exit 3"), "failed with code 3: no network"),
            (lambda p: p.does("exit 1"), "failed with code 1 and said nothing"),
            (lambda p: p.does("head -c 900000 /dev/zero >&2; echo last words >&2; exit 1"), "last words$"),
            (lambda p: p.prints("s3cret"), "printed something that is not JSON"),
            (lambda p: p.prints(""), "printed something that is not JSON"),
            (lambda p: p.prints('{"status": 7}'), "printed something that is no ExecCredential"),
            (lambda p: p.prints('{"kind": "Pod"}'), f"printed Pod of no version; ExecCredential of {V1} is wanted"),
            (lambda p: p.prints(credential(API_VERSIONS[1], token="s3cret")), f"ExecCredential of {V1} is wanted"),
            (lambda p: p.prints(credential()), "printed neither a token nor a client certificate"),
            (lambda p: p.prints(credential(clientKeyData="s3cret")), "a client certificate without its key"),
            (lambda p: p.prints(credential(token="s3cret", expirationTimestamp="soon")), "is not a time"),
            (
                lambda p: p.prints(credential(token="s3cret", expirationTimestamp="2020-01-01T00:00:00Z")),
                "expired at 2020-01-01",
            ),
            (lambda p: p.does("head -c 3000000 /dev/zero"), "printed more than 1048576 bytes"),
            (lambda p: ExecPlugin("/nowhere/plugin", origin="config: users[0].user.exec"), "cannot be started"),
        ],
    )
    async def test_the_message_says_how_and_shows_no_secret(
        self, program: Program, prepare: Callable[[Program], ExecPlugin], message: str
    ) -> None:
        with pytest.raises(CredentialError, match=message) as failed:
            await PluginCredentials(prepare(program)).current()
        assert str(failed.value).startswith("config: users[0].user.exec: the credential plugin '/")
        assert "s3cret" not in str(failed.value)

    async def test_a_program_that_is_not_there_is_told_how_to_get(self) -> None:
        plugin = ExecPlugin("/nowhere/plugin", install_hint="see https://example.com")
        with pytest.raises(CredentialError, match=r"cannot be started: .*; see https://example\.com"):
            await PluginCredentials(plugin).current()

    async def test_a_program_that_hangs_is_stopped_with_all_it_started(self, program: Program, tmp_path: Path) -> None:
        plugin = program.does(f"sleep 300 & echo $! > {tmp_path}/child; wait")
        hanging = ExecPlugin(plugin.command, timeout=0.5)
        with pytest.raises(CredentialError, match=r"did not end within 0\.5 s and was stopped"):
            await PluginCredentials(hanging).current()
        assert not is_running(int((tmp_path / "child").read_text()))

    async def test_closing_stops_it(self, program: Program, tmp_path: Path) -> None:
        plugin = program.does(f"echo $$ > {tmp_path}/own; sleep 300")
        async with connected(Access("http://127.0.0.1:1", plugin=plugin)) as transport:
            asking = asyncio.create_task(transport.send(Request("GET", "/")))
            await written(tmp_path, "own")
        assert not is_running(int((tmp_path / "own").read_text()))
        with pytest.raises(CredentialError, match="was stopped"):
            await asking

    async def test_closing_stops_it_while_it_starts(
        self, program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        start = asyncio.create_subprocess_exec
        started: list[asyncio.subprocess.Process] = []
        is_up, go_on = asyncio.Event(), asyncio.Event()

        async def slowly(*args: Any, **options: Any) -> asyncio.subprocess.Process:
            started.append(await start(*args, **options))
            is_up.set()
            await go_on.wait()
            return started[0]

        monkeypatch.setattr(asyncio, "create_subprocess_exec", slowly)
        credentials = PluginCredentials(program.does("sleep 300"))
        asking = asyncio.create_task(credentials.current())
        await is_up.wait()
        closing = asyncio.create_task(credentials.close())
        await asyncio.sleep(0)
        go_on.set()
        await closing
        with pytest.raises(CredentialError, match="was stopped"):
            await asking
        assert not is_running(started[0].pid)

    async def test_it_is_not_started_by_every_request(self, program: Program, clocks: Clocks) -> None:
        credentials = clocks.credentials(program.does("exit 1"))
        for _ in range(3):
            with pytest.raises(CredentialError, match="failed with code 1"):
                await credentials.current()
        assert program.runs == 1
        clocks.seconds = 5
        program.prints(credential(token="t"))
        assert (await credentials.current()).token == "t"


class TestOverHttp:
    async def test_its_token_is_sent_and_renewed_when_refused(
        self, program: Program, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async def guarded(request: web.BaseRequest) -> web.StreamResponse:
            return web.Response(status=200 if request.headers.get("authorization") == "Bearer new" else 401)

        async with serving(guarded) as url:
            access = Access(url, plugin=program.prints(credential(token="old")))
            async with connected(access) as transport:
                monkeypatch.setattr("kuberay.kube.exec_plugin._SHORTEST_INTERVAL", 0.0)
                assert (await transport.send(Request("GET", "/"))).status == 401
                program.prints(credential(token="new"))
                assert (await transport.send(Request("GET", "/"))).status == 200
                async with transport.stream(Request("GET", "/")) as stream:
                    assert stream.status == 200

    async def test_a_stream_for_which_it_cannot_be_renewed_keeps_no_connection(
        self, program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        class Refusing(RawServer):
            is_left = asyncio.Event()

            async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                await reader.readuntil(b"\r\n\r\n")
                writer.write(b"HTTP/1.1 401 Unauthorized\r\ncontent-length: 2\r\n\r\n")
                await reader.read()  # until the other end hangs up
                self.is_left.set()

        monkeypatch.setattr("kuberay.kube.exec_plugin._SHORTEST_INTERVAL", 0.0)
        plugin = program.does(f"mkdir {tmp_path}/once && echo '{credential(token='t')}'")
        server = Refusing()
        async with server.serving() as where, connected(Access(f"http://{where}", plugin=plugin)) as transport:
            with pytest.raises(CredentialError, match="failed with code 1"):
                async with transport.stream(Request("GET", "/")):
                    pass
            async with asyncio.timeout(20):
                await server.is_left.wait()

    async def test_its_certificate_is_shown(self, program: Program, tmp_path: Path) -> None:
        authority = Authority(tmp_path)
        client = authority.sign("client")
        printed = credential(clientCertificateData=client.certificate.read_text(), clientKeyData=client.key.read_text())
        async with serving(echo, server_side(authority.sign("server"), authority)) as url:
            trusted = Material("test", file=authority.file)
            async with connected(Access(url, authority=trusted, plugin=program.prints(printed))) as transport:
                assert (await transport.send(Request("GET", "/"))).status == 200

    async def test_a_certificate_that_has_expired_is_not_shown(self, program: Program, tmp_path: Path) -> None:
        old = Authority(tmp_path).sign("client", expired=True)
        pem = {"clientCertificateData": old.certificate.read_text(), "clientKeyData": old.key.read_text()}
        with pytest.raises(CredentialError, match=r"printed a credential that expired at \d{4}"):
            await PluginCredentials(program.prints(credential(**pem))).current()

    async def test_a_certificate_that_is_none_is_told(self, program: Program) -> None:
        plugin = program.prints(credential(clientCertificateData="s3cret", clientKeyData="s3cret"))
        async with connected(Access("https://127.0.0.1:1", insecure=True, plugin=plugin)) as transport:
            with pytest.raises(CredentialError, match="that the credential plugin printed cannot be used") as failed:
                await transport.send(Request("GET", "/"))
            assert "s3cret" not in str(failed.value)

    async def test_without_credentials_nothing_is_sent(self, program: Program) -> None:
        async with connected(Access("http://127.0.0.1:1", plugin=program.does("exit 1"))) as transport:
            with pytest.raises(TransportError, match="failed with code 1"):
                await transport.send(Request("GET", "/"))


async def written(folder: Path, name: str) -> None:
    """Wait until a program has written a line into a file."""
    async with asyncio.timeout(20):
        while not (folder / name).exists() or not (folder / name).read_text().endswith("\n"):  # noqa: ASYNC110
            await asyncio.sleep(0.01)


def is_running(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().split()[2] != "Z"
    except FileNotFoundError:
        return False
