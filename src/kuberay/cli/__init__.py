"""The `kuberay` command. Each command is a module of its own, imported only when it is called.

Start-up time is part of the interface: `kuberay --help` must not import the operator, the engine or aiohttp.
"""

from __future__ import annotations

import click

from kuberay import __version__
from kuberay.cli.lazy import LazyGroup

COMMANDS = {
    "local": ("kuberay.cli.local:local", "Run manifests on this machine: real Ray, no Kubernetes."),
    "operator": ("kuberay.cli.operator:operator", "Run the operator against a Kubernetes cluster."),
    "install": ("kuberay.cli.install:install", "Print what a cluster needs to run the operator."),
    "crds": ("kuberay.cli.crds:crds", "Print the CustomResourceDefinitions of ray.io."),
    "validate": ("kuberay.cli.validate:validate", "Check manifests offline, with file, line and field."),
}


@click.command(cls=LazyGroup, commands_from=COMMANDS, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, "-V", "--version", prog_name="kuberay", message="%(prog)s %(version)s")
def main() -> None:
    """Ray on Kubernetes, and the same manifests on a laptop without it."""
