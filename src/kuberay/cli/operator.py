"""`kuberay operator`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from kuberay.kube.http import HttpTransport
    from kuberay.operator.settings import Settings


@click.command()
@click.option(
    "--kubeconfig", metavar="FILE", help="Cluster to work on. Default: $KUBECONFIG, ~/.kube/config, the Pod's own."
)
@click.option("--context", metavar="NAME", help="Context of the kubeconfig to use instead of its current one.")
@click.option("--watch-namespace", default="", metavar="A,B", help="Only these namespaces. Default: all.")
@click.option(
    "--reconcile-concurrency",
    type=click.IntRange(1),
    default=8,
    show_default=True,
    help="Clusters worked on at a time.",
)
@click.option("--feature-gates", default="", metavar="NAME=true,...", help="Switch features on or off.")
@click.option(
    "--health-probe-bind-address",
    default="127.0.0.1:8082",
    show_default=True,
    metavar="HOST:PORT",
    help="Where /healthz and /readyz are served; `0` for nowhere.",
)
@click.option(
    "--log-stdout-encoder",
    type=click.Choice(["json", "console"]),
    default="json",
    show_default=True,
    help="Log for machines or for people.",
)
def operator(
    kubeconfig: str | None,
    context: str | None,
    watch_namespace: str,
    reconcile_concurrency: int,
    feature_gates: str,
    health_probe_bind_address: str,
    log_stdout_encoder: str,
) -> None:
    """Run the operator against a Kubernetes cluster until SIGTERM or Ctrl-C.

    The cluster needs the CRDs: kuberay crds | kubectl apply --server-side -f -
    """
    import uvloop

    from kuberay.api.gates import FeatureGates
    from kuberay.kube.errors import ConfigError
    from kuberay.kube.http import HttpTransport
    from kuberay.kube.kubeconfig import load
    from kuberay.operator.logs import LogFormat, configure
    from kuberay.operator.settings import from_environment

    configure(LogFormat(log_stdout_encoder))
    try:
        gates = FeatureGates.parse(feature_gates)
    except ValueError as problem:
        raise click.BadParameter(str(problem), param_hint="--feature-gates") from problem
    try:
        access = load(kubeconfig, context=context)
    except ConfigError as problem:
        raise click.ClickException(str(problem)) from problem
    settings = from_environment(
        os.environ,
        watch_namespaces=tuple(filter(None, (each.strip() for each in watch_namespace.split(",")))),
        reconcile_concurrency=reconcile_concurrency,
        health_address=None if health_probe_bind_address == "0" else health_probe_bind_address,
        gates=gates,
    )
    try:
        uvloop.run(_run(HttpTransport(access), settings))
    except* (OSError, ValueError) as problems:
        raise click.ClickException(str(problems.exceptions[0])) from problems


async def _run(transport: HttpTransport, settings: Settings) -> None:
    import asyncio
    import signal

    from kuberay import __version__
    from kuberay.kube.client import Client
    from kuberay.operator.main import run

    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    client = Client(transport, user_agent=f"kuberay-operator/{__version__}")
    try:
        await run(client, settings, stop=stop)
    finally:
        await client.close()
