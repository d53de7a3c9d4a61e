from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kuberay.kube.access import Access, Material
from kuberay.kube.errors import TransportError
from kuberay.kube.transport import Request
from tests.kube.certificates import Authority
from tests.kube.raw_server import RawServer, pass_on
from tests.kube.test_http import connected, echo, server_side, serving

if TYPE_CHECKING:
    import asyncio
    from pathlib import Path


class SocksServer(RawServer):
    """A SOCKS5 proxy to this machine, whatever name it is asked for."""

    def __init__(self, *, login: tuple[bytes, bytes] | None = None, refuses: bool = False) -> None:
        super().__init__()
        self.asked: list[tuple[str, int]] = []
        self._login = login
        self._refuses = refuses

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        _, count = await reader.readexactly(2)
        offered = await reader.readexactly(count)
        method = 0 if self._login is None else 2
        writer.write(bytes([5, method if method in offered else 0xFF]))
        if self._login is not None:
            await reader.readexactly(1)
            told = [await reader.readexactly((await reader.readexactly(1))[0]) for _ in range(2)]
            writer.write(bytes([1, 0 if tuple(told) == self._login else 1]))
        *_, kind = await reader.readexactly(4)
        raw = await reader.readexactly(4 if kind == 1 else (await reader.readexactly(1))[0])
        host = ".".join(map(str, raw)) if kind == 1 else raw.decode()
        port = int.from_bytes(await reader.readexactly(2))
        self.asked.append((host, port))
        writer.write(bytes([5, 2 if self._refuses else 0, 0, 1, 0, 0, 0, 0, 0, 0]))
        if self._refuses:
            return
        await pass_on(reader, writer, port)


async def ask(access: Access) -> int:
    async with connected(access) as transport:
        return (await transport.send(Request("GET", "/"))).status


def at(url: str, host: str) -> str:
    return url.replace("127.0.0.1", host)


class TestThroughASocksProxy:
    @pytest.mark.parametrize("scheme", ["socks5", "socks5h"])
    async def test_names_are_left_to_the_proxy(self, scheme: str) -> None:
        socks = SocksServer()
        async with socks.serving() as proxy, serving(echo) as url:
            assert await ask(Access(at(url, "api.internal"), proxy=f"{scheme}://{proxy}")) == 200
        assert [host for host, _ in socks.asked] == ["api.internal"]

    async def test_tls_is_spoken_with_the_server_by_its_own_name(self, tmp_path: Path) -> None:
        authority = Authority(tmp_path)
        trusted = Material("test", file=authority.file)
        async with (
            SocksServer().serving() as proxy,
            serving(echo, server_side(authority.sign("api.internal"))) as url,
        ):
            through = f"socks5://{proxy}"
            assert await ask(Access(at(url, "api.internal"), authority=trusted, proxy=through)) == 200
            named = Access(at(url, "elsewhere"), authority=trusted, proxy=through, server_name="api.internal")
            assert await ask(named) == 200
            with pytest.raises(TransportError, match="the server's certificate is not trusted"):
                await ask(Access(at(url, "elsewhere"), authority=trusted, proxy=through))
            with pytest.raises(TransportError, match="the server's certificate is not trusted"):
                await ask(Access(at(url, "api.internal"), proxy=through))

    async def test_a_password_is_told_to_the_proxy(self) -> None:
        async with SocksServer(login=(b"me", b"a b")).serving() as proxy, serving(echo) as url:
            assert await ask(Access(url, proxy=f"socks5://me:a%20b@{proxy}")) == 200
            with pytest.raises(TransportError, match=r"the SOCKS proxy 127\.0\.0\.1:") as failed:
                await ask(Access(url, proxy=f"socks5://me:s3cret@{proxy}"))
        assert "s3cret" not in str(failed.value)

    async def test_a_proxy_that_refuses_is_named(self) -> None:
        async with SocksServer(refuses=True).serving() as proxy:
            with pytest.raises(TransportError, match=f"the SOCKS proxy {proxy} refused"):
                await ask(Access("https://api.internal:6443", proxy=f"socks5://{proxy}"))

    async def test_a_proxy_that_is_not_there_is_named(self) -> None:
        async with SocksServer().serving() as proxy:
            pass
        with pytest.raises(TransportError, match=f"proxy {proxy}"):
            await ask(Access("https://api.internal:6443", proxy=f"socks5://{proxy}"))
