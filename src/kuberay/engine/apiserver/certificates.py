"""The engine's own certificate authority and the certificate it serves with, kept in a folder.

Made once and used until they near their end; keys are readable by their owner only. A new authority makes every
kubeconfig written before useless, so it is renewed only when it has run out.
"""

from __future__ import annotations

import os
import ssl
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

NAMES = (
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
)
ADDRESSES = ("127.0.0.1", "::1", "10.96.0.1")
_AUTHORITY_LIFE = timedelta(days=3650)
_SERVING_LIFE = timedelta(days=365)
_RENEW_BEFORE = timedelta(days=30)
_STARTED_BEFORE = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Certificates:
    """Where the files are. `authority` is what clients have to trust."""

    authority: Path
    serving: Path
    serving_key: Path

    def server_context(self) -> ssl.SSLContext:
        """TLS as the server speaks it."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.load_cert_chain(self.serving, self.serving_key)
        return context


def ensure(folder: Path, *, addresses: Iterable[str] = (), now: datetime | None = None) -> Certificates:
    """The certificates of a folder, made or renewed where needed.

    :param addresses: further IP addresses under which the server is reached, such as the one Pods use.
    """
    now = now or datetime.now(UTC)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = Certificates(folder / "ca.crt", folder / "apiserver.crt", folder / "apiserver.key")
    authority_key_file = folder / "ca.key"
    authority = _load(found.authority, now)
    if authority is None or not authority_key_file.exists():
        key = ec.generate_private_key(ec.SECP256R1())
        authority = _authority(key, now)
        write_private(authority_key_file, _key_bytes(key))
        write_private(found.authority, authority.public_bytes(serialization.Encoding.PEM))
        found.serving.unlink(missing_ok=True)
    wanted = _alternative_names([*ADDRESSES, *addresses])
    serving = _load(found.serving, now + _RENEW_BEFORE)
    if serving is None or not found.serving_key.exists() or not _covers(serving, wanted):
        signer = serialization.load_pem_private_key(authority_key_file.read_bytes(), password=None)
        assert isinstance(signer, ec.EllipticCurvePrivateKey)
        key = ec.generate_private_key(ec.SECP256R1())
        serving = _serving(key, authority, signer, wanted, now)
        write_private(found.serving_key, _key_bytes(key))
        write_private(found.serving, serving.public_bytes(serialization.Encoding.PEM))
    return found


def _load(path: Path, moment: datetime) -> x509.Certificate | None:
    """The certificate of a file, if it is still good at that moment."""
    try:
        certificate = x509.load_pem_x509_certificate(path.read_bytes())
    except (FileNotFoundError, ValueError):
        return None
    return certificate if certificate.not_valid_after_utc > moment else None


def _alternative_names(addresses: list[str]) -> list[x509.GeneralName]:
    unique = dict.fromkeys(addresses)
    return [x509.DNSName(name) for name in NAMES] + [x509.IPAddress(ip_address(address)) for address in unique]


def _covers(certificate: x509.Certificate, wanted: list[x509.GeneralName]) -> bool:
    present = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return set(wanted) <= set(present)


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, now: datetime, life: timedelta
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _STARTED_BEFORE)
        .not_valid_after(now + life)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _authority(key: ec.EllipticCurvePrivateKey, now: datetime) -> x509.Certificate:
    name = _name("kuberay local authority")
    return (
        _builder(name, name, key.public_key(), now, _AUTHORITY_LIFE)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .sign(key, hashes.SHA256())
    )


def _serving(
    key: ec.EllipticCurvePrivateKey,
    authority: x509.Certificate,
    signer: ec.EllipticCurvePrivateKey,
    names: list[x509.GeneralName],
    now: datetime,
) -> x509.Certificate:
    return (
        _builder(_name("kube-apiserver"), authority.subject, key.public_key(), now, _SERVING_LIFE)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .sign(signer, hashes.SHA256())
    )


def _key_bytes(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def write_private(path: Path, content: bytes) -> None:
    """Replace a file in one step; only its owner may read it, at every moment."""
    temporary = path.with_name(f".{path.name}.new")
    temporary.unlink(missing_ok=True)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
