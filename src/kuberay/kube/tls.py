"""The TLS side of a connection, kept in step with the files it is made of.

Certificates are renewed by others, in place: authorities and client certificates are read again when their files
change, and a process need not be restarted for it. Connections that are open stay open.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

import structlog

from kuberay.kube.access import Access, Material
from kuberay.kube.errors import ConfigError, CredentialError

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

    from kuberay.kube.exec_plugin import Credential

log = structlog.get_logger(__name__)

_LOOK_AGAIN = 60.0


class TlsContexts:
    """Gives the context for the next connection.

    Files are looked at once a minute, and at once after `suspect`.

    :raises ConfigError: the files cannot be used now. Later, the last ones that could be stay in use.
    """

    def __init__(self, access: Access, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._access = access
        self._clock = clock
        self._stamp = self._stamped()
        self._context = access.tls()
        self._looked_at = clock()
        self._by_credential: tuple[Credential, ssl.SSLContext | None] | None = None

    def context(self, credential: Credential) -> ssl.SSLContext | None:
        """The context for who shows this credential; `None` for plain HTTP.

        :raises CredentialError: its certificate cannot be used.
        """
        if self._clock() - self._looked_at >= _LOOK_AGAIN:
            self._look()
        if credential.certificate is None:
            return self._context
        if self._by_credential is None or self._by_credential[0] is not credential:
            origin = "the certificate that the credential plugin printed"
            shown = replace(
                self._access,
                certificate=Material(origin, data=credential.certificate),
                key=Material(origin, data=credential.key),
            )
            try:
                self._by_credential = (credential, shown.tls())
            except ConfigError as error:
                raise CredentialError(str(error)) from error
        return self._by_credential[1]

    def suspect(self) -> None:
        """A connection failed for its certificates: there may be new ones."""
        self._looked_at = float("-inf")

    def _look(self) -> None:
        self._looked_at = self._clock()
        stamp = self._stamped()
        if stamp == self._stamp:
            return
        try:
            self._context = self._access.tls()
        except ConfigError as error:
            log.warning("new certificates cannot be used; going on with the old ones", error=str(error))
            return
        self._stamp = stamp
        self._by_credential = None
        log.info("certificates were read again", files=[str(each) for each in self._access.files])

    def _stamped(self) -> tuple[tuple[int, int, int], ...]:
        stamps = []
        for file in self._access.files:
            try:
                found = file.stat()
            except OSError:
                stamps.append((0, 0, 0))  # `tls` says what is wrong with it
            else:
                stamps.append((found.st_ino, found.st_mtime_ns, found.st_size))
        return tuple(stamps)
