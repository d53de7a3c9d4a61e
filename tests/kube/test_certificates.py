"""Certificates that are no good, over real TLS: the message names the one, since when, and what mends it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from aiohttp import web
from cryptography import x509

from kuberay.kube.access import Access, Material
from kuberay.kube.certificates import expiry_of
from kuberay.kube.errors import CredentialError, TransportError
from kuberay.kube.transport import Request
from tests.kube.certificates import Authority, Signed
from tests.kube.test_http import connected, echo, server_side, serving

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


def trusting(url: str, authority: Authority, client: Signed | None = None) -> Access:
    return Access(
        url,
        origin="config: clusters[0].cluster",
        authority=Material("clusters[0].cluster.certificate-authority", file=authority.file),
        certificate=Material("users[0].user.client-certificate", file=client.certificate) if client else None,
        key=Material("users[0].user.client-key", file=client.key) if client else None,
    )


async def told(access: Access) -> str:
    """What one is told whose connection fails."""
    async with connected(access) as transport:
        with pytest.raises(TransportError) as failed:
            await transport.send(Request("GET", "/api"))
        with pytest.raises(TransportError) as again:
            async with transport.stream(Request("GET", "/api")):
                pass
    assert str(failed.value) == str(again.value)
    assert str(failed.value).startswith(f"GET {access.server}/api: ")
    return str(failed.value)


def day(file: Path, *, start: bool = False) -> str:
    """The date on which a certificate begins or ends, as it is shown."""
    found = x509.load_pem_x509_certificate(file.read_bytes())
    moment = found.not_valid_before_utc if start else found.not_valid_after_utc
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


class TestOfAServer:
    async def test_that_has_expired(self, authority: Authority) -> None:
        signed = authority.sign("server", expired=True)
        async with serving(echo, server_side(signed)) as url:
            text = await told(trusting(url, authority))
        assert f"the server's certificate expired at {day(signed.certificate)}; renew it on the server" in text

    async def test_that_is_not_valid_yet(self, authority: Authority) -> None:
        signed = authority.sign("server", early=True)
        async with serving(echo, server_side(signed)) as url:
            text = await told(trusting(url, authority))
        assert f"not valid before {day(signed.certificate, start=True)}; is this machine's clock wrong?" in text

    async def test_that_is_for_another_name(self, authority: Authority) -> None:
        async with serving(echo, server_side(authority.sign("api.only"))) as url:
            text = await told(trusting(url, authority))
        assert "it is for api.only and not for 127.0.0.1; use such a name in the address" in text
        assert "or as tls-server-name (config: clusters[0].cluster)" in text

    async def test_that_somebody_else_signed(self, authority: Authority, tmp_path: Path) -> None:
        stranger = Authority(tmp_path, "stranger")
        async with serving(echo, server_side(authority.sign("server"))) as url:
            text = await told(trusting(url, stranger))
            alone = await told(Access(url))
        assert f"not trusted by clusters[0].cluster.certificate-authority ({stranger.file})" in text
        assert "not trusted by this system" in alone
        assert "name a certificate-authority" in alone

    async def test_whose_authority_has_expired(self, tmp_path: Path) -> None:
        old = Authority(tmp_path, "old", expired=True)
        async with serving(echo, server_side(old.sign("server"))) as url:
            text = await told(trusting(url, old))
        assert f"the certificate authority in clusters[0].cluster.certificate-authority ({old.file}) expired" in text
        assert f"at {day(old.file)}; put the cluster's current one there" in text


class TestOfAClient:
    async def test_that_has_expired_where_the_server_hangs_up(self, authority: Authority) -> None:
        client = authority.sign("client", expired=True)
        async with (
            serving(echo, server_side(authority.sign("server"), authority)) as url,
            connected(trusting(url, authority, client)) as transport,
        ):
            with pytest.raises(TransportError, match="expired at") as failed:
                await transport.send(Request("GET", "/api"))
        assert (
            f"the client certificate in users[0].user.client-certificate ({client.certificate}) expired at "
            f"{day(client.certificate)}; renew it"
        ) in str(failed.value)

    async def test_that_has_expired_where_the_server_knows_nobody(self, authority: Authority) -> None:
        """As kube-apiserver does: it takes any certificate, and then says who it does not know."""

        async def knows(request: web.BaseRequest) -> web.StreamResponse:
            return web.json_response({"kind": "Status", "code": 401, "reason": "Unauthorized"}, status=status)

        status = 401
        client = authority.sign("client", expired=True)
        async with (
            serving(knows, server_side(authority.sign("server"))) as url,
            connected(trusting(url, authority, client)) as transport,
        ):
            with pytest.raises(CredentialError, match=r"refused, for the client certificate in .*client.crt\) expired"):
                await transport.send(Request("GET", "/api"))
            with pytest.raises(CredentialError, match="refused, for the client certificate in"):
                async with transport.stream(Request("GET", "/api")):
                    pass
            authority.sign("client")  # in the same files, as whoever renews it does
            assert (await transport.send(Request("GET", "/api"))).status == 401
            status = 200
            assert (await transport.send(Request("GET", "/api"))).status == 200

    def test_that_is_none(self) -> None:
        assert expiry_of(b"-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----") is None
