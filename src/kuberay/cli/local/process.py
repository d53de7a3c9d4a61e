"""The engine as a process of its own: starting it, hearing whether it came up, stopping it."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import msgspec

from kuberay.engine.errors import EngineError

if TYPE_CHECKING:
    from kuberay.engine.folder import DataFolder

START_TIMEOUT = 60.0
STOP_TIMEOUT = 60.0


class Report(msgspec.Struct, omit_defaults=True):
    """The one line an engine writes to its starter: it is ready, or why it is not."""

    ready: bool = False
    error: str = ""


class Starter:
    """The process that started this engine; it hears once how that went."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor: int | None = descriptor
        os.set_inheritable(descriptor, False)

    def tell(self, report: Report) -> None:
        """Send the report, unless one was sent before."""
        if self._descriptor is not None:
            os.write(self._descriptor, msgspec.json.encode(report) + b"\n")
            os.close(self._descriptor)
            self._descriptor = None


class EngineProcess:
    """An engine started by this process.

    :param attached: the engine ends with this process, even when that is killed.
    :param open_dashboards: every user of this machine may reach the dashboards.
    """

    def __init__(self, folder: DataFolder, *, port: int, attached: bool, open_dashboards: bool = False) -> None:
        self._folder = folder
        folder.create()
        reading, writing = os.pipe()
        self._reports = os.fdopen(reading, "rb")
        command = [sys.executable, "-m", "kuberay.cli", "local", "engine", f"--folder={folder.path}", f"--port={port}"]
        command += [f"--report={writing}"] + (["--attached"] if attached else [])
        command += ["--open-dashboards"] if open_dashboards else []
        with open(folder.log, "ab", opener=lambda path, flags: os.open(path, flags, 0o600)) as log:
            try:
                # A session of its own: Ctrl-C reaches us alone, and we stop the engine in order.
                self._process = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    pass_fds=[writing],
                    start_new_session=True,
                )
            finally:
                os.close(writing)

    def wait_until_ready(self) -> None:
        """Wait until it serves.

        :raises EngineError: it did not come up; the message says why.
        """
        with self._reports as reports:
            line = reports.readline()
        if not line:
            code = self._process.wait(timeout=START_TIMEOUT)
            raise EngineError(f"the engine ended with code {code} while it started. Its log: {self._folder.log}")
        report = msgspec.json.decode(line, type=Report)
        if not report.ready:
            self._process.wait(timeout=START_TIMEOUT)
            raise EngineError(report.error)

    def has_ended(self) -> bool:
        """Whether the engine is gone."""
        return self._process.poll() is not None

    def wait(self) -> int:
        """Wait until it ends by itself; its exit code."""
        return self._process.wait()

    def stop(self) -> None:
        """Stop it in order and wait until it is gone."""
        if not self.has_ended():
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(timeout=STOP_TIMEOUT)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()


def stop_engine(folder: DataFolder) -> bool:
    """Stop the engine of a folder, whoever started it; `False` when none runs.

    It gets a minute to stop its Pods in order. What is left then is killed: the kernel takes every process of an
    engine down with it.
    """
    pid = folder.engine()
    if pid is None:
        return False
    try:
        engine = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        for number, seconds in ((signal.SIGTERM, STOP_TIMEOUT), (signal.SIGKILL, 10.0)):
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(engine, number)
            if select.select([engine], [], [], seconds)[0]:
                return True
    finally:
        os.close(engine)
    raise EngineError(f"the engine (pid {pid}) does not end, not even when killed. Look at: ps -p {pid} -o stat,wchan")
