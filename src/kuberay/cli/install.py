"""`kuberay install`: everything a cluster needs to run the operator, as manifests."""

from __future__ import annotations

import json

import click


@click.command()
@click.option(
    "--namespace", default="kuberay-system", show_default=True, metavar="NAME", help="Where the operator runs."
)
@click.option(
    "--image",
    required=True,
    metavar="IMAGE",
    help="Image of the operator, in a registry that the cluster pulls from. The Dockerfile of this project builds it.",
)
@click.option(
    "--replicas",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    help="How many operators run; one of them leads, the others stand by.",
)
@click.option(
    "--watch-namespace",
    default="",
    metavar="A,B",
    help="Work only there, with rights only there, to get Nodes, and to tell of namespaces in default. "
    "Default: everywhere. A namespace that is left out later keeps its RoleBinding until that is deleted.",
)
@click.option(
    "--crds",
    type=click.Choice(["full", "slim", "none"]),
    default="full",
    show_default=True,
    help="Which CustomResourceDefinitions to print; see kuberay crds.",
)
@click.option("--output", type=click.Choice(["yaml", "json"]), default="yaml", help="YAML documents, or one JSON list.")
@click.argument("flags", nargs=-1, metavar="[-- OPERATOR FLAGS]")
def install(
    namespace: str, image: str, replicas: int, watch_namespace: str, crds: str, output: str, flags: tuple[str, ...]
) -> None:
    """Print what a cluster needs to run the operator: CRDs, account, rights, Deployment and Service.

    Nothing is installed by printing:

    \b
        kuberay install --image IMAGE | kubectl apply --server-side --force-conflicts -f -

    Flags for the operator itself follow two dashes:

        kuberay install --image IMAGE -- --reconcile-concurrency=4
    """
    from kuberay.api.crd import DEFINITIONS, crd
    from kuberay.cli.crds import to_yaml
    from kuberay.operator.flags import FlagError, HelpWanted
    from kuberay.operator.install import Installation, objects
    from kuberay.operator.startup import StartupError, namespaces

    installation = Installation(
        namespace=namespace,
        image=image,
        replicas=replicas,
        watch_namespaces=namespaces(watch_namespace),
        arguments=flags,
    )
    try:
        running = objects(installation)
    except (FlagError, HelpWanted, StartupError) as problem:
        raise click.UsageError(
            str(problem) or "flags of the operator are explained by `kuberay operator --help`"
        ) from problem
    definitions = [] if crds == "none" else [crd(kind, slim=crds == "slim") for kind in DEFINITIONS]
    made = [*definitions, *running]
    if output == "json":
        click.echo(json.dumps({"apiVersion": "v1", "kind": "List", "items": made}, indent=2))
    else:
        for each in made:
            click.echo("---\n" + to_yaml(each), nl=False)
