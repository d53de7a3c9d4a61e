"""Short commands beside a container's own: exec probes and lifecycle hooks."""

from __future__ import annotations

import asyncio
import contextlib
import os
from typing import TYPE_CHECKING

from kuberay.engine.node.errors import StartFailed

if TYPE_CHECKING:
    from kuberay.engine.node.remote import Command, Exit, Helper, Process

_MOST_OUTPUT = 10 << 10
_LINGER_SECONDS = 1.0


async def run(helper: Helper, container: Process, command: Command, *, timeout: float) -> tuple[Exit | None, str]:
    """Run a command in a container: how it ended and the beginning of what it printed.

    No exit means that it was not done in time (and was killed), or could not be started.
    """
    reading, writing = os.pipe2(os.O_CLOEXEC)
    null = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    output = _Output(reading)
    try:
        process = await helper.join_container(container, command, stdio=(null, writing, writing))
    except StartFailed as problem:
        output.close()
        return None, str(problem)
    finally:
        os.close(writing)
        os.close(null)
    try:
        async with asyncio.timeout(timeout):
            ended = await process.wait()
    except TimeoutError:
        await process.kill()
        return None, f"command timed out after {timeout:g}s"
    finally:
        await output.drain()
        output.close()
    return ended, output.text


class _Output:
    def __init__(self, reading: int) -> None:
        self._reading = reading
        self._data = bytearray()
        self._ended = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        os.set_blocking(reading, False)
        self._loop.add_reader(reading, self._read)

    @property
    def text(self) -> str:
        return bytes(self._data[:_MOST_OUTPUT]).decode(errors="replace").strip()

    async def drain(self) -> None:
        """Wait for the end of the output, but not for a grandchild that keeps it open."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LINGER_SECONDS):
                await self._ended.wait()

    def close(self) -> None:
        if self._reading >= 0:
            self._loop.remove_reader(self._reading)
            os.close(self._reading)
            self._reading = -1

    def _read(self) -> None:
        try:
            data = os.read(self._reading, 4096)
        except BlockingIOError:
            return
        if len(self._data) < _MOST_OUTPUT:
            self._data += data
        if not data:
            self._loop.remove_reader(self._reading)
            self._ended.set()
