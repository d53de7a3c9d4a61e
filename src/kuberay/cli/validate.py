"""`kuberay validate`: what is wrong with manifests, by file, line and field, without a cluster."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from kuberay.api.gates import FeatureGates
    from kuberay.cli.manifests import Finding

CLEAN, PROBLEMS, UNREADABLE = 0, 1, 2


def _gates(_context: click.Context, _parameter: click.Parameter, text: str) -> FeatureGates:
    from kuberay.api.gates import FeatureGates

    try:
        return FeatureGates.parse(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


@click.command()
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("--output", type=click.Choice(["text", "json"]), default="text", help="How problems are printed.")
@click.option("--strict", is_flag=True, help="Fail on warnings too.")
@click.option(
    "--feature-gates",
    "gates",
    default="",
    metavar="NAME=BOOL,...",
    callback=_gates,
    help="Feature gates of the operator that the manifests are for.",
)
def validate(files: tuple[str, ...], output: str, strict: bool, gates: FeatureGates) -> None:
    """Check manifests of ray.io: schema, CEL rules and the operator's own rules.

    A FILE may hold several documents; - is standard input. Objects of other kinds pass. Exits with 0 when all is well,
    with 1 when there are problems, with 2 when a file cannot be read.
    """
    from kuberay.api.validate.objects import Rules
    from kuberay.cli.manifests import Finding, examine, knows_time_zone

    rules = Rules(knows_time_zone, gates)
    findings: list[Finding] = []
    checked = 0
    for file in files:
        for item in examine(file, rules):
            if isinstance(item, Finding):
                findings.append(item)
            else:
                checked += item.is_ray
    if output == "json":
        click.echo(json.dumps([asdict(finding) for finding in findings], indent=2))
    else:
        for finding in findings:
            click.echo(str(finding))
    click.echo(_summary(findings, checked, len(files)), err=True)
    severities = {finding.severity for finding in findings}
    if "unreadable" in severities:
        sys.exit(UNREADABLE)
    sys.exit(PROBLEMS if "error" in severities or (strict and findings) else CLEAN)


def _summary(findings: list[Finding], checked: int, files: int) -> str:
    def several(count: int, what: str) -> str:
        return f"{count} {what}" if count == 1 else f"{count} {what}s"

    errors = sum(finding.severity != "warning" for finding in findings)
    warnings = len(findings) - errors
    counts = ", ".join([several(errors, "problem")] + ([several(warnings, "warning")] if warnings else []))
    return f"{counts} in {several(checked, 'Ray object')} of {several(files, 'file')}"
