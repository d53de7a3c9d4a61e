"""A server that API servers ask before they store an object: `AdmissionReview` v1 in, a verdict out.

Certificates are renewed in place by whoever issues them; their files are looked at every few seconds and taken over
for new connections. A reviewer that fails is a refusal with code 500, never a crash and never a silent yes.
"""

from __future__ import annotations

import asyncio
import base64
import ssl
import time
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec
import orjson
import structlog
from aiohttp import web

from kuberay.kube.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
    from pathlib import Path

    from kuberay.kube.metrics import Metrics

log = structlog.get_logger(__name__)

_API_VERSION = "admission.k8s.io/v1"
_LARGEST_BODY = 7 * 2**20
"""An object of 3 MB, as it is and as it was, and what is said about it."""
_LONGEST_STOP = 2.0
"""Seconds for who is being answered when it stops; who has not sent all of a question by then waits for nothing."""


class GroupVersionKind(msgspec.Struct, frozen=True):
    """What kind of object it is."""

    group: str = ""
    version: str = ""
    kind: str = ""


class UserInfo(msgspec.Struct, frozen=True):
    """Who asks."""

    username: str = ""
    uid: str = ""
    groups: list[str] = []


class AdmissionRequest(msgspec.Struct, frozen=True, rename="camel"):
    """What somebody wants to do."""

    uid: str
    kind: GroupVersionKind = GroupVersionKind()
    operation: str = ""
    """CREATE, UPDATE, DELETE or CONNECT."""
    name: str = ""
    namespace: str = ""
    sub_resource: str = ""
    user_info: UserInfo = UserInfo()
    object: dict[str, Any] | None = None
    """As it would be; absent when it is deleted."""
    old_object: dict[str, Any] | None = None
    """As it is; absent when it is created."""
    dry_run: bool | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    """What becomes of it. Without anything said, it is allowed as it is."""

    denied: str = ""
    """Why not, for people; empty when it is allowed."""
    code: int = 403
    reason: str = "Forbidden"
    warnings: Sequence[str] = ()
    patch: Sequence[Mapping[str, Any]] = ()
    """JSON patch operations that change the object before it is stored."""
    audit_annotations: Mapping[str, str] = field(default_factory=dict)


class _Review(msgspec.Struct, rename="camel"):
    api_version: str = ""
    kind: str = ""
    request: AdmissionRequest | None = None


_review = msgspec.json.Decoder(_Review)


class ServerCertificate:
    """A certificate and its key that are taken over anew when their files change.

    :raises ConfigError: they cannot be used now.
    """

    def __init__(self, certificate: Path, key: Path) -> None:
        self._files = (certificate, key)
        self._content = self._read()
        self.context = self._fresh(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))
        self.context.minimum_version = ssl.TLSVersion.TLSv1_2

    def look(self) -> bool:
        """Take over what is in the files now; returns whether that is something new.

        :raises ConfigError: it cannot be used. The old certificate stays.
        """
        content = self._read()
        if content == self._content:
            return False
        # Tried elsewhere first: half a change (a new certificate with the old key) must not spoil what works.
        self._fresh(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))
        self._fresh(self.context)
        self._content = content
        return True

    def _read(self) -> tuple[bytes, bytes]:
        certificate, key = self._files
        try:
            return certificate.read_bytes(), key.read_bytes()
        except OSError as error:
            raise ConfigError(f"cannot read the certificate of the webhook server: {error}") from error

    def _fresh(self, context: ssl.SSLContext) -> ssl.SSLContext:
        certificate, key = self._files
        try:
            context.load_cert_chain(certificate, key, password=lambda: "")
        except (OSError, ValueError) as error:
            raise ConfigError(f"{certificate} and {key} cannot be used for the webhook server: {error}") from error
        return context


class WebhookServer:
    """Answers reviews at paths.

    :param look_every: seconds between two looks at the files of the certificate.
    """

    def __init__(
        self,
        certificate: ServerCertificate,
        *,
        metrics: Metrics | None = None,
        look_every: float = 10.0,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._certificate = certificate
        self._metrics = metrics
        self._look_every = look_every
        self._sleep = sleep
        self._clock = clock
        self._app = web.Application(client_max_size=_LARGEST_BODY)

    def reviews(self, path: str, reviewer: Callable[[AdmissionRequest], Awaitable[Verdict]]) -> None:
        """Let a reviewer answer at a path."""

        async def handle(request: web.Request) -> web.Response:
            return await self._answer(request, reviewer)

        self._app.router.add_post(
            path, handle if self._metrics is None else self._measured(path, handle, self._metrics)
        )

    def _measured(
        self, path: str, handle: Callable[[web.Request], Awaitable[web.Response]], metrics: Metrics
    ) -> Callable[[web.Request], Awaitable[web.Response]]:
        active, took = metrics.webhook_active.labels(path), metrics.webhook_took.labels(path)
        for code in (200, 500):
            metrics.webhook_requests.labels(path, code)  # boards show what is there

        async def measured(request: web.Request) -> web.Response:
            began = self._clock()
            with active.track_inprogress():
                answer = await handle(request)
            took.observe(self._clock() - began)
            metrics.webhook_requests.labels(path, answer.status).inc()
            return answer

        return measured

    @asynccontextmanager
    async def serving(self, host: str, port: int) -> AsyncIterator[int]:
        """Answer meanwhile; yields the port, which may have been left to the system by asking for 0."""
        runner = web.AppRunner(self._app, access_log=None, shutdown_timeout=_LONGEST_STOP)
        await runner.setup()
        try:
            site = web.TCPSite(runner, host, port, ssl_context=self._certificate.context)
            await site.start()
            # Not a task group: what the caller raises meanwhile is the caller's, and should not come out wrapped.
            looking = asyncio.create_task(self._keep_looking())
            try:
                yield runner.addresses[0][1]
            finally:
                looking.cancel()
                await asyncio.wait((looking,))
        finally:
            await runner.cleanup()

    async def _keep_looking(self) -> None:
        while True:
            await self._sleep(self._look_every)
            if self._metrics is not None:
                self._metrics.certificate_reads.inc()
            try:
                if self._certificate.look():
                    log.info("the certificate of the webhook server was read again")
            except ConfigError as error:
                if self._metrics is not None:
                    self._metrics.certificate_errors.inc()
                log.warning("the new certificate cannot be used; going on with the old one", error=str(error))

    async def _answer(
        self, request: web.Request, reviewer: Callable[[AdmissionRequest], Awaitable[Verdict]]
    ) -> web.Response:
        try:
            review = _review.decode(await request.read())
        except web.HTTPRequestEntityTooLarge:
            return web.Response(status=413, text=f"a review of more than {_LARGEST_BODY} bytes is not read")
        except ValueError as error:
            return web.Response(status=400, text=f"this is no AdmissionReview: {error}")
        wanted = review.request
        if wanted is None or review.kind != "AdmissionReview" or review.api_version != _API_VERSION:
            return web.Response(status=400, text=f"an AdmissionReview of {_API_VERSION} with a request is wanted")
        try:
            verdict = await reviewer(wanted)
        except Exception as error:
            if self._metrics is not None:
                self._metrics.webhook_panics.inc()
            log.exception("a review failed", kind=wanted.kind.kind, object=f"{wanted.namespace}/{wanted.name}")
            why = f"the review itself failed ({type(error).__name__}); see the log of the webhook server"
            verdict = Verdict(denied=why, code=500, reason="InternalError")
        body = {"apiVersion": _API_VERSION, "kind": "AdmissionReview", "response": _response(wanted.uid, verdict)}
        return web.Response(body=orjson.dumps(body), content_type="application/json")


def _response(uid: str, verdict: Verdict) -> dict[str, Any]:
    response: dict[str, Any] = {"uid": uid, "allowed": not verdict.denied}
    if verdict.denied:
        response["status"] = {"message": verdict.denied, "code": verdict.code, "reason": verdict.reason}
    elif verdict.patch:
        response["patchType"] = "JSONPatch"
        response["patch"] = base64.b64encode(orjson.dumps(list(verdict.patch))).decode()
    if verdict.warnings:
        response["warnings"] = list(verdict.warnings)
    if verdict.audit_annotations:
        response["auditAnnotations"] = dict(verdict.audit_annotations)
    return response
