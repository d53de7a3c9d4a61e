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
    return f"{_program('kuberay')} {shlex.join(['local', command, *arguments, *where])}"


def _program(name: str) -> str:
    """How to call a program of our own Python environment: by its name where a shell finds that one, else by path."""
    own = Path(sys.executable).with_name(name)
    if not own.exists():
        return f"{shlex.quote(sys.executable)} -m kuberay.cli"
    found = shutil.which(name)
    return name if found and os.path.samefile(found, own) else shlex.quote(str(own))
