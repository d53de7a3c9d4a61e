"""An authority and the certificates it signs, made on the spot."""

from __future__ import annotations

import datetime
import ipaddress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True)
class Signed:
    """A certificate and its key, as PEM files."""

    certificate: Path
    key: Path


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


class Authority:
    """Signs certificates for 127.0.0.1 and for names. Like Kubernetes' own tools, it leaves out key identifiers."""

    def __init__(self, folder: Path, name: str = "authority", *, expired: bool = False) -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name(name)
        self.file = folder / f"{name}.crt"
        builder = self._builder(self._name, self._key, expired=expired)
        builder = builder.add_extension(x509.BasicConstraints(True, None), critical=True)
        self.file.write_bytes(builder.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))

    def sign(self, name: str, *, expired: bool = False, early: bool = False) -> Signed:
        key = ec.generate_private_key(ec.SECP256R1())
        names = [x509.DNSName(name), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
        builder = self._builder(_name(name), key, expired=expired, early=early).add_extension(
            x509.SubjectAlternativeName(names[:1] if name.endswith(".only") else names), critical=False
        )
        signed = Signed(self._folder / f"{name}.crt", self._folder / f"{name}.key")
        certificate = builder.sign(self._key, hashes.SHA256())
        signed.certificate.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        signed.key.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
        return signed

    def _builder(
        self, subject: x509.Name, key: ec.EllipticCurvePrivateKey, *, expired: bool = False, early: bool = False
    ) -> x509.CertificateBuilder:
        now = datetime.datetime.now(datetime.UTC)
        since = now + datetime.timedelta(hours=1) if early else now - datetime.timedelta(days=2)
        until = now - datetime.timedelta(hours=1) if expired else now + datetime.timedelta(days=1)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(since)
            .not_valid_after(until)
        )
