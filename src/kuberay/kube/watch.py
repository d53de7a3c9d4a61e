"""A watch as it arrives: bytes in, events out, in order.

Lines are cut by hand from chunks: a line may be megabytes long, and reading line by line through a buffer has a limit.
They are read where they are; to copy each of them takes a third of the time that it takes to read them.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Generic, TypeVar

from kuberay.kube.errors import KubeError, TransportError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from kuberay.kube.decoding import Bookmark, Decoder, Event, Unreadable
    from kuberay.kube.identity import Key

T = TypeVar("T")


class SilentWatch(TransportError):
    """No byte for too long: the connection may be dead without either side knowing."""


class Watch(Generic[T]):
    """Events of one watch; iterate it once. It ends when the server ends it, which is ordinary.

    :param known: see `Decoder.event`.
    """

    def __init__(
        self,
        chunks: AsyncIterator[bytes],
        decoder: Decoder[T],
        *,
        idle_timeout: float | None = None,
        known: Callable[[Key, str], T | None] = lambda *_: None,
    ) -> None:
        self._chunks = chunks
        self._decoder = decoder
        self._known = known
        self.idle_timeout = idle_timeout
        """After how many seconds without a byte it counts as dead; may be changed meanwhile."""

    async def __aiter__(self) -> AsyncIterator[Event[T] | Bookmark | Unreadable]:
        async for batch in self.batches():
            for event in batch:
                yield event

    async def batches(self) -> AsyncIterator[list[Event[T] | Bookmark | Unreadable]]:
        """The events of each chunk at once: cheaper for who reads thousands.

        What came before a failure is handed over before it is raised.

        :raises TransportError: the connection broke, fell silent, or ended within a line.
        :raises ApiError: the server refused to go on.
        :raises DecodeError: a line is not an event.
        """
        begun: list[bytes | memoryview] = []
        while (chunk := await self._next_chunk()) is not None:
            batch: list[Event[T] | Bookmark | Unreadable] = []
            failure: KubeError | None = None
            for line in _lines(begun, chunk):
                if not line:
                    continue
                try:
                    batch.append(self._decoder.event(line, self._known))
                except KubeError as error:
                    failure = error
                    break
            if batch:
                yield batch
            if failure is not None:
                raise failure
        if begun:
            raise TransportError("the watch ended in the middle of an event")

    async def _next_chunk(self) -> bytes | None:
        try:
            async with asyncio.timeout(self.idle_timeout):
                return await anext(self._chunks, None)
        except TimeoutError:
            raise SilentWatch(f"the watch was silent for {self.idle_timeout:g} s") from None


def _lines(begun: list[bytes | memoryview], chunk: bytes) -> Iterator[bytes | memoryview]:
    """The lines that end in a chunk.

    :param begun: the pieces of the line that the chunk goes on with; afterwards of the one that goes on after it.
    """
    view = memoryview(chunk)
    start = 0
    while (end := chunk.find(b"\n", start)) >= 0:
        line: bytes | memoryview = view[start:end]
        if begun:
            line = b"".join((*begun, line))
            begun.clear()
        yield line
        start = end + 1
    if start < len(chunk):
        begun.append(view[start:])
