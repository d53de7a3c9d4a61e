"""What kubelets and Prometheus ask of a controller process: is it alive, has it caught up, what does it measure.

Checks have names, as those of Kubernetes' own servers do: `/readyz` is all of them, `/readyz/caches` is one, and
`?verbose` tells them apart for people. Who asks comes every few seconds and reads a page: a connection for each, and
nothing that a process would have to carry for it.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

from kuberay.kube.metrics import CONTENT_TYPE

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping

    from kuberay.kube.metrics import Metrics

    Checks = Mapping[str, Callable[[], str | None]]

_LONGEST_HEAD = 2**14
_PATIENCE = 10.0
"""Seconds for a question to arrive, and for its answer to be taken."""


@dataclass(frozen=True, slots=True)
class _Page:
    text: str | bytes
    status: HTTPStatus = HTTPStatus.OK
    type: str = "text/plain; charset=utf-8"

    def as_http(self, *, with_body: bool) -> bytes:
        body = self.text.encode() if isinstance(self.text, str) else self.text
        head = (
            f"HTTP/1.1 {self.status} {self.status.phrase}\r\ncontent-type: {self.type}\r\n"
            f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
        )
        return head.encode() + (body if with_body else b"")


class ProbeServer:
    """Serves `/healthz`, `/readyz` and `/metrics`, each where it is wanted.

    :param live: named checks of whether the process is alive; a check answers what is wrong, or `None`.
    :param ready: named checks of whether it can do its work.
    :param metrics: what `/metrics` shows; without it there is no such path.
    """

    def __init__(
        self, *, live: Checks | None = None, ready: Checks | None = None, metrics: Metrics | None = None
    ) -> None:
        self._checks = {name: checks for name, checks in (("healthz", live), ("readyz", ready)) if checks is not None}
        self._metrics = metrics
        self._conversations: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def serving(self, host: str, port: int) -> AsyncIterator[int]:
        """Answer meanwhile; yields the port, which may have been left to the system by asking for 0.

        :raises OSError: the address cannot be listened on.
        """
        async with await asyncio.start_server(self._accept, host, port, limit=_LONGEST_HEAD) as server:
            try:
                yield server.sockets[0].getsockname()[1]
            finally:
                server.close()
                for conversation in self._conversations:
                    conversation.cancel()
                await asyncio.gather(*self._conversations, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        conversation = asyncio.create_task(self._converse(reader, writer))
        self._conversations.add(conversation)
        conversation.add_done_callback(self._conversations.discard)

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(_PATIENCE):
                head = await reader.readuntil(b"\r\n\r\n")
                method, target, *_ = head.decode("latin-1").split(" ", 2)
                page = await self._page(method, target)
                writer.write(page.as_http(with_body=method != "HEAD"))
                await writer.drain()
                writer.close()
                await writer.wait_closed()
        except (OSError, TimeoutError, ValueError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # nobody who could be told
        finally:
            writer.transport.abort()

    async def _page(self, method: str, target: str) -> _Page:
        parts = urlsplit(target)
        asked = parse_qs(parts.query, keep_blank_values=True)
        if method not in ("GET", "HEAD"):
            return _Page("there is nothing but to be read here\n", HTTPStatus.METHOD_NOT_ALLOWED)
        if parts.path == "/metrics" and self._metrics is not None:
            return _Page(await self._metrics.render(), type=CONTENT_TYPE)
        path, _, name = parts.path[1:].partition("/")
        checks = self._checks.get(path)
        if checks is None:
            return _Page("there is no such page\n", HTTPStatus.NOT_FOUND)
        if name:
            return _one(checks, name)
        return _all(path, checks, left_out=asked.get("exclude", []), is_verbose="verbose" in asked)


def _one(checks: Checks, name: str) -> _Page:
    check = checks.get(name)
    if check is None:
        return _Page(f"there is no such check; there are {', '.join(checks) or 'none'}", HTTPStatus.NOT_FOUND)
    problem = check()
    return _Page(f"{problem}\n", HTTPStatus.SERVICE_UNAVAILABLE) if problem else _Page("ok")


def _all(path: str, checks: Checks, *, left_out: list[str], is_verbose: bool) -> _Page:
    found = {name: check() for name, check in checks.items() if name not in left_out}
    has_failed = any(found.values())
    if not has_failed and not is_verbose:
        return _Page("ok")
    lines = [f"[-]{name} failed: {problem}" if problem else f"[+]{name} ok" for name, problem in found.items()]
    lines.append(f"{path} check {'failed' if has_failed else 'passed'}")
    return _Page("\n".join(lines) + "\n", HTTPStatus.SERVICE_UNAVAILABLE if has_failed else HTTPStatus.OK)
