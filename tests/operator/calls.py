"""What an operator asks of an API server, in the words of roles: group, resource and verb, and where."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from kuberay.kube.errors import Conflict

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Set

    from kuberay.kube.transport import Request, Response, Stream, Transport
    from kuberay.operator.rights import Right


class Call(NamedTuple):
    """One kind of request. A subresource stands behind a slash, as in roles."""

    group: str
    resource: str
    verb: str
    namespace: str = ""
    """Empty outside of namespaces, and in all of them at once."""

    def __str__(self) -> str:
        what = f"{self.verb} {self.resource}" + (f" of {self.group}" if self.group else "")
        return f"{what} in namespace {self.namespace}" if self.namespace else f"{what} everywhere"

    def is_among(self, allowed: Set[Call]) -> bool:
        """Whether it is allowed: there, or everywhere."""
        return self in allowed or self._replace(namespace="") in allowed

    @staticmethod
    def of(request: Request) -> Call:
        """What right a request takes."""
        parts = request.path.strip("/").split("/")
        group, rest = ("", parts[2:]) if parts[0] == "api" else (parts[1], parts[3:])
        namespace = ""
        if rest[0] == "namespaces" and len(rest) > 2:
            namespace, rest = rest[1], rest[2:]
        resource, has_name = rest[0], len(rest) > 1
        if len(rest) > 2:
            resource = f"{resource}/{rest[2]}"
        watches = dict(request.query).get("watch") in ("true", "1")
        verb = {"POST": "create", "PATCH": "patch", "PUT": "update", "DELETE": "delete"}.get(request.method)
        return Call(group, resource, verb or ("watch" if watches else "get" if has_name else "list"), namespace)


def granted(*lists: tuple[Right, ...], namespace: str = "") -> set[Call]:
    """All calls that rights allow, everywhere or in a namespace."""
    return allowed_by((each.rule for each in sum(lists, ())), namespace)


def allowed_by(rules: Iterable[dict[str, Any]], namespace: str = "") -> set[Call]:
    """All calls that rules of a role allow, everywhere or in a namespace."""
    return {
        Call(group, resource, verb, namespace)
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def bound(objects: Iterable[dict[str, Any]]) -> set[Call]:
    """All calls that bindings among objects allow, by roles that are among them, too."""
    objects = list(objects)
    roles = {
        (each["kind"], each["metadata"].get("namespace", ""), each["metadata"]["name"]): each["rules"]
        for each in objects
        if "rules" in each
    }
    allowed: set[Call] = set()
    for each in objects:
        if "roleRef" in each:
            where, role = each["metadata"].get("namespace", ""), each["roleRef"]
            home = where if role["kind"] == "Role" else ""
            allowed |= allowed_by(roles[role["kind"], home, role["name"]], where)
    return allowed


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
        if self._doubles and call.verb in ("patch", "update") and call not in self.calls and "/" not in call.resource:
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
    """A transport that tells of what the operator's roles do not allow.

    :param refused: called with what is wrong about a request that is not allowed.
    """

    def __init__(self, transport: Transport, allowed: Set[Call], refused: Callable[[str], None]) -> None:
        self._transport = transport
        self._allowed = allowed
        self._refused = refused

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
        if not call.is_among(self._allowed):
            self._refused(
                f"the operator has no right to {call}; if it needs one, src/kuberay/operator/rights.py gives it"
            )
