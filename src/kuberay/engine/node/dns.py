"""A name server for the Pods: Services and their endpoints, and a prompt "no" to everything else.

Prompt matters more than anything: Ray looks up its own host name and cloud metadata hosts while it starts, and an
unreachable name server makes that take half a minute.
"""

from __future__ import annotations

import asyncio
import struct
from dataclasses import dataclass
from ipaddress import IPv4Address
from typing import TYPE_CHECKING, Self, cast

from kuberay.engine.node import names

if TYPE_CHECKING:
    import socket

    from kuberay.engine.node.names import Directory
    from kuberay.engine.node.remote import Helper

PORT = 53
TIME_TO_LIVE = 5
_LONGEST_DATAGRAM = 512
_HEADER = struct.Struct("!HHHHHH")
_A, _CNAME, _PTR, _SRV, _ANY, _IN = 1, 5, 12, 33, 255, 1
_NO_ERROR, _BAD_FORMAT, _NO_SUCH_NAME, _NOT_DONE_HERE = 0, 1, 3, 4
_RESPONSE, _AUTHORITATIVE, _TRUNCATED, _RECURSION_WANTED, _RECURSION_OFFERED = 0x8000, 0x0400, 0x0200, 0x0100, 0x0080
_REVERSE = ".in-addr.arpa"
_TCP_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Question:
    """The one question of a query."""

    number: int
    flags: int
    name: str
    kind: int
    raw: bytes


def answer(directory: Directory, query: bytes, *, longest: int | None = None) -> bytes | None:
    """The answer to a query; `None` when it does not even have a number that could be answered.

    :param longest: what fits into a datagram; a longer answer is cut, and the client asks again by TCP.
    """
    if len(query) < _HEADER.size:
        return None
    number, flags = struct.unpack_from("!HH", query)
    if flags & _RESPONSE:
        return None
    if flags & 0x7800:
        return _reply(number, flags, _NOT_DONE_HERE)
    question = _question(query)
    if question is None:
        return _reply(number, flags, _BAD_FORMAT)
    records = _records(directory, question)
    if records is None:
        return _reply(number, flags, _NO_SUCH_NAME, question)
    whole = _reply(number, flags, _NO_ERROR, question, records)
    if longest is not None and len(whole) > longest:
        return _reply(number, flags | _TRUNCATED, _NO_ERROR, question)
    return whole


def _question(query: bytes) -> Question | None:
    number, flags, questions, *_ = _HEADER.unpack_from(query)
    labels = []
    position = _HEADER.size
    try:
        while size := query[position]:
            if size > 63:
                return None
            labels.append(query[position + 1 : position + 1 + size].decode("ascii"))
            position += 1 + size
        kind, group = struct.unpack_from("!HH", query, position + 1)
    except (IndexError, struct.error, UnicodeDecodeError):
        return None
    if questions != 1 or group != _IN:
        return None
    return Question(number, flags, ".".join(labels), kind, query[_HEADER.size : position + 5])


def _records(directory: Directory, question: Question) -> list[bytes] | None:
    """The records that answer; an empty list for a name without such records, `None` for no such name."""
    if question.name.lower().endswith(_REVERSE):
        parts = question.name[: -len(_REVERSE)].split(".")
        name = names.name_of_address(directory, ".".join(reversed(parts)))
        return None if name is None else [_record(_PTR, _encode(name))]
    found = names.look_up(directory, question.name)
    if found is None:
        return None
    if found.alias:
        return [_record(_CNAME, _encode(found.alias))]
    records = []
    if question.kind in (_A, _ANY):
        records += [_record(_A, IPv4Address(address).packed) for address in found.addresses]
    if question.kind in (_SRV, _ANY):
        records += [_record(_SRV, struct.pack("!HHH", 0, 100, port) + _encode(host)) for port, host in found.servers]
    return records


def _record(kind: int, data: bytes) -> bytes:
    # 0xC00C: the name of the question, where every answer begins.
    return struct.pack("!HHHIH", 0xC00C, kind, _IN, TIME_TO_LIVE, len(data)) + data


def _encode(name: str) -> bytes:
    return b"".join(bytes([len(label)]) + label.encode("ascii") for label in name.split(".")) + b"\0"


def _reply(
    number: int, asked: int, code: int, question: Question | None = None, records: list[bytes] | None = None
) -> bytes:
    kept = asked & (_RECURSION_WANTED | _TRUNCATED)
    flags = _RESPONSE | _AUTHORITATIVE | _RECURSION_OFFERED | kept | code
    body = question.raw if question else b""
    header = _HEADER.pack(number, flags, 1 if question else 0, len(records or ()), 0, 0)
    return header + body + b"".join(records or ())


class DnsServer:
    """Answers on one address, by UDP and by TCP."""

    def __init__(self, directory: Directory, datagrams: socket.socket, listener: socket.socket) -> None:
        self._directory = directory
        self._datagrams = datagrams
        self._listener = listener
        self._transport: asyncio.DatagramTransport | None = None
        self._server: asyncio.Server | None = None

    @classmethod
    async def open(cls, helper: Helper, directory: Directory) -> Self:
        """Serve at the gateway of the Pods' network."""
        address = str(helper.gateway)
        server = cls(directory, await helper.receive_datagrams(address, PORT), await helper.listen(address, PORT))
        await server._start()
        return server

    async def close(self) -> None:
        if self._transport:
            self._transport.close()
        if self._server:
            self._server.close()

    async def _start(self) -> None:
        loop = asyncio.get_running_loop()
        self._transport, _ = await loop.create_datagram_endpoint(
            lambda: _Datagrams(self._directory), sock=self._datagrams
        )
        self._server = await asyncio.start_server(self._serve, sock=self._listener)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(_TCP_SECONDS):
                while True:
                    (size,) = struct.unpack("!H", await reader.readexactly(2))
                    reply = answer(self._directory, await reader.readexactly(size))
                    if reply is None:
                        return
                    writer.write(struct.pack("!H", len(reply)) + reply)
                    await writer.drain()
        except (TimeoutError, asyncio.IncompleteReadError, ConnectionError):
            return
        finally:
            writer.close()


class _Datagrams(asyncio.DatagramProtocol):
    def __init__(self, directory: Directory) -> None:
        self._directory = directory
        self._transport: asyncio.DatagramTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.DatagramTransport, transport)

    def datagram_received(self, data: bytes, address: tuple[str, int]) -> None:
        reply = answer(self._directory, data, longest=_LONGEST_DATAGRAM)
        if reply is not None and self._transport:
            self._transport.sendto(reply, address)
