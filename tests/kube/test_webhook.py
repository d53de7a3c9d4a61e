from __future__ import annotations

import asyncio
import base64
import io
import ssl
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import aiohttp
import orjson
import pytest
from structlog.testing import capture_logs

from kuberay.kube.errors import ConfigError
from kuberay.kube.metrics import Metrics
from kuberay.kube.webhook import AdmissionRequest, ServerCertificate, Verdict, WebhookServer
from tests.kube.certificates import Authority
from tests.kube.test_metrics import values

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def certificate(authority: Authority) -> ServerCertificate:
    signed = authority.sign("webhook")
    return ServerCertificate(signed.certificate, signed.key)


@asynccontextmanager
async def asking(server: WebhookServer, authority: Authority) -> AsyncIterator[Callable[[Any], Any]]:
    """A way to ask the server as an API server does; the answer's status and what is in it."""
    trust = ssl.create_default_context(cafile=str(authority.file))
    async with server.serving("127.0.0.1", 0) as port, aiohttp.ClientSession() as session:

        async def ask(body: Any) -> tuple[int, Any]:
            data = body if isinstance(body, bytes) else orjson.dumps(body)
            url = f"https://127.0.0.1:{port}/review"
            async with session.post(url, data=io.BytesIO(data), ssl=trust) as answer:
                content = await answer.read()
                return answer.status, orjson.loads(content) if answer.status == 200 else content.decode()

        yield ask


def review(**request: Any) -> dict[str, Any]:
    fields = {"uid": "u1", "operation": "CREATE", "kind": {"group": "ray.io", "version": "v1", "kind": "RayCluster"}}
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {**fields, **request}}


class TestVerdicts:
    @pytest.mark.parametrize(
        ("verdict", "response"),
        [
            (Verdict(), {"allowed": True}),
            (
                Verdict(denied="no head", code=422, reason="Invalid"),
                {"allowed": False, "status": {"message": "no head", "code": 422, "reason": "Invalid"}},
            ),
            (
                Verdict(warnings=["old field"], audit_annotations={"why": "x"}),
                {"allowed": True, "warnings": ["old field"], "auditAnnotations": {"why": "x"}},
            ),
            (
                Verdict(patch=[{"op": "add", "path": "/a", "value": 1}]),
                {
                    "allowed": True,
                    "patchType": "JSONPatch",
                    "patch": base64.b64encode(b'[{"op":"add","path":"/a","value":1}]').decode(),
                },
            ),
        ],
    )
    async def test_are_told_with_the_uid_of_the_request(
        self, certificate: ServerCertificate, authority: Authority, verdict: Verdict, response: dict[str, Any]
    ) -> None:
        async def reviewer(_: AdmissionRequest) -> Verdict:
            return verdict

        server = WebhookServer(certificate)
        server.reviews("/review", reviewer)
        async with asking(server, authority) as ask:
            assert await ask(review()) == (
                200,
                {
                    "apiVersion": "admission.k8s.io/v1",
                    "kind": "AdmissionReview",
                    "response": {"uid": "u1", **response},
                },
            )

    async def test_a_reviewer_sees_who_wants_what(self, certificate: ServerCertificate, authority: Authority) -> None:
        seen: list[AdmissionRequest] = []

        async def reviewer(request: AdmissionRequest) -> Verdict:
            seen.append(request)
            return Verdict()

        server = WebhookServer(certificate)
        server.reviews("/review", reviewer)
        async with asking(server, authority) as ask:
            await ask(
                review(
                    operation="UPDATE",
                    name="rc",
                    namespace="n",
                    object={"a": 2},
                    oldObject={"a": 1},
                    userInfo={"username": "jane", "groups": ["dev"]},
                    dryRun=True,
                )
            )
        assert (seen[0].kind.kind, seen[0].operation, seen[0].namespace, seen[0].name) == (
            "RayCluster",
            "UPDATE",
            "n",
            "rc",
        )
        assert (seen[0].object, seen[0].old_object, seen[0].dry_run) == ({"a": 2}, {"a": 1}, True)
        assert (seen[0].user_info.username, seen[0].user_info.groups) == ("jane", ["dev"])

    async def test_a_reviewer_that_fails_refuses_and_is_counted(
        self, certificate: ServerCertificate, authority: Authority
    ) -> None:
        async def reviewer(_: AdmissionRequest) -> Verdict:
            raise RuntimeError("s3cret")

        metrics = Metrics()
        server = WebhookServer(certificate, metrics=metrics)
        server.reviews("/review", reviewer)
        async with asking(server, authority) as ask:
            _, answer = await ask(review())
        assert answer["response"]["allowed"] is False
        assert answer["response"]["status"]["code"] == 500
        assert "s3cret" not in str(answer)
        found = values(metrics)
        assert found["controller_runtime_webhook_requests_total{code=200,webhook=/review}"] == 1
        assert found["controller_runtime_webhook_latency_seconds_count{webhook=/review}"] == 1
        assert found["controller_runtime_webhook_requests_in_flight{webhook=/review}"] == 0
        assert found["controller_runtime_webhook_panics_total{}"] == 1

    @pytest.mark.parametrize(
        ("body", "status", "message"),
        [
            (b"{", 400, "this is no AdmissionReview"),
            ({}, 400, "an AdmissionReview of admission.k8s.io/v1 with a request is wanted"),
            ({**review(), "apiVersion": "admission.k8s.io/v1beta1"}, 400, "admission.k8s.io/v1 with a request"),
            (review(object="text"), 400, "this is no AdmissionReview"),
            (b"x" * (8 * 2**20), 413, "more than 7340032 bytes"),
        ],
    )
    async def test_rubbish_is_refused_in_words(
        self, certificate: ServerCertificate, authority: Authority, body: Any, status: int, message: str
    ) -> None:
        async def reviewer(_: AdmissionRequest) -> Verdict:
            return Verdict()

        server = WebhookServer(certificate)
        server.reviews("/review", reviewer)
        async with asking(server, authority) as ask:
            found, text = await ask(body)
        assert found == status
        assert message in text


async def test_who_never_finishes_a_question_does_not_keep_it_from_stopping(
    certificate: ServerCertificate, authority: Authority
) -> None:
    async def reviewer(_: AdmissionRequest) -> Verdict:
        return Verdict()

    server = WebhookServer(certificate)
    server.reviews("/review", reviewer)
    trust = ssl.create_default_context(cafile=str(authority.file))
    async with asyncio.timeout(30):
        async with server.serving("127.0.0.1", 0) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trust)
            writer.write(b"POST /review HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\ncontent-length: 9\r\n\r\n")
            assert (await reader.readline()).startswith(b"HTTP/1.1 100")
        writer.close()


class TestCertificates:
    async def test_are_taken_over_when_their_files_change(self, tmp_path: Path) -> None:
        authorities = [Authority(tmp_path, name) for name in ("first", "second")]
        signed = [each.sign(f"server-{number}") for number, each in enumerate(authorities)]
        certificate, key = tmp_path / "tls.crt", tmp_path / "tls.key"
        certificate.write_bytes(signed[0].certificate.read_bytes())
        key.write_bytes(signed[0].key.read_bytes())
        looks: asyncio.Queue[None] = asyncio.Queue()

        async def sleep(_: float) -> None:
            looks.task_done() if looks._unfinished_tasks else None  # type: ignore[attr-defined]
            await looks.get()

        async def look() -> None:
            looks.put_nowait(None)
            await looks.join()

        metrics = Metrics()
        server = WebhookServer(ServerCertificate(certificate, key), metrics=metrics, sleep=sleep)
        async with server.serving("127.0.0.1", 0) as port:

            async def trusted_by(authority: Authority) -> bool:
                trust = ssl.create_default_context(cafile=str(authority.file))
                try:
                    _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trust)
                except ssl.SSLCertVerificationError:
                    return False
                writer.close()
                return True

            assert await trusted_by(authorities[0])
            certificate.write_bytes(signed[1].certificate.read_bytes())
            with capture_logs() as logs:
                await look()
            assert "going on with the old one" in logs[0]["event"]
            assert await trusted_by(authorities[0])
            key.write_bytes(signed[1].key.read_bytes())
            await look()
            assert await trusted_by(authorities[1])
            assert not await trusted_by(authorities[0])
        found = values(metrics)
        assert found["certwatcher_read_certificate_total{}"] == 2
        assert found["certwatcher_read_certificate_errors_total{}"] == 1

    def test_that_are_not_there_are_an_error(self, tmp_path: Path) -> None:
        with pytest.raises(ConfigError, match="cannot read the certificate of the webhook server"):
            ServerCertificate(tmp_path / "tls.crt", tmp_path / "tls.key")

    def test_that_do_not_fit_their_key_are_an_error(self, authority: Authority) -> None:
        one, other = authority.sign("one"), authority.sign("other")
        with pytest.raises(ConfigError, match="cannot be used for the webhook server"):
            ServerCertificate(one.certificate, other.key)
