"""Why a connection failed for its certificates, in words: which one, since when, and what mends it.

OpenSSL says "certificate verify failed" and a server that does not know somebody says "Unauthorized"; neither names the
certificate nor its date. Nothing here decides whom to trust: that was decided, and this only looks again to explain it.
"""

from __future__ import annotations

import asyncio
import ssl
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from cryptography.x509 import Certificate

    from kuberay.kube.access import Access, Material

# What OpenSSL calls it when a certificate cannot be trusted.
_NOT_YET_VALID, _EXPIRED, _OTHER_HOST, _OTHER_ADDRESS = 9, 10, 62, 64
_PATIENCE = 5.0


async def why_not_trusted(access: Access, error: ssl.SSLCertVerificationError, now: datetime) -> str:
    """What is wrong with the certificate that a server showed."""
    ends = max(_expiries_in(access.authority), default=None)
    if error.verify_code == _EXPIRED and access.authority is not None and ends is not None and ends <= now:
        where = _place(access.authority)
        return f"the certificate authority in {where} expired at {_time(ends)}; put the cluster's current one there"
    shown = await _shown(access)
    if error.verify_code == _EXPIRED:
        since = f" at {_time(shown.not_valid_after_utc)}" if shown is not None else ""
        return f"the server's certificate expired{since}; renew it on the server, or is this machine's clock wrong?"
    if error.verify_code == _NOT_YET_VALID:
        since = f" before {_time(shown.not_valid_before_utc)}" if shown is not None else ""
        return f"the server's certificate is not valid{since}; is this machine's clock wrong?"
    if error.verify_code in (_OTHER_HOST, _OTHER_ADDRESS):
        names = ", ".join(_names(shown)) or "another name"
        asked = access.server_name or urlsplit(access.server).hostname
        return (
            f"the server's certificate is not trusted: it is for {names} and not for {asked}; use such a name in the "
            f"address, or as tls-server-name ({access.origin})"
        )
    known = _place(access.authority) if access.authority is not None else "this system"
    mend = "does it hold the cluster's authority?" if access.authority is not None else "name a certificate-authority"
    return f"the server's certificate is not trusted by {known}: {error.verify_message}; {mend}"


def client_expired(certificate: Material | None, now: Callable[[], datetime]) -> str:
    """That a client certificate has expired; empty when it has not, or there is none, or it cannot be read."""
    ends = _expiries_in(certificate)
    if certificate is None or not ends or ends[0] > now():
        return ""
    return f"the client certificate in {_place(certificate)} expired at {_time(ends[0])}; renew it"


def expiry_of(content: bytes) -> datetime | None:
    """Until when the first certificate of a PEM text is valid; `None` when there is none."""
    found = _expiries(content)
    return found[0] if found else None


def _expiries(content: bytes | None) -> list[datetime]:
    from cryptography import x509  # only who has trouble, or a plugin that prints certificates, needs it

    try:
        return [each.not_valid_after_utc for each in x509.load_pem_x509_certificates(content or b"")]
    except ValueError:
        return []


def _expiries_in(material: Material | None) -> list[datetime]:
    if material is None:
        return []
    try:
        return _expiries(material.data if material.file is None else material.file.read_bytes())
    except OSError:
        return []


async def _shown(access: Access) -> Certificate | None:
    """The certificate that the server shows, trusted or not; nothing is said to it."""
    from cryptography import x509

    parts = urlsplit(access.server)
    if access.proxy is not None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        async with asyncio.timeout(_PATIENCE):
            _, writer = await asyncio.open_connection(
                parts.hostname, parts.port or 443, ssl=context, server_hostname=access.server_name or parts.hostname
            )
        content = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        writer.transport.abort()
        return x509.load_der_x509_certificate(content)
    except (OSError, TimeoutError, ValueError):
        return None


def _names(certificate: Certificate | None) -> list[str]:
    from cryptography import x509

    if certificate is None:
        return []
    try:
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (x509.ExtensionNotFound, ValueError):
        return []
    return [str(each.value) for each in found]


def _place(material: Material) -> str:
    return f"{material.origin} ({material.file})" if material.file is not None else material.origin


def _time(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
