"""`kuberay local engine`: the process that `kuberay local up` starts. Not for users."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from kuberay.cli.local.options import folder_option

if TYPE_CHECKING:
    from kuberay.engine.folder import DataFolder


@click.command(hidden=True)
@folder_option
@click.option("--port", type=int, required=True)
@click.option("--report", type=int, required=True, help="Descriptor to which one line tells the starter how it went.")
@click.option("--attached", is_flag=True, help="End when the starter ends.")
@click.option("--open-dashboards", is_flag=True, help="Let every user of this machine reach the dashboards.")
def engine(folder: DataFolder, port: int, report: int, attached: bool, open_dashboards: bool) -> None:
    """Run the engine in this process until it is told to stop."""
    from kuberay.cli.local.process import Report, Starter
    from kuberay.engine.engine import Settings, run
    from kuberay.engine.errors import EngineError

    starter = Starter(report)
    settings = Settings(folder=folder, port=port, attached=attached, open_dashboards=open_dashboards)
    try:
        run(settings, ready=lambda: starter.tell(Report(ready=True)))
    except EngineError as problem:
        starter.tell(Report(error=str(problem)))
        raise SystemExit(f"Error: {problem}") from problem
