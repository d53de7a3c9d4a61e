"""Options that the commands of `kuberay local` share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from kuberay.engine.folder import DataFolder, default_folder

if TYPE_CHECKING:
    from collections.abc import Callable

F = TypeVar("F", bound="Callable[..., object]")


def folder_option(command: F) -> F:
    """`--folder`: which engine is meant."""
    return click.option(
        "--folder",
        metavar="FOLDER",
        type=click.Path(path_type=Path, file_okay=False),
        default=default_folder,
        show_default="$KUBERAY_LOCAL_FOLDER or ~/.local/share/kuberay/local",
        callback=lambda _context, _option, path: DataFolder(path.absolute()),
        help="Data folder of the engine: objects, logs, credentials. One engine a folder.",
    )(command)
