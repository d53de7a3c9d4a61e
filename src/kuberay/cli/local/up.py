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
@click.option(
    "--port", type=click.IntRange(0, 65535), default=None, show_default=str(PORT), help="API port; 0: any free."
)
@click.option("--timeout", type=float, default=300.0, show_default=True, help="Seconds to wait for readiness.")
@click.option(
    "--open-dashboards",
    is_flag=True,
    help="Let every user of this machine reach the dashboards: through them, each can run programs as you.",
)
@folder_option
def up(
    files: tuple[str, ...], detach: bool, port: int | None, timeout: float, open_dashboards: bool, folder: DataFolder
) -> None:
    """Start the engine, apply manifests, and follow every Pod until the clusters are ready.

    Clusters that an earlier engine left in the data folder come back too. Without --detach the engine runs until
    Ctrl-C, and everything it started ends with it. Where an engine runs in the folder already, manifests are applied
    to that one, and it goes on running.
    """
    from kuberay.cli.local.process import EngineProcess
    from kuberay.engine.errors import EngineError

    manifests = _read(files)
    _require_packages()
    if folder.engine() is not None:
        _require_port(folder, port)
        raise SystemExit(_apply_to_running(folder, manifests, timeout))
    if os.geteuid() == 0:
        click.echo("You are root, so Pods run as root: what they run can change everything on this machine.", err=True)
    try:
        engine = EngineProcess(
            folder, port=PORT if port is None else port, attached=not detach, open_dashboards=open_dashboards
        )
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


def _apply_to_running(folder: DataFolder, manifests: list[Manifest], timeout: float) -> int:
    """Apply manifests to the engine that runs already, and follow them; how the command ends."""
    from kuberay.cli.local.follow import Follower

    follower = Follower(folder, timeout=timeout, has_ended=lambda: folder.engine() is None)
    try:
        outcome = follower.run(manifests)
    except KeyboardInterrupt:
        return 130
    click.echo(outcome.text)
    return 0 if outcome.ready else 1


def _require_port(folder: DataFolder, port: int | None) -> None:
    """A running engine keeps its port; who asks for another one is told."""
    from kuberay.engine.folder import already_running
    from kuberay.kube.kubeconfig import load

    if port and not load(folder.kubeconfig).server.endswith(f":{port}"):
        raise click.ClickException(f"{already_running(folder)} It does not listen on port {port}.")


def _require_packages() -> None:
    """Laptop mode needs more than the operator; what is missing is told before anything starts."""
    import sys
    from importlib.util import find_spec

    missing = [name for name in ("ray", "jsonschema_rs") if find_spec(name) is None]
    if missing:
        raise click.ClickException(
            f"laptop mode needs {' and '.join(missing)}, which this Python does not have. To install what is missing: "
            f"{sys.executable} -m pip install 'kuberay[local]', or '.[local]' in a checkout."
        )


def _without_controller(manifest: Manifest) -> str:
    """Why a manifest of `ray.io` would be stored and nothing would come of it, or an empty text."""
    from kuberay.controllers.kinds import CONTROLLED

    kind = manifest.document["kind"]
    if not manifest.is_ray or kind in {each.kind for each in CONTROLLED}:
        return ""
    return f"{manifest.file}:{manifest.line} {manifest.title}: a {kind} has no controller yet, so nothing would run."


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
    if refused := [why for manifest in manifests if (why := _without_controller(manifest))]:
        raise click.ClickException("\n".join([*refused, "Nothing was started, and nothing was created."]))
    return manifests
