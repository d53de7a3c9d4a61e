"""Credentials from a program that the kubeconfig names: cloud logins, hardware keys, brokers of short-lived tokens.

The program is given a description of what is wanted in an environment variable and prints an `ExecCredential`. It may
take long, hang, print megabytes or rubbish; none of that holds up the event loop or gets into a message: what it
prints may be a secret, so only the end of what it says on its error output is shown.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import msgspec
import orjson

from kuberay.kube.certificates import expiry_of
from kuberay.kube.errors import CredentialError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

API_VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")

_LARGEST_OUTPUT = 2**20
_SHOWN = 500
_SHORTEST_INTERVAL = 5.0
"""Seconds between two runs that a failure or a refusal asks for."""


@dataclass(frozen=True, slots=True)
class ExecPlugin:
    """How the program is called."""

    command: str
    args: tuple[str, ...] = field(default=(), repr=False)
    env: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    api_version: str = API_VERSIONS[0]
    cluster: Mapping[str, Any] | None = None
    """What to tell it about the cluster (`provideClusterInfo`)."""
    origin: str = "the caller"
    install_hint: str = ""
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ, repr=False)
    timeout: float = 60.0
    """Seconds after which it counts as hanging."""


@dataclass(frozen=True, slots=True)
class Credential:
    """Who to be in a request: a token, a client certificate with its key, both, or nobody in particular."""

    token: str = field(default="", repr=False)
    certificate: bytes | None = None
    key: bytes | None = field(default=None, repr=False)
    expires: datetime | None = None


class _Status(msgspec.Struct, rename="camel"):
    token: str = ""
    client_certificate_data: str = ""
    client_key_data: str = ""
    expiration_timestamp: str | None = None


class _ExecCredential(msgspec.Struct, rename="camel"):
    kind: str = ""
    api_version: str = ""
    status: _Status | None = None


class PluginCredentials:
    """Runs a plugin when its last credential is no good any more; belongs to one event loop.

    However many ask at once, one program runs and all get its answer. It runs on when none of them waits any longer:
    what takes longer than the patience of a request would never come to its end otherwise. A failure is remembered for
    a few seconds, so that a broken plugin is not started by every request.
    """

    def __init__(
        self,
        plugin: ExecPlugin,
        *,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._plugin = plugin
        self._now = now
        self._clock = clock
        self._renewal: asyncio.Task[Credential] | None = None
        self._credential: Credential | None = None
        self._failure = ""
        self._ran_at = float("-inf")

    async def current(self) -> Credential:
        """The credential to send now.

        :raises CredentialError: the plugin failed; says how.
        """
        if self._renewal is None:
            if self._credential is not None and not self._is_expired(self._credential):
                return self._credential
            if self._failure and self._clock() - self._ran_at < _SHORTEST_INTERVAL:
                raise CredentialError(self._failure)
            self._renewal = asyncio.create_task(self._renew())
        renewal = self._renewal
        try:
            return await asyncio.shield(renewal)
        except asyncio.CancelledError:
            if renewal.cancelled():  # and not who waits for it
                raise self._failed("was stopped, for it is not needed any more") from None
            raise

    async def close(self) -> None:
        """Stop the program, if it runs."""
        if self._renewal is not None:
            self._renewal.cancel()
            await asyncio.wait([self._renewal])

    async def _renew(self) -> Credential:
        try:
            self._credential = await self._run()
            self._failure = ""
        except CredentialError as error:
            self._credential = None
            self._failure = str(error)
            raise
        finally:
            self._ran_at = self._clock()
            self._renewal = None
        return self._credential

    def refused(self, credential: Credential) -> None:
        """The server did not take it: ask the plugin anew, unless that was done a moment ago."""
        if credential is self._credential and self._clock() - self._ran_at >= _SHORTEST_INTERVAL:
            self._credential = None

    def _is_expired(self, credential: Credential) -> bool:
        return credential.expires is not None and self._now() >= credential.expires

    async def _run(self) -> Credential:
        plugin = self._plugin
        spec: dict[str, Any] = {"interactive": False}
        if plugin.cluster is not None:
            spec["cluster"] = plugin.cluster
        wanted = {"kind": "ExecCredential", "apiVersion": plugin.api_version, "spec": spec}
        environment = {**plugin.environ, **dict(plugin.env), "KUBERNETES_EXEC_INFO": orjson.dumps(wanted).decode()}
        try:
            process = await _started(plugin, environment)
        except (OSError, ValueError) as error:
            hint = f"; {plugin.install_hint}" if plugin.install_hint else ""
            raise self._failed(f"cannot be started: {error}{hint}") from error
        try:
            async with asyncio.timeout(plugin.timeout):
                output, said = await asyncio.gather(_read_all(process.stdout), _read_end(process.stderr))
                code = await process.wait()
        except TimeoutError:
            raise self._failed(f"did not end within {plugin.timeout:g} s and was stopped") from None
        finally:
            await _stop(process)
        if code != 0:
            raise self._failed(f"failed with code {code}" + (f": {said}" if said else " and said nothing"))
        if output is None:
            raise self._failed(f"printed more than {_LARGEST_OUTPUT} bytes, which is no credential")
        return self._read(output)

    def _read(self, output: bytes) -> Credential:
        try:
            found = msgspec.json.decode(output, type=_ExecCredential)
        except msgspec.ValidationError as error:
            raise self._failed(f"printed something that is no ExecCredential: {error}") from None
        except ValueError:
            raise self._failed("printed something that is not JSON; an ExecCredential is wanted") from None
        if found.kind != "ExecCredential" or found.api_version != self._plugin.api_version:
            raise self._failed(
                f"printed {found.kind or 'no kind'} of {found.api_version or 'no version'}; "
                f"ExecCredential of {self._plugin.api_version} is wanted"
            )
        status = found.status or _Status()
        if bool(status.client_certificate_data) != bool(status.client_key_data):
            raise self._failed("printed a client certificate without its key, or the other way round")
        if not status.token and not status.client_certificate_data:
            raise self._failed("printed neither a token nor a client certificate")
        expires = None
        if status.expiration_timestamp:
            try:
                expires = datetime.fromisoformat(status.expiration_timestamp)
            except ValueError:
                raise self._failed("printed an expirationTimestamp that is not a time") from None
            expires = expires if expires.tzinfo is not None else expires.replace(tzinfo=UTC)
        certificate = status.client_certificate_data.encode() or None
        ends = expiry_of(certificate) if certificate is not None else None
        expires = min((each for each in (expires, ends) if each is not None), default=None)
        if expires is not None and self._now() >= expires:
            raise self._failed(f"printed a credential that expired at {expires.isoformat()}")
        return Credential(status.token, certificate, status.client_key_data.encode() or None, expires)

    def _failed(self, how: str) -> CredentialError:
        return CredentialError(f"{self._plugin.origin}: the credential plugin {self._plugin.command!r} {how}")


async def _started(plugin: ExecPlugin, environment: Mapping[str, str]) -> asyncio.subprocess.Process:
    starting = asyncio.create_task(
        asyncio.create_subprocess_exec(
            plugin.command,
            *plugin.args,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=environment,
            start_new_session=True,  # so that what it starts itself can be stopped with it
        )
    )
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:
        # It may be running already, and have started others: asyncio would stop it alone, and wait for them.
        with contextlib.suppress(OSError, ValueError):
            await _stop(await starting)
        raise


async def _read_all(stream: asyncio.StreamReader | None) -> bytes | None:
    """Everything, or `None` when it is more than a credential can be; read to its end in any case."""
    assert stream is not None
    parts: list[bytes] = []
    size = 0
    while chunk := await stream.read(2**16):
        size += len(chunk)
        if size <= _LARGEST_OUTPUT:
            parts.append(chunk)
    return b"".join(parts) if size <= _LARGEST_OUTPUT else None


async def _read_end(stream: asyncio.StreamReader | None) -> str:
    """The last words of an output of any length."""
    assert stream is not None
    end = b""
    while chunk := await stream.read(2**16):
        end = (end + chunk)[-_SHOWN:]
    return end.decode("utf-8", "replace").strip()


async def _stop(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
