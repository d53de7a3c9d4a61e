"""Messages with file descriptors over one Unix socket, between the engine and its helper process.

A message is JSON behind its length; descriptors travel with the bytes of the message they belong to. Used on both
sides, so it knows neither asyncio nor anything else that takes time to import.
"""

from __future__ import annotations

import array
import json
import os
import socket
import struct
from typing import Any

_LENGTHS = struct.Struct("=II")
_MOST_DESCRIPTORS = 16
_CHUNK = 1 << 16

Message = dict[str, Any]


class Disconnected(Exception):
    """The other side is gone."""


class Channel:
    """One end. Descriptors that were sent stay open here: their owner closes them."""

    def __init__(self, sock: socket.socket) -> None:
        self.socket = sock
        self._incoming = bytearray()
        self._descriptors: list[int] = []
        self._outgoing: list[tuple[memoryview, list[int]]] = []

    @property
    def has_unsent(self) -> bool:
        return bool(self._outgoing)

    def send(self, message: Message, descriptors: list[int] | None = None) -> None:
        """Queue a message and send as much as the socket takes now.

        Descriptors are duplicated, so the caller may close its own at once.
        """
        body = json.dumps(message, separators=(",", ":")).encode()
        copies = [os.dup(descriptor) for descriptor in descriptors or ()]
        self._outgoing.append((memoryview(_LENGTHS.pack(len(body), len(copies)) + body), copies))
        self.flush()

    def flush(self) -> None:
        """Send what is queued, until the socket would block.

        :raises Disconnected: nobody reads any more.
        """
        while self._outgoing:
            data, descriptors = self._outgoing[0]
            ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))] if descriptors else []
            try:
                sent = self.socket.sendmsg([data], ancillary)
            except BlockingIOError:
                return
            except OSError as problem:
                raise Disconnected(str(problem)) from problem
            for descriptor in descriptors:
                os.close(descriptor)
            if sent < len(data):
                self._outgoing[0] = (data[sent:], [])
            else:
                self._outgoing.pop(0)

    def receive(self) -> list[tuple[Message, list[int]]]:
        """The messages that are complete by now, each with its descriptors; waits only if the socket does.

        :raises Disconnected: the other side closed its end.
        """
        try:
            data, descriptors, _, _ = socket.recv_fds(self.socket, _CHUNK, _MOST_DESCRIPTORS, socket.MSG_CMSG_CLOEXEC)
        except BlockingIOError:
            return []
        except OSError as problem:
            raise Disconnected(str(problem)) from problem
        if not data:
            raise Disconnected("end of stream")
        self._incoming += data
        self._descriptors += descriptors
        return self._complete()

    def _complete(self) -> list[tuple[Message, list[int]]]:
        messages = []
        while len(self._incoming) >= _LENGTHS.size:
            size, count = _LENGTHS.unpack_from(self._incoming)
            end = _LENGTHS.size + size
            if len(self._incoming) < end:
                break
            message = json.loads(self._incoming[_LENGTHS.size : end])
            messages.append((message, self._descriptors[:count]))
            del self._incoming[:end]
            del self._descriptors[:count]
        return messages

    def close(self) -> None:
        self.socket.close()
        for _, descriptors in self._outgoing:
            for descriptor in descriptors:
                os.close(descriptor)
        for descriptor in self._descriptors:
            os.close(descriptor)
        self._outgoing, self._descriptors = [], []
