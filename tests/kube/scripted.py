"""A transport that plays a script: the answers a test wants, in the order it wants them, with every fault there is."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import orjson

from kuberay.kube.errors import TransportError
from kuberay.kube.transport import Request, Response

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping, Sequence


@dataclass
class Answer:
    """What the server says to one request. A body may have parts: an exception breaks it, an event delays it."""

    status: int = 200
    body: bytes | Sequence[bytes | Exception | asyncio.Event] = b"{}"
    headers: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def json(cls, value: Any, status: int = 200, **headers: str) -> Answer:
        return cls(status, orjson.dumps(value), {k.replace("_", "-"): v for k, v in headers.items()})


def refused(code: int, reason: str, message: str = "no", **headers: str) -> Answer:
    """A refusal as an API server words it."""
    status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason}
    return Answer.json({**status, "message": message}, code, **headers)


class ScriptedTransport:
    """Answers from a list, in order, or by a function of the request. Keeps every request that was sent."""

    def __init__(self, script: Sequence[Answer | Exception] | Callable[[Request], Answer | Exception]) -> None:
        self.requests: list[Request] = []
        self.timeouts: list[float | None] = []
        self.open_streams = 0
        self.closed = False
        answers = None if callable(script) else iter(script)
        self._answer = script if callable(script) else lambda _: next(answers)  # type: ignore[arg-type]

    async def send(self, request: Request, *, timeout: float | None = None) -> Response:
        self.timeouts.append(timeout)
        answer = self._take(request)
        return Response(answer.status, answer.headers, await ScriptedStream(answer).read())

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[ScriptedStream]:
        answer = self._take(request)
        self.open_streams += 1
        try:
            yield ScriptedStream(answer)
        finally:
            self.open_streams -= 1

    async def close(self) -> None:
        self.closed = True

    def _take(self, request: Request) -> Answer:
        self.requests.append(request)
        answer = self._answer(request)
        if isinstance(answer, Exception):
            raise answer
        return answer


class ScriptedStream:
    """Plays the parts of a body; an event among them is waited for."""

    def __init__(self, answer: Answer) -> None:
        self.status = answer.status
        self.headers = answer.headers
        self._parts = [answer.body] if isinstance(answer.body, bytes) else answer.body

    async def chunks(self) -> AsyncIterator[bytes]:
        for part in self._parts:
            if isinstance(part, Exception):
                raise part
            if isinstance(part, asyncio.Event):
                await part.wait()
            else:
                await asyncio.sleep(0)
                yield part

    async def read(self) -> bytes:
        return b"".join([part async for part in self.chunks()])


BROKEN = TransportError("connection reset")


def query(request: Request) -> dict[str, str]:
    return dict(request.query)
