"""Commands as they are printed for a user to type: each works as it stands, in any folder and any shell."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from kuberay.engine.folder import home_folder

if TYPE_CHECKING:
    from kuberay.engine.folder import DataFolder


def kuberay(command: str, *arguments: str, folder: DataFolder) -> str:
    """`kuberay local COMMAND` on the engine of a folder."""
    where = [] if folder.path == home_folder() else ["--folder", str(folder.path)]
    return f"{_program('kuberay', 'kuberay.cli')} {shlex.join(['local', command, *arguments, *where])}"


def ray(*arguments: str) -> str:
    """A command of the Ray that Pods run on."""
    return f"{_program('ray', 'ray.scripts.scripts')} {shlex.join(arguments)}"


def use_kubectl(folder: DataFolder) -> str:
    """What makes the kubectl of a shell speak to the engine of a folder."""
    missing = "" if shutil.which("kubectl") else "   (kubectl itself is not on PATH: install it)"
    return f"export KUBECONFIG={shlex.quote(str(folder.kubeconfig))}{missing}"


def _program(name: str, module: str) -> str:
    """How to call a program of our own Python environment: by its name where a shell finds that one, else by path."""
    own = Path(sys.executable).with_name(name)
    if not own.exists():
        return f"{shlex.quote(sys.executable)} -m {module}"
    found = shutil.which(name)
    return name if found and os.path.samefile(found, own) else shlex.quote(str(own))
