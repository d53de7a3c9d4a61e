"""What an operator asks of an API server, in the words of roles: group, resource and verb."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, NamedTuple

from kuberay.kube.errors import Conflict
from kuberay.operator import rights

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from kuberay.kube.transport import Request, Response, Stream, Transport


class Call(NamedTuple):
    """One kind of request. A subresource stands behind a slash, as in roles."""

    group: str
    resource: str
    verb: str

    def __str__(self) -> str:
        return f"{self.verb} {self.resource}" + (f" of {self.group}" if self.group else "")

    @staticmethod
    def of(request: Request) -> Call:
        """What right a request takes."""
        parts = request.path.strip("/").split("/")
        group, rest = ("", parts[2:]) if parts[0] == "api" else (parts[1], parts[3:])
        if rest[0] == "namespaces" and len(rest) > 2:
            rest = rest[2:]
        resource, has_name = rest[0], len(rest) > 1
        if len(rest) > 2:
            resource = f"{resource}/{rest[2]}"
        watches = dict(request.query).get("watch") in ("true", "1")
        verb = {"POST": "create", "PATCH": "patch", "PUT": "update", "DELETE": "delete"}.get(request.method)
        return Call(group, resource, verb or ("watch" if watches else "get" if has_name else "list"))


def granted(*lists: tuple[rights.Right, ...]) -> set[Call]:
    """All calls that rights allow."""
    return {Call(each.group, each.resource, verb) for each in sum(lists, ()) for verb in each.verbs}


class Recorded:
    """A transport that remembers what was asked.

    :param doubles: send every create twice and answer the second: "it exists already" is what the operator hears. And
        say of the first change of each kind that somebody else was faster.
    """

    def __init__(self, transport: Transport, *, doubles: bool = False) -> None:
        self.calls: set[Call] = set()
        self._transport = transport
        self._doubles = doubles

    async def send(self, request: Request, *, timeout: float | None = None) -> Response:
        call = Call.of(request)
        if self._doubles and call.verb == "patch" and call not in self.calls and "/" not in call.resource:
            self.calls.add(call)
            raise Conflict(f"somebody has changed {request.path}")
        self.calls.add(call)
        if self._doubles and call.verb == "create" and call.resource != "events":
            await self._transport.send(request, timeout=timeout)
        return await self._transport.send(request, timeout=timeout)

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[Stream]:
        self.calls.add(Call.of(request))
        async with self._transport.stream(request) as stream:
            yield stream

    async def close(self) -> None:
        await self._transport.close()


class Restricted:
    """A transport that lets through what the operator's roles allow, and tells of anything else.

    :param refused: called with the first request that is not allowed; the server never sees it.
    """

    def __init__(self, transport: Transport, refused: Callable[[str], None]) -> None:
        self._transport = transport
        self._refused = refused
        self._allowed = granted(rights.USED)

    async def send(self, request: Request, *, timeout: float | None = None) -> Response:
        self._check(request)
        return await self._transport.send(request, timeout=timeout)

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[Stream]:
        self._check(request)
        async with self._transport.stream(request) as stream:
            yield stream

    async def close(self) -> None:
        await self._transport.close()

    def _check(self, request: Request) -> None:
        call = Call.of(request)
        if call not in self._allowed:
            self._refused(
                f"the operator has no right to {call}; if it needs one, src/kuberay/operator/rights.py gives it"
            )
