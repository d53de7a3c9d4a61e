"""Whose program is at the other end of a TCP connection on this machine, as the kernel knows it."""

from __future__ import annotations

import contextlib
import socket
import sys

_TABLES = ("/proc/net/tcp", "/proc/net/tcp6")
_UID, _INODE = 7, 9
_MAPPED = bytes(10) + b"\xff\xff"  # an IPv6 socket that speaks IPv4


def uid_of_peer(connection: socket.socket) -> int | None:
    """The user who made the socket at the other end; `None` when no living socket of this machine is found there.

    A socket that its program has closed stays listed for a while, without a file (inode 0) and, sooner or later, as
    root's. It does not count: else whoever sends a request and closes at once would pass for root.
    """
    if connection.family != socket.AF_INET:
        return None
    with contextlib.suppress(OSError):
        theirs, ours = connection.getpeername(), connection.getsockname()
        rows = [f" {_end(prefix, theirs)} {_end(prefix, ours)} " for prefix in (b"", _MAPPED)]
        for table, row in zip(_TABLES, rows, strict=True):
            with contextlib.suppress(FileNotFoundError), open(table, encoding="ascii") as lines:
                if found := next((line.split() for line in lines if row in line), None):
                    return int(found[_UID]) if found[_INODE] != "0" else None
    return None


def _end(prefix: bytes, address: tuple[str, int]) -> str:
    """One end as the tables spell it: the address in words of the machine's byte order, then the port."""
    host, port = address
    packed = prefix + socket.inet_aton(host)
    words = [int.from_bytes(packed[start : start + 4], sys.byteorder) for start in range(0, len(packed), 4)]
    return "".join(f"{word:08X}" for word in words) + f":{port:04X}"
