"""`kuberay local down`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from kuberay.cli.local.options import folder_option

if TYPE_CHECKING:
    from kuberay.engine.folder import DataFolder


@click.command()
@folder_option
@click.option(
    "--purge",
    is_flag=True,
    help="Also delete what the engine made in its data folder: every object, log and credential.",
)
def down(folder: DataFolder, purge: bool) -> None:
    """Stop the engine, its Pods and every process they started.

    The stored objects stay: the next `kuberay local up` brings the same clusters back. With --purge they go too, and
    with them all that the engine made in its folder; what others put there is kept.
    """
    from kuberay.cli.local import commands
    from kuberay.cli.local.process import stop_engine
    from kuberay.engine.errors import EngineError

    try:
        stopped = stop_engine(folder)
        click.echo("Stopped." if stopped else "No engine runs.")
        if purge and folder.path.exists():
            kept = folder.purge()
            if kept:
                click.echo(f"Deleted what the engine made in {folder.path}. Kept, for it is not the engine's:")
                click.echo("\n".join(f"  {name}" for name in kept))
            else:
                click.echo(f"Deleted {folder.path}.")
    except EngineError as problem:
        raise click.ClickException(str(problem)) from problem
    if stopped and not purge:
        again = commands.kuberay("up", folder=folder)
        click.echo(f"Its objects stay in {folder.path}: `{again}` brings them back.")
