"""`kuberay operator`. Its flags are KubeRay's and in Go's syntax, so they are not read by click."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

_HELP = """Usage: kuberay operator [FLAGS]

  Run the operator against a Kubernetes cluster until SIGTERM or Ctrl-C.

  The cluster needs the CRDs:

      kuberay crds | kubectl apply --server-side --force-conflicts -f -

  To run it inside the cluster:

      kuberay install --image IMAGE | kubectl apply --server-side --force-conflicts -f -

Flags:"""


@click.command(
    add_help_option=False, context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False}
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def operator(arguments: tuple[str, ...]) -> None:
    """Run the operator against a Kubernetes cluster until SIGTERM or Ctrl-C."""
    from kuberay.operator.flags import FlagError, HelpWanted, parse, usage

    try:
        flags = parse(arguments)
    except HelpWanted:
        click.echo(f"{_HELP}\n{usage()}")
        return
    except FlagError as problem:
        raise click.UsageError(f"{problem}\n`kuberay operator --help` explains them.") from problem

    import uvloop

    from kuberay.kube.errors import ConfigError
    from kuberay.kube.kubeconfig import load
    from kuberay.operator import logs
    from kuberay.operator.process import serve
    from kuberay.operator.startup import StartupError, prepare

    try:
        startup = prepare(flags, os.environ, lambda file: Path(file).read_text(encoding="utf-8"))
        log = startup.log
        logs.configure(log.format, level=log.level, file=log.file, file_format=log.file_format)
        access = load(startup.kubeconfig, context=startup.context)
    except (StartupError, ConfigError, OSError, UnicodeDecodeError) as problem:
        raise click.ClickException(str(problem)) from problem
    try:
        code = uvloop.run(serve(startup, access))
    except (ConfigError, OSError, ValueError) as problem:
        raise click.ClickException(str(problem)) from problem
    sys.exit(code)
