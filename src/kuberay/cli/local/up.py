"""`kuberay local up`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from kuberay.cli.local.options import folder_option

if TYPE_CHECKING:
    from kuberay.cli.manifests import Manifest
    from kuberay.engine.folder import DataFolder

PORT = 16443


@click.command()
@click.option(
    "-f",
    "--file",
    "files",
    multiple=True,
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False, allow_dash=True),
    help="Manifest to apply, `-` for standard input. May be given several times.",
)
@click.option("-d", "--detach", is_flag=True, help="Leave the engine running in the background once all is ready.")
@click.option("--port", type=click.IntRange(0, 65535), default=PORT, show_default=True, help="API port; 0: any free.")
@click.option("--timeout", type=float, default=300.0, show_default=True, help="Seconds to wait for readiness.")
@click.option(
    "--open-dashboards",
    is_flag=True,
    help="Let every user of this machine reach the dashboards: through them, each can run programs as you.",
)
@folder_option
def up(
    files: tuple[str, ...], detach: bool, port: int, timeout: float, open_dashboards: bool, folder: DataFolder
) -> None:
    """Start the engine, apply manifests, and follow every Pod until the clusters are ready.

    Clusters that an earlier engine left in the data folder come back too. Without --detach the engine runs until
    Ctrl-C, and everything it started ends with it.
    """
    from kuberay.cli.local.process import EngineProcess
    from kuberay.engine.errors import EngineError
    from kuberay.engine.folder import already_running

    manifests = _read(files)
    pid = folder.engine()
    if pid is not None:
        raise click.ClickException(already_running(folder, pid))
    if os.geteuid() == 0:
        click.echo("You are root, so Pods run as root: what they run can change everything on this machine.", err=True)
    try:
        engine = EngineProcess(folder, port=port, attached=not detach, open_dashboards=open_dashboards)
        from kuberay.cli.local.follow import Follower  # takes a while to import, and so does the engine

        engine.wait_until_ready()
    except EngineError as problem:
        raise click.ClickException(str(problem)) from problem

    follower = Follower(folder, timeout=timeout, has_ended=engine.has_ended)
    try:
        outcome = follower.run(manifests)
        click.echo(outcome.text)
        if not detach:
            click.echo("Press Ctrl-C to stop the engine and everything it runs.")
            engine.wait()
    except KeyboardInterrupt:
        click.echo("\nStopping.", err=True)
        engine.stop()
        raise SystemExit(130) from None
    except click.ClickException:
        engine.stop()
        raise
    if not outcome.ready:
        raise SystemExit(1)


def _read(files: tuple[str, ...]) -> list[Manifest]:
    """The objects of all files, or every reason why not."""
    from kuberay.api.validate.objects import Rules
    from kuberay.cli.manifests import Finding, examine, knows_time_zone

    manifests: list[Manifest] = []
    findings: list[Finding] = []
    for file in files:
        for item in examine(file, Rules(knows_time_zone)):
            if isinstance(item, Finding):
                findings.append(item)
            else:
                manifests.append(item)
    for finding in findings:
        click.echo(str(finding), err=True)
    if any(finding.severity != "warning" for finding in findings):
        raise click.ClickException("nothing was started: mend the manifests first.")
    return manifests
