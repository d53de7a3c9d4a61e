"""A real helper process, and containers run with a line of shell."""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from kuberay.engine.node.remote import Command, Exit, Helper, MemoryVolume, Process

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from pathlib import Path

    from kuberay.engine.node.helper.mounts import Mount

ENV = {"PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"}


@dataclass
class Container:
    """A started command and the pipe with what it prints."""

    process: Process
    _pipe: int

    async def output(self) -> str:
        """Everything it prints, once nobody holds its output open any more."""
        return (await asyncio.to_thread(_read_to_end, self._pipe)).decode()

    async def result(self) -> tuple[Exit, str]:
        output = await self.output()
        return await self.process.wait(), output

    async def line(self) -> str:
        """The next line it prints; for commands that go on."""
        return (await asyncio.to_thread(_read_line, self._pipe)).decode().strip()


@dataclass
class Sandboxes:
    """Makes sandboxes and containers in them."""

    helper: Helper
    folder: Path
    _count: int = 0
    _names: list[str] = field(default_factory=list)

    async def create(self, address: str = "10.244.0.5", memory: Sequence[MemoryVolume] = ()) -> str:
        name = f"sandbox-{address}"
        await self.helper.create_sandbox(name, address=address, hostname=f"pod-{len(self._names)}", memory=memory)
        self._names.append(name)
        return name

    async def start(
        self, sandbox: str, script: str, *, mounts: Sequence[Mount] = (), env: dict[str, str] = ENV, cwd: str = "/"
    ) -> Container:
        self._count += 1
        stage = self.folder / f"stage-{self._count}"
        stage.mkdir()
        reading, writing = os.pipe2(os.O_CLOEXEC)
        null = os.open(os.devnull, os.O_RDONLY)
        try:
            process = await self.helper.start_container(
                sandbox,
                Command(["/bin/sh", "-c", script], env, cwd),
                stage=str(stage),
                mounts=mounts,
                stdio=(null, writing, writing),
            )
        finally:
            os.close(writing)
            os.close(null)
        return Container(process, reading)

    async def run(self, script: str, *, mounts: Sequence[Mount] = (), cwd: str = "/") -> tuple[Exit, str]:
        sandbox = self._names[0] if self._names else await self.create()
        return await (await self.start(sandbox, script, mounts=mounts, cwd=cwd)).result()


@pytest.fixture
async def helper() -> AsyncIterator[Helper]:
    started = await Helper.start()
    yield started
    await started.close()


@pytest.fixture
def sandboxes(helper: Helper, tmp_path: Path) -> Sandboxes:
    return Sandboxes(helper, tmp_path)


def _read_to_end(pipe: int) -> bytes:
    with os.fdopen(pipe, "rb") as stream:
        return stream.read()


def _read_line(pipe: int) -> bytes:
    line = b""
    while not line.endswith(b"\n") and (character := os.read(pipe, 1)):
        line += character
    return line
