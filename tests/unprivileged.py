"""Run a command, most often a test file, as a user without any rights; only root can do that.

    python -m tests.unprivileged pytest tests/engine/node/test_helper.py

An interpreter or a clone below a private home folder (mode 0700) is out of that user's reach. So the command runs in a
mount namespace of its own, where such a folder is covered by an empty one that shows what is needed and nothing else.
The machine itself is not changed. What nobody else may read deep inside, as after a clone with `umask 077`, stays out
of reach: then `Unreadable` says what to do.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kuberay.engine.node import syscalls

if TYPE_CHECKING:
    from collections.abc import Mapping

NOBODY = 65534
PROJECT = Path(__file__).parents[1]


class Unreadable(Exception):
    """Another user cannot read the project or its environment."""

    def __init__(self, path: Path) -> None:
        super().__init__(
            f"other users may not read {path}; these tests need that: chmod -R go+rX {PROJECT} {sys.prefix}"
        )


def run(
    arguments: list[str], *, timeout: float = 600, variables: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run the project's Python with `arguments` as nobody; stdout and stderr come back as one text."""
    for part in (
        PROJECT / "src" / "kuberay" / "__init__.py",
        PROJECT / "tests" / "unprivileged.py",
        Path(sys.prefix) / "bin" / "pytest",
    ):
        if unreadable := next((path for path in (part.parent, part) if not path.stat().st_mode & 0o004), None):
            raise Unreadable(unreadable)
    home = tempfile.mkdtemp(prefix="kuberay-nobody-", dir="/tmp")
    os.chown(home, NOBODY, NOBODY)
    environment = {
        "HOME": home,
        "TMPDIR": home,
        "PATH": os.environ["PATH"],
        "LANG": "C.UTF-8",
        "PYTHONDONTWRITEBYTECODE": "1",
        **(variables or {}),
    }
    try:
        return subprocess.run(
            [sys.executable, *arguments],
            preexec_fn=_drop_rights,
            env=environment,
            cwd=PROJECT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=timeout,
            check=False,
        )
    finally:
        shutil.rmtree(home)


def run_tests(
    *paths: str, timeout: float = 600, variables: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run test files as nobody; where nobody cannot read them, the calling test is skipped and says what to do."""
    try:
        return run(["-m", "pytest", "-q", "-p", "no:cacheprovider", *paths], timeout=timeout, variables=variables)
    except Unreadable as unreadable:
        pytest.skip(str(unreadable))


def _drop_rights() -> None:
    needed = [Path(sys.executable).resolve().parent, Path(sys.base_prefix), Path(sys.prefix), PROJECT]
    syscalls.unshare(syscalls.CLONE_NEWNS)
    syscalls.mount("none", "/", flags=syscalls.MS_REC | syscalls.MS_PRIVATE)
    for closed in {folder for path in needed if (folder := _closed_folder(path))}:
        _open_up(closed, [path for path in needed if path.is_relative_to(closed)])
    os.setgroups([])
    os.setresgid(NOBODY, NOBODY, NOBODY)
    os.setresuid(NOBODY, NOBODY, NOBODY)
    os.chdir(PROJECT)  # what was the working directory is covered now


def _closed_folder(path: Path) -> Path | None:
    """The outermost folder on the way to `path` that others may not enter."""
    return next((folder for folder in [*reversed(path.parents), path] if _is_closed(folder)), None)


def _is_closed(path: Path) -> bool:
    return path.is_dir() and path.stat().st_mode & 0o005 != 0o005


def _open_up(closed: Path, shown: list[Path]) -> None:
    """Cover a closed folder by an empty one in which `shown` can be found; one that is closed itself by its content."""
    paths = {
        path
        for folder in shown
        if not any(other != folder and folder.is_relative_to(other) for other in shown)
        for path in (folder.iterdir() if _is_closed(folder) else [folder])
    }
    handles = {path: os.open(path, os.O_PATH | os.O_NOFOLLOW) for path in paths if not path.is_symlink()}
    links = {path: path.readlink() for path in paths if path.is_symlink()}
    folders = {path for path in handles if path.is_dir()}
    syscalls.mount("tmpfs", str(closed), "tmpfs", data="mode=755")
    for path, target in links.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(target)
    for path, handle in handles.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.mkdir() if path in folders else path.touch()
        syscalls.bind(f"/proc/self/fd/{handle}", str(path))
        os.close(handle)


if __name__ == "__main__":
    finished = run(["-m", *sys.argv[1:]])
    print(finished.stdout)
    sys.exit(finished.returncode)
