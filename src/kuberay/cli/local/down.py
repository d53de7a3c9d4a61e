"""`kuberay local down`."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import click

from kuberay.cli.local.options import folder_option

if TYPE_CHECKING:
    from kuberay.engine.folder import DataFolder


@click.command()
@folder_option
@click.option("--purge", is_flag=True, help="Also delete the data folder: every object, log and credential in it.")
def down(folder: DataFolder, purge: bool) -> None:
    """Stop the engine, its Pods and every process they started.

    The stored objects stay: the next `kuberay local up` brings the same clusters back. With --purge they go too.
    """
    from kuberay.cli.local.process import stop_engine
    from kuberay.engine.errors import EngineError

    try:
        stopped = stop_engine(folder)
    except EngineError as problem:
        raise click.ClickException(str(problem)) from problem
    click.echo("Stopped." if stopped else "No engine runs.")
    if purge and folder.path.exists():
        shutil.rmtree(folder.path)
        click.echo(f"Deleted {folder.path}.")
    elif stopped:
        click.echo(f"Its objects stay in {folder.path}: `kuberay local up` brings them back.")
