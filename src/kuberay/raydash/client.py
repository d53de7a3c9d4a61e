"""A client of the Ray dashboard. Each call has a deadline and makes one request: repeating is the caller's business."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import aiohttp
import msgspec

from kuberay.raydash.errors import Refused, Unreachable

if TYPE_CHECKING:
    from types import TracebackType


class Node(msgspec.Struct, frozen=True):
    """A Ray node as its head sees it."""

    address: str
    is_alive: bool
    is_head: bool


class Dashboard:
    """The dashboard at one address.

    :param base: for instance `http://127.0.0.1:8265`.
    :param timeout: seconds for one call.
    """

    def __init__(self, base: str, *, timeout: float = 2.0) -> None:
        self._base = base.rstrip("/")
        self._session = aiohttp.ClientSession(
            timeout=aiohttp.ClientTimeout(total=timeout), cookie_jar=aiohttp.DummyCookieJar()
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._session.close()

    async def version(self) -> str:
        """The version of Ray on the head."""
        return str((await self._get("/api/version"))["ray_version"])

    async def nodes(self) -> list[Node]:
        """Every node the cluster has known, dead ones included."""
        summary = (await self._get("/nodes?view=summary"))["data"]["summary"]
        return [
            Node(
                address=node["ip"],
                is_alive=node["raylet"].get("state") == "ALIVE",
                is_head=bool(node["raylet"].get("isHeadNode")),
            )
            for node in summary
        ]

    async def _get(self, path: str) -> Any:
        try:
            async with self._session.get(self._base + path) as answer:
                body = await answer.read()
        except (aiohttp.ClientError, OSError, TimeoutError) as problem:
            raise Unreachable(
                f"no answer from {self._base}{path}: {str(problem) or type(problem).__name__}"
            ) from problem
        if answer.status != 200:
            raise Refused(f"{self._base}{path} answered {answer.status}: {body[:200].decode(errors='replace')}")
        try:
            return msgspec.json.decode(body)
        except msgspec.DecodeError as problem:
            raise Refused(f"{self._base}{path} answered something that is not JSON: {body[:80]!r}") from problem
