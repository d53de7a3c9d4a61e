"""Our API server on loopback in a thread of its own, and the real kubectl against it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import subprocess
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson

from kuberay.engine.apiserver import ADMIN, ApiServer, MemoryStorage
from kuberay.engine.apiserver.certificates import ensure
from kuberay.engine.apiserver.credentials import Tokens, ensure_token, kubeconfig, write_kubeconfig
from kuberay.engine.apiserver.http import HttpFront
from kuberay.kube.transport import Request

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine, Iterator, Mapping
    from pathlib import Path

    from kuberay.engine.streams import LogOptions
    from kuberay.kube.transport import Response


class Diary:
    """A node that has written the same lines for every container."""

    lines = (b"first\n", b"second\n", b"third\n")

    async def logs(self, pod: Mapping[str, Any], container: str, options: LogOptions) -> AsyncIterator[bytes]:
        lines = self.lines[-options.tail_lines :] if options.tail_lines else self.lines
        for line in lines:
            yield b"%s: %s" % (container.encode(), line)


@dataclass(frozen=True)
class Cluster:
    """A running server."""

    server: ApiServer
    storage: MemoryStorage
    loop: asyncio.AbstractEventLoop
    program: Path
    home: Path
    url: str

    def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        """What kubectl prints, on either stream, without trailing blanks; whether it succeeded is in the text."""
        done = self.run(*arguments, stdin=stdin)
        return "\n".join(line.rstrip() for line in (done.stdout + done.stderr).rstrip("\n").split("\n"))

    def run(self, *arguments: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(*arguments), input=stdin, capture_output=True, text=True, timeout=30, env=self.environment()
        )

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """kubectl in the background, for what does not end by itself."""
        return subprocess.Popen(
            self.command(*arguments),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            bufsize=1,
            env=self.environment(),
        )

    def command(self, *arguments: str) -> list[str]:
        return [str(self.program), "--request-timeout=20s", *arguments]

    def environment(self) -> dict[str, str]:
        return {**os.environ, "HOME": str(self.home), "KUBECONFIG": str(self.home / "kubeconfig")}

    def send(self, method: str, path: str, body: Any = None, content: str = "application/json") -> Response:
        """A request from inside: what a controller or a node would write."""
        request = Request(method, path, (), {"content-type": content}, orjson.dumps(body) if body is not None else None)
        answer = self.wait(self.server.handle(request))
        assert answer.status < 300, answer.body
        found: Response = answer
        return found

    def status(self, path: str, status: Any) -> None:
        """Report a status as its controller would."""
        self.send("PATCH", f"{path}/status", {"status": status}, "application/merge-patch+json")

    def until_watched(self, table: str) -> None:
        """Return when somebody waits for changes of a table."""
        deadline = time.monotonic() + 20
        while not self.storage.watchers(table):
            assert time.monotonic() < deadline, f"nobody watches {table}"
            time.sleep(0.01)

    def wait(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(20)


@contextlib.contextmanager
def cluster(program: Path, home: Path) -> Iterator[Cluster]:
    """Serve an empty cluster until the block is left."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    listening = socket.create_server(("127.0.0.1", 0))
    url = f"https://127.0.0.1:{listening.getsockname()[1]}"
    certificates = ensure(home / "certificates")
    token = ensure_token(home / "token")
    tokens = Tokens()
    tokens.add(token, ADMIN)
    write_kubeconfig(
        home / "kubeconfig", kubeconfig(server=url, authority=certificates.authority.read_bytes(), token=token)
    )
    storage = MemoryStorage()
    server = ApiServer(storage, streams=Diary())

    async def start() -> HttpFront:
        front = HttpFront(server, tokens, certificates.server_context())
        await front.serve(listening)
        return front

    front = asyncio.run_coroutine_threadsafe(start(), loop).result(10)
    try:
        yield Cluster(server, storage, loop, program, home, url)
    finally:
        asyncio.run_coroutine_threadsafe(front.stop(), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()
