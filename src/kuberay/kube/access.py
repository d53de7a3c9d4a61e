"""How to reach one API server and who to be there: address, TLS, and a bearer token that may change in its file.

Secrets stay out of every text: no field that holds one is shown by `repr`, and errors name files and fields only.
"""

from __future__ import annotations

import contextlib
import ssl
import tempfile
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from kuberay.kube.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from kuberay.kube.exec_plugin import ExecPlugin

_TOKEN_LIFE = 60.0


@dataclass(frozen=True, slots=True)
class Material:
    """A certificate or key, given as a file or as its content; `origin` says where it was configured."""

    origin: str
    file: Path | None = None
    data: bytes | None = field(default=None, repr=False)

    @contextlib.contextmanager
    def as_file(self) -> Iterator[str]:
        """A path to read it from; content is in a file of its own, readable by nobody else, only meanwhile."""
        if self.file is not None:
            yield str(self.file)
            return
        with tempfile.NamedTemporaryFile(prefix="kuberay-") as scratch:
            scratch.write(self.data or b"")
            scratch.flush()
            yield scratch.name


class Token:
    """A bearer token, fixed or in a file. A file is read again every minute, and at once after a refusal."""

    def __init__(
        self, value: str = "", *, file: Path | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._value = value
        self._file = file
        self._clock = clock
        self._read_at = float("-inf")

    def value(self) -> str:
        """The token to send now; the last one that could be read when the file is not there at the moment.

        :raises ConfigError: the file has never been readable.
        """
        if self._file is not None and self._clock() - self._read_at >= _TOKEN_LIFE:
            self._read()
        return self._value

    def refused(self) -> None:
        """The server did not take it: the file may hold a newer one."""
        self._read_at = float("-inf")

    def _read(self) -> None:
        assert self._file is not None
        try:
            found = self._file.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            if not self._value:
                raise ConfigError(f"cannot read the token in {self._file}: {error}") from error
            return
        if found:
            self._value = found
            self._read_at = self._clock()
        elif not self._value:
            raise ConfigError(f"the token file {self._file} is empty")

    def __repr__(self) -> str:
        return f"Token(file={self._file})" if self._file else "Token(...)"


@dataclass(frozen=True, slots=True)
class Access:
    """Everything that `kube.http` needs to speak to one server as one user."""

    server: str
    origin: str = "the caller"
    """Where this was configured, for messages."""
    namespace: str = "default"
    authority: Material | None = None
    """Who signs the server's certificate; without it, those whom this system trusts."""
    insecure: bool = False
    server_name: str | None = None
    certificate: Material | None = None
    key: Material | None = None
    token: Token | None = None
    plugin: ExecPlugin | None = None
    """A program that gives a token or a client certificate; not asked when there is a token."""
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    proxy: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if not is_address(self.server):
            shown = self.server.rpartition("@")[2]  # before it stands a password
            raise ConfigError(f"{self.origin}: server {shown!r} is not an address such as https://host:6443")
        if self.insecure and self.authority is not None:
            raise ConfigError(
                f"{self.origin}: insecure-skip-tls-verify and a certificate authority exclude each other; remove one"
            )
        if (self.certificate is None) != (self.key is None):
            lacking = "client-certificate" if self.certificate is None else "client-key"
            raise ConfigError(f"{self.origin}: a client certificate needs its key and vice versa; {lacking} is missing")

    @property
    def files(self) -> list[Path]:
        """The files that TLS is made of; when one of them changes, `tls` gives another context."""
        materials = (self.authority, self.certificate, self.key)
        return [each.file for each in materials if each is not None and each.file is not None]

    def tls(self) -> ssl.SSLContext | None:
        """The TLS side of it; `None` for plain HTTP.

        :raises ConfigError: a certificate or key cannot be used; says which.
        """
        if urlsplit(self.server).scheme == "http":
            return None
        # Not `create_default_context`: newer Pythons make it so strict that authorities of Kubernetes' own tools fail.
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        if self.authority is None:
            context.load_default_certs()
        else:
            with _explained(self.authority), self.authority.as_file() as path:
                context.load_verify_locations(cafile=path)
        if self.insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if self.certificate is not None and self.key is not None:
            with _explained(self.certificate), self.certificate.as_file() as chain, self.key.as_file() as key:
                # An empty password: a protected key is an error, not a question on the terminal.
                context.load_cert_chain(chain, key, password=lambda: "")
        return context


def is_address(server: str) -> bool:
    """Whether this is an address that an API server can have."""
    try:
        parts = urlsplit(server)
        port = parts.port
    except ValueError:
        return False
    is_complete = parts.scheme in ("http", "https") and bool(parts.hostname) and port != 0
    return is_complete and not ("@" in parts.netloc or parts.query or parts.fragment) and server.isprintable()


@contextlib.contextmanager
def _explained(material: Material) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError) as error:
        where = f" ({material.file})" if material.file else ""
        raise ConfigError(f"{material.origin}{where} cannot be used: {error}") from error
