"""What kind of Kubernetes it is."""

from __future__ import annotations

import asyncio

import structlog.testing

from kuberay.kube.client import Client, Retry
from kuberay.kube.errors import TransportError
from kuberay.kube.transport import Request, Response
from kuberay.operator.platform import await_openshift, is_openshift
from tests.controllers.embedded import embedded
from tests.kube.scripted import Answer, ScriptedTransport
from tests.kube.virtual_time import virtual_time


class Discovery:
    """A transport that tells of these groups, or fails."""

    def __init__(self, *groups: str, error: Exception | None = None) -> None:
        self._body = "".join(f'{{"name": "{group}"}},' for group in groups).rstrip(",")
        self.error = error
        self.asked = asyncio.Event()

    async def send(self, request: Request, *, timeout: float | None = None) -> Response:
        assert request.path == "/apis"
        self.asked.set()
        if self.error is not None:
            raise self.error
        return Response(200, {}, f'{{"groups": [{self._body}]}}'.encode())

    def stream(self, request: Request) -> object:
        raise AssertionError("nothing is followed here")

    async def close(self) -> None:
        pass


def client(transport: Discovery) -> Client:
    return Client(transport, retry=Retry(attempts=0))  # type: ignore[arg-type]


async def test_an_openshift_is_known_by_its_routes() -> None:
    assert await is_openshift(client(Discovery("apps", "route.openshift.io")))


async def test_some_other_part_of_openshift_is_not_enough() -> None:
    assert not await is_openshift(client(Discovery("apps", "security.openshift.io", "config.openshift.io")))


async def test_any_other_server_is_none() -> None:
    plain, _ = await embedded()
    assert not await is_openshift(plain)


async def test_a_server_that_does_not_answer_is_asked_until_the_operator_is_told_to_stop() -> None:
    transport, stop = Discovery("route.openshift.io", error=TransportError("refused")), asyncio.Event()
    asking = asyncio.create_task(await_openshift(client(transport), stop, server="https://here"))
    await transport.asked.wait()
    stop.set()
    assert await asking is False


@virtual_time
async def test_who_answers_and_is_no_api_server_is_named_and_asked_again() -> None:
    openshift = Answer.json({"kind": "APIGroupList", "groups": [{"name": "route.openshift.io"}]})
    strange = [Answer(body=body) for body in (b"<html>maintenance</html>", b"[]", b'{"groups": ["a"]}', b"")]
    transport = ScriptedTransport([*strange, openshift])
    with structlog.testing.capture_logs() as logged:
        assert await await_openshift(Client(transport), asyncio.Event(), server="https://here:6443")
    assert [line["server"] for line in logged] == ["https://here:6443"] * len(strange)
    assert "it starts with '<html>maintenance</html>'" in logged[0]["error"]
