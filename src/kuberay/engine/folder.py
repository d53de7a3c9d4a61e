"""The data folder of a local engine: what lies where, and the lock that keeps a second engine out.

The lock is held by the running engine and dies with it, so it tells the truth even after `kill -9`; its content is
the engine's process id.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kuberay.engine.errors import AlreadyRunning, EngineError

if TYPE_CHECKING:
    from collections.abc import Iterator


def default_folder() -> Path:
    """`$KUBERAY_LOCAL_FOLDER`, or a folder among the user's own data."""
    given = os.environ.get("KUBERAY_LOCAL_FOLDER")
    if given:
        return Path(given).absolute()
    data = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(data) / "kuberay" / "local"


@dataclass(frozen=True, slots=True)
class DataFolder:
    """Where a local engine keeps its things."""

    path: Path

    @property
    def objects(self) -> Path:
        """The database with every API object."""
        return self.path / "objects.db"

    @property
    def credentials(self) -> Path:
        """The folder with the certificate authority, the serving certificate and the token."""
        return self.path / "credentials"

    @property
    def pods(self) -> Path:
        """The folder with each Pod's volumes and logs."""
        return self.path / "pods"

    @property
    def kubeconfig(self) -> Path:
        """What `KUBECONFIG` is set to."""
        return self.path / "kubeconfig"

    @property
    def addresses(self) -> Path:
        """The addresses on this machine at which dashboards are reached, as JSON."""
        return self.path / "addresses.json"

    @property
    def log(self) -> Path:
        """The log of an engine that was started in the background."""
        return self.path / "engine.log"

    @property
    def _lock(self) -> Path:
        return self.path / "engine.lock"

    def create(self) -> None:
        """Make the folder, readable by its user alone: it holds credentials and logs."""
        try:
            self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as problem:
            raise EngineError(
                f"cannot make the data folder {self.path}: {problem.strerror}. Choose another with --folder."
            ) from problem

    def engine(self) -> int | None:
        """The process id of the engine that uses this folder, or `None` when none does."""
        try:
            descriptor = os.open(self._lock, os.O_RDWR)
        except FileNotFoundError:
            return None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return None
        except BlockingIOError:
            return int(os.read(descriptor, 20) or b"0") or None
        finally:
            os.close(descriptor)

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        """Own the folder while the context lasts.

        :raises AlreadyRunning: another engine owns it.
        """
        descriptor = os.open(self._lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise AlreadyRunning(already_running(self, self.engine())) from None
            os.truncate(descriptor, 0)
            os.write(descriptor, str(os.getpid()).encode())
            yield
        finally:
            os.close(descriptor)


def already_running(folder: DataFolder, pid: int | None) -> str:
    """What to tell somebody who starts a second engine."""
    return (
        f"an engine already runs (pid {pid or 'unknown'}) in {folder.path}. To give it more manifests: "
        f"kubectl --kubeconfig {folder.kubeconfig} apply -f FILE. To start afresh: kuberay local down. "
        "For a second engine beside it: --folder ANOTHER_FOLDER --port 0."
    )
