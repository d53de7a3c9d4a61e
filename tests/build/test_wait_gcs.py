"""The init container's script, run for real: against nothing, against servers that are not ready, against Ray."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kuberay.build import wait_gcs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SERVING = b"\x00\x00\x00\x00\x02\x08\x01"
NOT_SERVING = b"\x00\x00\x00\x00\x02\x08\x02"


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload


def answer(message: bytes) -> bytes:
    """A gRPC answer: settings, headers (`:status: 200`), the message, and trailers that end the stream."""
    return frame(4, 0, 0) + frame(1, 4, 1, b"\x88") + frame(0, 0, 1, message) + frame(1, 5, 1, b"\x88")


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


@pytest.fixture
def serve(listener: socket.socket) -> Iterator[Callable[..., int]]:
    """Start a server that gives each connection the next answer (the last one again and again); returns its port."""
    threads: list[threading.Thread] = []

    def start(*answers: bytes) -> int:
        def run() -> None:
            served = 0
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection:
                    connection.recv(4096)
                    connection.sendall(answers[min(served, len(answers) - 1)])
                    served += 1

        threads.append(threading.Thread(target=run))
        threads[0].start()
        return int(listener.getsockname()[1])

    yield start
    listener.shutdown(socket.SHUT_RDWR)
    for thread in threads:
        thread.join(timeout=10)


def probe(port: int) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-I", "-S", "-c", wait_gcs.PROBE, "127.0.0.1", str(port)]
    return subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)


def bin_folder(tmp_path: Path, **commands: str) -> Path:
    """A folder for PATH that holds these commands (as shell text) and the few that the script needs."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "sleep").write_text("#!/bin/sh\n")
    for name, text in commands.items():
        (folder / name).write_text(f"#!/bin/bash\n{text}\n")
    for file in folder.iterdir():
        file.chmod(0o755)
    return folder


def wait(path: Path, host: str, port: int, **env: str) -> str:
    """Run the whole script to its end and return what it printed."""
    command = ["/bin/bash", "-c", "--", wait_gcs.script(host, str(port))]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=30, check=True, env={"PATH": str(path), **env}
    )
    return done.stdout


class TestOneCheck:
    def test_a_gcs_that_serves(self, serve: Callable[..., int]) -> None:
        assert probe(serve(answer(SERVING))).returncode == 0

    def test_a_gcs_that_is_not_there_yet(self, listener: socket.socket) -> None:
        port = listener.getsockname()[1]
        listener.close()
        done = probe(port)
        assert done.returncode == 1
        assert f"127.0.0.1:{port}" in done.stderr
        assert "refused" in done.stderr

    def test_a_gcs_that_answers_but_does_not_serve(self, serve: Callable[..., int]) -> None:
        done = probe(serve(answer(NOT_SERVING)))
        assert done.returncode == 1
        assert "does not serve yet" in done.stderr

    def test_a_connection_that_is_closed_without_an_answer(self, serve: Callable[..., int]) -> None:
        done = probe(serve(b""))
        assert done.returncode == 1
        assert "closed the connection" in done.stderr

    @pytest.mark.parametrize(
        "text",
        [
            pytest.param(frame(4, 0, 0) + frame(1, 5, 1, b"\x88"), id="no such service"),
            pytest.param(frame(4, 0, 0) + frame(3, 0, 1, bytes(4)), id="stream reset"),
            pytest.param(frame(7, 0, 0, bytes(8)), id="go away"),
            pytest.param(b"HTTP/1.1 400 Bad Request\r\n\r\n", id="not HTTP/2"),
        ],
    )
    def test_an_answer_that_says_nothing_about_health(self, serve: Callable[..., int], text: bytes) -> None:
        assert probe(serve(text)).returncode == 2

    def test_it_holds_nothing_that_the_script_or_kubernetes_would_take_for_its_own(self) -> None:
        assert "'" not in wait_gcs.PROBE
        assert "$(" not in wait_gcs.script("host", "6379")


class TestWaiting:
    def test_it_ends_as_soon_as_the_gcs_serves(self, serve: Callable[..., int], tmp_path: Path) -> None:
        port = serve(b"", answer(NOT_SERVING), answer(SERVING))
        folder = bin_folder(tmp_path, python3=f'exec {sys.executable} "$@"', ray="exit 1")
        lines = wait(folder, "127.0.0.1", port).splitlines()
        assert [line.partition(": ")[2] for line in lines[:2]] == [f"waiting for the GCS at 127.0.0.1:{port}."] * 2
        assert lines[2:] == ["GCS is ready."]

    def test_after_two_minutes_it_shows_why(self, tmp_path: Path) -> None:
        folder = bin_folder(
            tmp_path, python3=f"if [[ -e {tmp_path}/seen ]]; then exit 0; fi; : > {tmp_path}/seen; echo why; exit 1"
        )
        command = wait_gcs.script("h", "1").replace("SECONDS=0", "SECONDS=121")
        done = subprocess.run(
            ["/bin/bash", "-c", "--", command],
            capture_output=True,
            text=True,
            timeout=30,
            check=True,
            env={"PATH": str(folder)},
        )
        first, second, third = done.stdout.splitlines()
        assert first == "why"
        assert "still waiting for the GCS at h:1" in second
        assert "https://docs.ray.io/" in second
        assert third == "GCS is ready. Errors above can be ignored."

    @pytest.mark.parametrize(
        "env", [{"RAY_USE_TLS": "1"}, {"RAY_USE_TLS": "true"}, {"RAY_AUTH_MODE": "token"}], ids=str
    )
    def test_with_tls_or_tokens_ray_itself_is_asked(self, tmp_path: Path, env: dict[str, str]) -> None:
        folder = bin_folder(tmp_path, python3="exit 1", ray=f'echo "$@" > {tmp_path}/asked')
        assert wait(folder, "h", 6379, **env) == "GCS is ready.\n"
        assert (tmp_path / "asked").read_text() == "health-check --address h:6379\n"

    @pytest.mark.parametrize("env", [{"RAY_USE_TLS": "0"}, {"RAY_AUTH_MODE": "disabled"}, {"RAY_USE_TLS": "false"}])
    def test_with_both_switched_off_it_is_not(self, tmp_path: Path, env: dict[str, str]) -> None:
        folder = bin_folder(tmp_path, python3="exit 0")
        assert wait(folder, "h", 6379, **env) == "GCS is ready.\n"

    def test_without_python_ray_itself_is_asked(self, tmp_path: Path) -> None:
        assert wait(bin_folder(tmp_path, ray="exit 0"), "h", 6379) == "GCS is ready.\n"

    def test_when_the_answer_is_not_understood_ray_itself_is_asked(self, tmp_path: Path) -> None:
        folder = bin_folder(tmp_path, python="exit 2", ray="exit 0")
        assert wait(folder, "h", 6379) == "GCS is ready.\n"


@pytest.mark.ray
@pytest.mark.timeout(180)
class TestAgainstRay:
    def test_a_real_head_becomes_ready(self, listener: socket.socket, tmp_path: Path) -> None:
        port = listener.getsockname()[1]
        listener.close()
        ray = Path(sys.executable).with_name("ray")
        options = [f"--port={port}", "--num-cpus=1", "--include-dashboard=false", "--disable-usage-stats", "--block"]
        temporary = f"/tmp/ray-wait-{port}"
        log = (tmp_path / "ray.log").open("wb")
        assert probe(port).returncode == 1
        head = subprocess.Popen(
            [ray, "start", "--head", "--node-ip-address=127.0.0.1", f"--temp-dir={temporary}", *options],
            stdout=log,
            stderr=subprocess.STDOUT,
        )
        try:
            deadline = time.monotonic() + 120
            while (result := probe(port)).returncode == 1 and time.monotonic() < deadline and head.poll() is None:
                threading.Event().wait(0.2)
            assert result.returncode == 0, result.stderr + (tmp_path / "ray.log").read_text()
            started = time.monotonic()
            assert probe(port).returncode == 0
            assert time.monotonic() - started < 2
            check = subprocess.run([ray, "health-check", "--address", f"127.0.0.1:{port}"], timeout=60, check=False)
            assert check.returncode == 0
        finally:
            head.terminate()
            head.wait(timeout=60)
            log.close()
            subprocess.run(["rm", "-rf", temporary], check=True)
