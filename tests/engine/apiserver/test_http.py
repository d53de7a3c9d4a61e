"""The server on a socket: TLS, tokens, streams, an orderly end."""

from __future__ import annotations

import asyncio
import contextlib
import io
import socket
import ssl
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import aiohttp
import orjson
import pytest
import yaml
from cryptography import x509

from kuberay.engine.apiserver import ADMIN, certificates
from kuberay.engine.apiserver.credentials import (
    ServiceAccounts,
    Tokens,
    ensure_token,
    kubeconfig,
    new_token,
    write_kubeconfig,
)
from kuberay.engine.apiserver.http import HttpFront
from kuberay.kube.errors import BadRequest
from tests.engine.apiserver.api import CONFIG_MAPS, PODS, Api, config_map, pod

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from pathlib import Path

    from kuberay.engine.streams import LogOptions

TOKEN = new_token()
JSON = {"Content-Type": "application/json"}


@dataclass
class Served:
    api: Api
    front: HttpFront
    session: aiohttp.ClientSession
    url: str

    async def get(self, path: str, **more: Any) -> tuple[int, bytes]:
        async with self.session.get(self.url + path, **more) as response:
            return response.status, await response.read()


@contextlib.asynccontextmanager
async def serving(folder: Path, streams: Any = None) -> AsyncIterator[Served]:
    api = Api(streams=streams)
    made = certificates.ensure(folder)
    tokens = Tokens()
    tokens.add(TOKEN, ADMIN)
    front = HttpFront(api.server, tokens, made.server_context())
    listening = socket.create_server(("127.0.0.1", 0))
    await front.serve(listening)
    trusting = aiohttp.TCPConnector(ssl=ssl.create_default_context(cafile=made.authority))
    url = f"https://127.0.0.1:{listening.getsockname()[1]}"
    try:
        async with aiohttp.ClientSession(connector=trusting, headers={"Authorization": f"Bearer {TOKEN}"}) as session:
            yield Served(api, front, session, url)
    finally:
        await front.stop()


class TestAccess:
    async def test_needs_a_token(self, tmp_path: Path) -> None:
        async with serving(tmp_path) as served:
            for header in ("", "Bearer", "Bearer wrong", f"Basic {TOKEN}"):
                status, body = await served.get(PODS, headers={"Authorization": header})
                assert (status, orjson.loads(body)["reason"]) == (401, "Unauthorized")
            assert (await served.get(PODS))[0] == 200

    async def test_to_health_and_version_is_open(self, tmp_path: Path) -> None:
        async with serving(tmp_path) as served:
            for path in ("/healthz", "/livez", "/readyz", "/version", "/version/"):
                assert (await served.get(path, headers={"Authorization": ""}))[0] == 200

    def test_a_token_can_be_taken_back(self) -> None:
        tokens = Tokens()
        tokens.add("abc", ADMIN)
        assert tokens.user_of("Bearer abc") == ADMIN
        tokens.remove("abc")
        assert tokens.user_of("Bearer abc") is None


class TestRequests:
    async def test_reach_the_server_with_body_and_query(self, tmp_path: Path) -> None:
        async with serving(tmp_path) as served:
            url = served.url + CONFIG_MAPS
            async with served.session.post(url, json=config_map("a", labels={"x": "y"})) as response:
                assert response.status == 201
            _, body = await served.get(CONFIG_MAPS, params={"labelSelector": "x in (y)"})
            assert [item["metadata"]["name"] for item in orjson.loads(body)["items"]] == ["a"]

    async def test_with_large_bodies_are_read(self, tmp_path: Path) -> None:
        async with serving(tmp_path) as served:
            body = io.BytesIO(orjson.dumps(config_map("a", {"x": "y" * 2_000_000})))
            async with served.session.post(served.url + CONFIG_MAPS, data=body, headers=JSON) as response:
                assert response.status == 201

    async def test_with_bodies_that_are_too_large_get_a_status(self, tmp_path: Path) -> None:
        async with serving(tmp_path) as served:
            body = io.BytesIO(orjson.dumps(config_map("a", {"x": "y" * 4_000_000})))
            async with served.session.post(served.url + CONFIG_MAPS, data=body, headers=JSON) as response:
                assert (response.status, (await response.json())["kind"]) == (413, "Status")

    async def test_that_ask_before_they_send_are_told_to_go_on(self, tmp_path: Path) -> None:
        async with serving(tmp_path) as served:
            url = served.url + CONFIG_MAPS
            async with served.session.post(url, json=config_map("a"), expect100=True) as response:
                assert response.status == 201


class TestStreams:
    async def test_a_watch_arrives_as_it_happens(self, tmp_path: Path) -> None:
        async with serving(tmp_path) as served, served.session.get(f"{served.url}{PODS}?watch=1") as response:
            await served.api.create(PODS, pod("a"))
            event = orjson.loads(await response.content.readline())
            assert (event["type"], event["object"]["metadata"]["name"]) == ("ADDED", "a")

    async def test_a_client_that_leaves_is_forgotten(self, tmp_path: Path) -> None:
        async with serving(tmp_path) as served:
            async with served.session.get(f"{served.url}{PODS}?watch=1") as response:
                await _until(lambda: served.api.storage.watchers("pods") == 1)
                response.close()
            await _until(lambda: served.api.storage.watchers("pods") == 0)

    async def test_stopping_ends_watches_in_order(self, tmp_path: Path) -> None:
        async with serving(tmp_path) as served, served.session.get(f"{served.url}{PODS}?watch=1") as response:
            await _until(lambda: served.api.storage.watchers("pods") == 1)
            stopping = asyncio.create_task(served.front.stop())
            assert await response.read() == b""
            await stopping

    async def test_logs_are_text(self, tmp_path: Path) -> None:
        async with serving(tmp_path, Notes()) as served:
            await served.api.create(PODS, {**pod("a"), "spec": {**pod("a")["spec"], "nodeName": "n"}})
            status, body = await served.get(f"{PODS}/a/log", params={"tailLines": "2", "follow": "true"})
            assert (status, body) == (200, b"main follow=True tail=2\n")

    async def test_what_the_node_refuses_is_a_status(self, tmp_path: Path) -> None:
        async with serving(tmp_path, Notes()) as served:
            await served.api.create(PODS, {**pod("a"), "spec": {**pod("a")["spec"], "nodeName": "n"}})
            status, body = await served.get(f"{PODS}/a/log", params={"previous": "true"})
            assert (status, orjson.loads(body)["message"]) == (400, "previous terminated container not found")

    async def test_logs_without_a_node_are_refused(self, tmp_path: Path) -> None:
        async with serving(tmp_path) as served:
            await served.api.create(PODS, pod("a"))
            status, body = await served.get(f"{PODS}/a/log")
            assert (status, orjson.loads(body)["message"]) == (400, "pod a does not have a host assigned")


class Notes:
    """A node whose logs tell what was asked for."""

    async def logs(self, pod: Mapping[str, Any], container: str, options: LogOptions) -> AsyncIterator[bytes]:
        if options.previous:
            raise BadRequest("previous terminated container not found")
        yield f"{container} follow={options.follow} tail={options.tail_lines}\n".encode()


async def _until(claim: Any) -> None:
    async with asyncio.timeout(10):
        while True:
            if claim():
                return
            await asyncio.sleep(0.005)


class TestCertificates:
    def names(self, folder: Path) -> set[str]:
        loaded = x509.load_pem_x509_certificate((folder / "apiserver.crt").read_bytes())
        found = loaded.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        return {*found.get_values_for_type(x509.DNSName), *map(str, found.get_values_for_type(x509.IPAddress))}

    def test_cover_every_way_to_the_server(self, tmp_path: Path) -> None:
        certificates.ensure(tmp_path, addresses=["10.244.0.1"])
        assert self.names(tmp_path) >= {
            *("127.0.0.1", "10.96.0.1", "10.244.0.1", "localhost", "kubernetes", "kubernetes.default"),
            *("kubernetes.default.svc", "kubernetes.default.svc.cluster.local"),
        }

    def test_are_kept_and_their_keys_are_private(self, tmp_path: Path) -> None:
        certificates.ensure(tmp_path)
        before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
        certificates.ensure(tmp_path)
        assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before
        assert {file.stat().st_mode & 0o777 for file in tmp_path.glob("*.key")} == {0o600}

    def test_are_renewed_before_they_end_under_the_same_authority(self, tmp_path: Path) -> None:
        made = certificates.ensure(tmp_path)
        authority, serving = made.authority.read_bytes(), made.serving.read_bytes()
        certificates.ensure(tmp_path, now=datetime.now(UTC) + timedelta(days=340))
        assert made.authority.read_bytes() == authority
        assert made.serving.read_bytes() != serving

    def test_are_renewed_for_a_new_address(self, tmp_path: Path) -> None:
        certificates.ensure(tmp_path)
        certificates.ensure(tmp_path, addresses=["10.1.2.3"])
        assert "10.1.2.3" in self.names(tmp_path)

    def test_an_authority_that_has_run_out_is_made_anew_with_all_it_signed(self, tmp_path: Path) -> None:
        made = certificates.ensure(tmp_path, now=datetime.now(UTC) - timedelta(days=4000))
        authority, serving = made.authority.read_bytes(), made.serving.read_bytes()
        certificates.ensure(tmp_path)
        assert made.authority.read_bytes() != authority
        assert made.serving.read_bytes() != serving

    @pytest.mark.parametrize("name", ["ca.crt", "apiserver.crt"])
    def test_a_damaged_file_is_made_anew(self, tmp_path: Path, name: str) -> None:
        certificates.ensure(tmp_path)
        (tmp_path / name).write_text("damaged")
        certificates.ensure(tmp_path).server_context()


class TestKubeconfig:
    def test_holds_the_way_in_and_is_private(self, tmp_path: Path) -> None:
        config = kubeconfig(server="https://127.0.0.1:6443", authority=b"PEM", token="secret")
        write_kubeconfig(tmp_path / "kubeconfig", config)
        assert yaml.safe_load((tmp_path / "kubeconfig").read_text()) == config
        assert (tmp_path / "kubeconfig").stat().st_mode & 0o777 == 0o600
        assert config["current-context"] == config["contexts"][0]["name"]

    def test_a_token_is_made_once(self, tmp_path: Path) -> None:
        token = ensure_token(tmp_path / "token")
        assert len(token) >= 32
        assert ensure_token(tmp_path / "token") == token
        assert (tmp_path / "token").stat().st_mode & 0o777 == 0o600


class TestServiceAccounts:
    def test_each_has_a_token_of_its_own_that_names_it(self) -> None:
        tokens = Tokens()
        accounts = ServiceAccounts(tokens, authority=b"PEM")
        files = accounts.files("ml", "robot")
        user = tokens.user_of(f"Bearer {files['token'].decode()}")
        assert user is not None
        assert user.name == "system:serviceaccount:ml:robot"
        assert (files["ca.crt"], files["namespace"]) == (b"PEM", b"ml")
        assert accounts.files("ml", "robot") == files
        assert accounts.files("other", "robot")["token"] != files["token"]
