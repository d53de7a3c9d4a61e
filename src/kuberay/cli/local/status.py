"""`kuberay local status`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from kuberay.cli.local.options import folder_option

if TYPE_CHECKING:
    from kuberay.engine.folder import DataFolder


@click.command()
@folder_option
def status(folder: DataFolder) -> None:
    """Show whether the engine runs, its clusters and Pods, and how to reach them. Exit code 3: no engine runs."""
    import asyncio

    from kuberay.cli.local import commands, progress
    from kuberay.cli.local.follow import connect, read_addresses
    from kuberay.controllers.kinds import RAY_CLUSTERS
    from kuberay.kube.errors import KubeError
    from kuberay.kube.resources import EVENTS, PODS

    pid = folder.engine()
    if pid is None:
        click.echo(f"No engine runs in {folder.path}. Start one: {commands.kuberay('up', '-f', 'FILE', folder=folder)}")
        raise SystemExit(3)

    async def look() -> tuple[dict[str, str], list[tuple[str, str]]]:
        async with connect(folder) as client:
            clusters = await client.list(RAY_CLUSTERS)
            pods = await client.list(PODS)
            warnings = progress.newest_warnings((await client.list(EVENTS)).items)
            rows = progress.table(clusters.items, pods.items, warnings)
            return read_addresses(folder, clusters.items), rows

    try:
        addresses, rows = asyncio.run(look())
    except KubeError as problem:
        raise click.ClickException(
            f"the engine (pid {pid}) does not answer: {problem}. Its log: {folder.log}"
        ) from problem
    click.echo(f"Engine      pid {pid}, data in {folder.path}")
    click.echo(f"kubectl     {commands.use_kubectl(folder)}")
    for name, address in addresses.items():
        click.echo(f"Dashboard   {address}   ({name})")
    for name, doing in rows:
        click.echo(f"  {name:<40} {doing}" if doing else name)
