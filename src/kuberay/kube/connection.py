"""HTTP/1.1 on one connection: a request, its answer, and then perhaps the next request.

The parser is httptools'. What is left is little, and it is here because an operator sends thousands of small requests:
a client that can do everything takes more than twice as long for each.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from enum import Enum
from functools import cached_property
from socket import SO_RCVLOWAT, SOL_SOCKET
from typing import TYPE_CHECKING, cast

import httptools

if TYPE_CHECKING:
    import socket
    from collections.abc import Iterator

_PLENTY = 2**18
"""Bytes of an answer that may wait to be taken before the server has to wait too."""
_PIECE = 2**18
"""Bytes of a request that are handed over at once: others get their turn between two of them."""
_ROOM = 2**16
"""Bytes that are taken in at a time, into memory that stays: a loop that has to make room for each of them makes much
more than comes, and asks the system for it, which takes longer than reading does."""
_MOST_HEADERS = 1000


class BrokenExchange(OSError):
    """The connection ended too early, or what came over it is not HTTP."""


class Until(Enum):
    """How much of an answer is waited for."""

    HEAD = "head"
    SOME = "some"
    END = "end"


class Headers(Mapping[str, str]):
    """Those of an answer, under their lower-case names. They are put in order when somebody looks, which is seldom."""

    def __init__(self) -> None:
        self.lines: list[tuple[bytes, bytes]] = []

    @cached_property
    def _by_name(self) -> dict[str, str]:
        found: dict[str, str] = {}
        for line in self.lines:
            name, value = (part.decode("latin-1") for part in line)
            key = name.lower()
            found[key] = f"{found[key]}, {value}" if key in found else value
        return found

    def __getitem__(self, name: str) -> str:
        return self._by_name[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_name)

    def __len__(self) -> int:
        return len(self._by_name)


class Answer:
    """What comes back for one request, while it comes."""

    def __init__(self, connection: Connection) -> None:
        self.status = 0
        self.headers = Headers()
        self.is_whole = False
        self.can_go_on = False
        """Whether another request may follow it on the same connection."""
        self.failure: Exception | None = None
        """Why there will be no more of it."""
        self._connection = connection
        self._pieces: list[bytes] = []
        self._size = 0
        self._until = Until.END
        self._waiter: asyncio.Future[None] | None = None

    async def wait(self, until: Until) -> None:
        """Wait until so much of it has come.

        :raises OSError: it will not come.
        """
        self._until = until
        while not self._has_come:
            if self.failure is not None:
                raise self.failure
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None

    async def more(self) -> bytes:
        """What has come since the last time: something, or nothing when that was the end.

        :raises OSError: the rest will not come.
        """
        await self.wait(Until.SOME)
        return self._taken()

    async def rest(self) -> bytes:
        """All that was not taken yet.

        :raises OSError: it will not come.
        """
        self._until = Until.END
        self._connection.resume()
        await self.wait(Until.END)
        return self._taken()

    def _taken(self) -> bytes:
        taken = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
        self._pieces.clear()
        self._size = 0
        self._connection.resume()
        return taken

    @property
    def _has_come(self) -> bool:
        if self.is_whole:
            return True
        if self._until is Until.SOME:
            return bool(self._pieces)
        return self._until is Until.HEAD and self.status != 0

    # For the connection.

    def arrived(self, piece: bytes) -> None:
        """A piece of the body has come."""
        self._pieces.append(piece)
        self._size += len(piece)

    def broke(self, error: Exception | None) -> None:
        """Nothing more will come."""
        ends_with_the_connection = not {"content-length", "transfer-encoding"} & self.headers.keys()
        if error is None and self.status and ends_with_the_connection:
            self.is_whole = True
        elif not self.is_whole and self.failure is None:
            self.failure = error or BrokenExchange("the server closed the connection")
        self.wake()

    def wake(self) -> None:
        """Go on with who waits, if what they wait for has come."""
        waiter = self._waiter
        if waiter is not None and not waiter.done() and (self._has_come or self.failure is not None):
            waiter.set_result(None)

    @property
    def is_plenty(self) -> bool:
        """Whether so much waits to be taken that no more should come for now."""
        return self._size >= _PLENTY and self._until is not Until.END and not self.is_whole


class Connection(asyncio.BufferedProtocol):
    """Carries one exchange at a time.

    :param socket: what lies below all of it.
    """

    def __init__(self, socket: socket.socket) -> None:
        self.socket = socket
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done when the connection has ended, by whomever."""
        self.idle_since: float | None = None
        """Since when it waits for its next request; `None` before its first."""
        self._transport: asyncio.Transport | None = None
        self._parser = httptools.HttpResponseParser(self)
        self._room = memoryview(bytearray(_ROOM))
        self._answer = Answer(self)
        self._answer.can_go_on = True
        self._is_paused = False
        self._may_write = asyncio.Event()
        self._may_write.set()

    @property
    def is_free(self) -> bool:
        """Whether a request can be sent."""
        is_open = self._transport is not None and not self._transport.is_closing()
        return is_open and self._answer.can_go_on and not self._is_paused

    @property
    def is_unanswered(self) -> bool:
        """Whether nothing has come back for what was asked last."""
        return not self._answer.headers.lines

    @property
    def transport(self) -> asyncio.Transport:
        """What carries it.

        :raises OSError: nothing does any more.
        """
        if self._transport is None:
            raise self._answer.failure or BrokenExchange("the server closed the connection")
        return self._transport

    async def ask(self, head: bytes, body: bytes, until: Until, *, deadline: float) -> Answer:
        """Send a request, and wait for so much of its answer.

        :param deadline: until when it has to be there, by the loop's clock.
        :raises OSError: there was none.
        """
        answer = self._answer = Answer(self)
        expiry = asyncio.get_running_loop().call_at(deadline, self._expire, answer)
        try:
            if len(body) <= _PIECE:
                self.transport.write(head + body)
            else:
                self.transport.write(head)
                for start in range(0, len(body), _PIECE):
                    await self._may_write.wait()
                    if answer.is_whole:
                        answer.can_go_on = False  # it was refused before it was heard: nobody waits for the rest
                        break
                    self.transport.write(body[start : start + _PIECE])
            await answer.wait(until)
        finally:
            expiry.cancel()
        return answer

    def _expire(self, answer: Answer) -> None:
        answer.broke(TimeoutError())
        self.abort()

    def _give_up(self, why: str) -> None:
        self._answer.broke(BrokenExchange(why))
        self.abort()

    def pause(self) -> None:
        """Let what comes wait outside."""
        if self._transport is not None and not self._is_paused and not self._transport.is_closing():
            self._is_paused = True
            self._transport.pause_reading()

    def resume(self) -> None:
        """Take in what comes."""
        if self._transport is not None and self._is_paused and not self._transport.is_closing():
            self._is_paused = False
            self._transport.resume_reading()

    def gather(self, size: int) -> None:
        """Do not wake up before so many bytes have come, or the other end has hung up: 1 for as soon as possible."""
        if self._transport is not None and not self._transport.is_closing():
            self.socket.setsockopt(SOL_SOCKET, SO_RCVLOWAT, size)

    def abort(self) -> None:
        """End it, without goodbyes: nobody waits for that of the other end."""
        if self._transport is not None:
            self._transport.abort()

    # For the event loop.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def get_buffer(self, size: int) -> memoryview:
        return self._room

    def buffer_updated(self, size: int) -> None:
        answer = self._answer
        if answer.can_go_on:
            self.abort()  # nobody has asked
            return
        try:
            self._parser.feed_data(self._room[:size])
        except httptools.HttpParserError as error:
            self._give_up(f"what the server says is not HTTP ({error})")
            return
        except httptools.HttpParserUpgrade:
            self._give_up("the server wants to go on in another protocol, and nobody has asked for that")
            return
        if answer.is_plenty:
            self.pause()
        answer.wake()

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        self._answer.broke(error)
        self._may_write.set()
        self.ended.set_result(None)

    def pause_writing(self) -> None:
        self._may_write.clear()

    def resume_writing(self) -> None:
        self._may_write.set()

    # For the parser.

    def on_message_begin(self) -> None:
        if self._answer.is_whole:
            raise ValueError("a second answer")

    def on_header(self, name: bytes, value: bytes) -> None:
        lines = self._answer.headers.lines
        if len(lines) >= _MOST_HEADERS:
            raise ValueError("more headers than an API server has to send")
        lines.append((name, value))

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if status >= 200:
            self._answer.status = status
        else:
            self._answer.headers = Headers()  # "go on": the answer itself is still to come

    def on_body(self, body: bytes) -> None:
        self._answer.arrived(body)

    def on_message_complete(self) -> None:
        answer = self._answer
        if answer.status:
            answer.is_whole = True
            answer.can_go_on = self._parser.should_keep_alive()
            self._may_write.set()  # who still sends will see that there is no need to
