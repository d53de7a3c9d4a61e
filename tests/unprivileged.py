"""Run a command, most often a test file, as a user without any rights; only root can do that.

    python -m tests.unprivileged pytest tests/engine/node/test_helper.py

An interpreter below a private home folder (mode 0700) is out of that user's reach. So the command runs in a mount
namespace of its own, where such a folder is covered by an empty one that shows what is needed and nothing else.
The machine itself is not changed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from kuberay.engine.node import syscalls

if TYPE_CHECKING:
    from collections.abc import Mapping

NOBODY = 65534
PROJECT = Path(__file__).parents[1]


def run(
    arguments: list[str], *, timeout: float = 600, variables: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run the project's Python with `arguments` as nobody; stdout and stderr come back as one text."""
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
    """Run test files as nobody."""
    return run(["-m", "pytest", "-q", "-p", "no:cacheprovider", *paths], timeout=timeout, variables=variables)


def _drop_rights() -> None:
    needed = [Path(sys.executable).resolve(), Path(sys.base_prefix), Path(sys.prefix), PROJECT]
    syscalls.unshare(syscalls.CLONE_NEWNS)
    syscalls.mount("none", "/", flags=syscalls.MS_REC | syscalls.MS_PRIVATE)
    for closed in {folder for path in needed if (folder := _closed_folder(path))}:
        _open_up(closed, [path if path.is_dir() else path.parent for path in needed if path.is_relative_to(closed)])
    os.setgroups([])
    os.setresgid(NOBODY, NOBODY, NOBODY)
    os.setresuid(NOBODY, NOBODY, NOBODY)


def _closed_folder(path: Path) -> Path | None:
    """The outermost folder on the way to `path` that others may not enter."""
    for folder in [*reversed(path.parents), path]:
        if folder.is_dir() and not folder.stat().st_mode & 0o001:
            return folder
    return None


def _open_up(closed: Path, shown: list[Path]) -> None:
    handles = {path: os.open(path, os.O_PATH | os.O_DIRECTORY) for path in shown}
    syscalls.mount("tmpfs", str(closed), "tmpfs", data="mode=755")
    for path, handle in handles.items():
        if not path.exists():
            path.mkdir(parents=True)
            syscalls.bind(f"/proc/self/fd/{handle}", str(path))
        os.close(handle)


if __name__ == "__main__":
    finished = run(["-m", *sys.argv[1:]])
    print(finished.stdout)
    sys.exit(finished.returncode)
