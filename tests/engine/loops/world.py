"""A server with a loop running on it; what a test waits for is always something that can be observed."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from kuberay.kube.client import Client
from tests.engine.apiserver.api import Api

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable


class Loop(Protocol):
    async def run(self) -> None: ...


@dataclass
class World:
    """A server and a client of it."""

    api: Api = field(default_factory=Api)

    def __post_init__(self) -> None:
        self.client = Client(self.api.transport)

    @contextlib.asynccontextmanager
    async def running(self, *loops: Loop) -> AsyncIterator[None]:
        """Run loops within the block."""
        tasks = [asyncio.create_task(loop.run()) for loop in loops]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            for outcome in await asyncio.gather(*tasks, return_exceptions=True):
                if isinstance(outcome, Exception):
                    raise outcome

    async def until(self, claim: Callable[[], Awaitable[Any]]) -> Any:
        """Return what the claim answers once it is true."""
        async with asyncio.timeout(10):
            while True:
                if answer := await claim():
                    return answer
                await asyncio.sleep(0.002)

    async def gone(self, path: str) -> None:
        async def is_gone() -> bool:
            return (await self.api.get(path)).status == 404

        await self.until(is_gone)

    async def quiet(self, rounds: int = 200) -> int:
        """Let everything that can run run, and return the version: at rest it does not grow."""
        for _ in range(rounds):
            await asyncio.sleep(0)
        return self.api.storage.version
