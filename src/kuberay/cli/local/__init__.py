"""`kuberay local`: the engine that runs manifests on this machine."""

from __future__ import annotations

import click

from kuberay.cli.lazy import LazyGroup

COMMANDS = {
    "up": ("kuberay.cli.local.up:up", "Start the engine, apply manifests, follow them until they are ready."),
    "down": ("kuberay.cli.local.down:down", "Stop the engine and every process it started."),
    "status": ("kuberay.cli.local.status:status", "Show what runs and how to reach it."),
    "engine": ("kuberay.cli.local.engine:engine", ""),  # what `up` starts in the background; not for users
}


@click.command(cls=LazyGroup, commands_from=COMMANDS)
def local() -> None:
    """Run RayCluster manifests on this machine, on real Ray processes, with no Kubernetes and no containers."""
