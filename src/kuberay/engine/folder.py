"""The data folder of a local engine: what lies where, whose it is, and the lock that keeps a second engine out.

The lock is held by the running engine and dies with it, so it tells the truth even after `kill -9`; its content is
the engine's process id. A mark tells an engine's folder from every other: nothing is written to, and nothing deleted
from, a folder with things in it that are not an engine's.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kuberay.engine.errors import AlreadyRunning, EngineError, ForeignFolder

if TYPE_CHECKING:
    from collections.abc import Iterator

_MARK = b"This folder belongs to a local engine of kuberay."
_DATABASE = b"SQLite format 3\0"
_APPLICATION_ID = slice(68, 72)
"""Where SQLite keeps in its files which program they belong to."""
_OURS = b"kube"


def home_folder() -> Path:
    """A folder among the user's own data."""
    data = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(data) / "kuberay" / "local"


def default_folder() -> Path:
    """`$KUBERAY_LOCAL_FOLDER`, or a folder among the user's own data."""
    given = os.environ.get("KUBERAY_LOCAL_FOLDER")
    return Path(given).absolute() if given else home_folder()


class _Entry:
    """One thing that the engine keeps in its folder; as an attribute of a folder, its path.

    :param beside: names of what appears beside it while it is in use or being replaced.
    """

    def __init__(self, name: str, *beside: str, folder: bool = False) -> None:
        self.names = (name, *beside)
        self.is_folder = folder

    def __get__(self, folder: DataFolder, _owner: type[DataFolder]) -> Path:
        return folder.path / self.names[0]


@dataclass(frozen=True, slots=True)
class DataFolder:
    """Where a local engine keeps its things. Parts of the engine learn their places here, so that all are known."""

    path: Path

    # The database with every API object.
    objects = _Entry("objects.db", "objects.db-wal", "objects.db-shm", "objects.db-journal")
    # The certificate authority, the serving certificate and the token.
    credentials = _Entry("credentials", folder=True)
    # Each Pod's volumes and logs.
    pods = _Entry("pods", folder=True)
    # What `KUBECONFIG` is set to.
    kubeconfig = _Entry("kubeconfig", ".kubeconfig.new")
    # The addresses on this machine at which dashboards are reached, as JSON.
    addresses = _Entry("addresses.json", "addresses.new")
    # The log of an engine that was started in the background.
    log = _Entry("engine.log")
    # What tells that the folder is an engine's.
    mark = _Entry("engine.mark")
    _lock = _Entry("engine.lock")

    def create(self) -> None:
        """Make the folder, or take one that is empty or an engine's; for its user alone: it holds credentials.

        :raises ForeignFolder: there are other things in it, or it is somebody else's.
        :raises EngineError: it cannot be made.
        """
        try:
            self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
            found = self.path.stat()
            if found.st_uid != os.geteuid():
                raise ForeignFolder(
                    f"{self.path} belongs to another user (uid {found.st_uid}), who could read all that is in it. "
                    "Choose another with --folder."
                )
            if not self.is_engines():
                other = sorted(os.listdir(self.path))
                if other:
                    raise ForeignFolder(
                        f"{self.path} is not empty, and not the folder of an engine: it holds {_some(other)}. "
                        "Choose another with --folder."
                    )
            self._make_private(found.st_mode)
            self._put_mark()
        except OSError as problem:
            raise EngineError(
                f"cannot make the data folder {self.path}: {problem.strerror}. Choose another with --folder."
            ) from problem

    def is_engines(self) -> bool:
        """Whether an engine made this folder: it has the mark, or, from before there was one, our own database."""
        with contextlib.suppress(OSError):
            if _beginning(self.mark, len(_MARK)) == _MARK:
                return True
        with contextlib.suppress(OSError):
            _beginning(self._lock, 0)
            header = _beginning(self.objects, 100)
            return header.startswith(_DATABASE) and header[_APPLICATION_ID] == _OURS
        return False

    def purge(self) -> list[str]:
        """Delete what the engine made here, and the folder when it is empty then; the names of what was kept.

        Links are never followed, and what has the name of an engine's thing without being one is kept.

        :raises ForeignFolder: it is not the folder of an engine; nothing was deleted.
        :raises AlreadyRunning: an engine uses it.
        :raises EngineError: something could not be deleted.
        """
        if self.path.is_symlink():
            raise ForeignFolder(f"{self.path} is a link. Name the folder itself: --folder {self.path.resolve()}")
        if not self.is_engines():
            raise ForeignFolder(
                f"{self.path} is not the folder of an engine: it has no {self.mark.name}. Nothing was deleted."
            )
        try:
            descriptor = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                with self.lock():
                    # The mark and the lock go last, so that what was interrupted can be done again.
                    for entry in sorted(_ENTRIES, key=_LAST.__contains__):
                        _remove(descriptor, entry)
                kept = sorted(os.listdir(descriptor))
            finally:
                os.close(descriptor)
            if not kept:
                self.path.rmdir()
        except OSError as problem:
            raise EngineError(f"cannot delete {problem.filename or self.path}: {problem.strerror}") from problem
        return kept

    def _make_private(self, mode: int) -> None:
        """Close the folder and its things to everybody else, whoever opened them."""
        if mode & 0o077:
            os.chmod(self.path, 0o700)
        for entry in _ENTRIES:
            for name in entry.names:
                with contextlib.suppress(FileNotFoundError):
                    place = self.path / name
                    found = place.lstat()
                    if _is_as(found, entry) and found.st_mode & 0o077:
                        place.chmod(0o700 if entry.is_folder else 0o600)

    def _put_mark(self) -> None:
        with contextlib.suppress(FileExistsError):
            descriptor = os.open(self.mark, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(_MARK + b" `kuberay local down --purge` deletes what the engine made in it.\n")

    def engine(self) -> int | None:
        """The process id of the engine that uses this folder, or `None` when none does."""
        try:
            descriptor = os.open(self._lock, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as problem:
            raise EngineError(f"cannot look at {self._lock}: {problem.strerror}") from problem
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return None
        except BlockingIOError:
            content = os.read(descriptor, 20)
            return int(content) if content.isdigit() else None
        finally:
            os.close(descriptor)

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        """Own the folder while the context lasts.

        :raises AlreadyRunning: another engine owns it.
        """
        descriptor = os.open(self._lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise AlreadyRunning(already_running(self)) from None
            os.truncate(descriptor, 0)
            os.write(descriptor, str(os.getpid()).encode())
            yield
        finally:
            os.close(descriptor)


_ENTRIES = tuple(each for each in vars(DataFolder).values() if isinstance(each, _Entry))
_LAST = (vars(DataFolder)["mark"], vars(DataFolder)["_lock"])
KNOWN_NAMES = frozenset(name for entry in _ENTRIES for name in entry.names)
"""Everything an engine may make in its folder."""


def _beginning(path: Path, size: int) -> bytes:
    """The first bytes of a plain file; a link is none."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(f"{path} is not a plain file")
        return file.read(size)


def _remove(folder: int, entry: _Entry) -> None:
    for name in entry.names:
        with contextlib.suppress(FileNotFoundError):
            if not _is_as(os.stat(name, dir_fd=folder, follow_symlinks=False), entry):
                continue
            if entry.is_folder:
                shutil.rmtree(name, dir_fd=folder)
            else:
                os.unlink(name, dir_fd=folder)


def _is_as(found: os.stat_result, entry: _Entry) -> bool:
    """Whether something is of the kind that the engine would have made under its name."""
    return stat.S_ISDIR(found.st_mode) if entry.is_folder else stat.S_ISREG(found.st_mode)


def _some(names: list[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def already_running(folder: DataFolder) -> str:
    """What to tell somebody who starts a second engine."""
    return (
        f"an engine already runs (pid {folder.engine() or 'unknown'}) in {folder.path}. "
        "For a second engine beside it: --folder ANOTHER_FOLDER --port 0."
    )
