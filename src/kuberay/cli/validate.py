"""`kuberay validate`: what is wrong with manifests, by file, line and field, without a cluster."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kuberay.api.documents import Document
    from kuberay.api.gates import FeatureGates
    from kuberay.api.validate.objects import Rules

CLEAN, PROBLEMS, UNREADABLE = 0, 1, 2


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report."""

    file: str
    line: int
    kind: str
    name: str
    path: str
    message: str
    severity: str
    """`error`, `warning`, or `unreadable` for a file that could not be read to its end."""

    def __str__(self) -> str:
        subject = f" {self.kind}/{self.name}" if self.kind else ""
        mark = "warning: " if self.severity == "warning" else ""
        where = f" {self.path}" if self.path else ""
        return f"{self.file}:{self.line}{subject}{where}: {mark}{self.message}"


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

    rules = Rules(knows_time_zone, gates)
    findings: list[Finding] = []
    checked = 0
    for file in files:
        for item in _examine(file, rules):
            if isinstance(item, Finding):
                findings.append(item)
            else:
                checked += item
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


def _examine(file: str, rules: Rules) -> Iterator[Finding | int]:
    """The findings of a file, and a count for each object of `ray.io` in it."""
    from kuberay.api.documents import Unreadable, read

    name = "<stdin>" if file == "-" else file
    try:
        text = (sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()).decode("utf-8-sig")
    except OSError as error:
        yield Finding(name, 0, "", "", "", f"cannot be read: {error.strerror}", "unreadable")
        return
    except UnicodeDecodeError as error:
        yield Finding(name, 0, "", "", "", f"not text in UTF-8: byte {error.start} is wrong", "unreadable")
        return
    try:
        for document in read(text):
            for prefix, value in _objects(document.value):
                yield from _judge(name, document, prefix, value, rules)
    except Unreadable as error:
        yield Finding(name, error.line, "", "", "", str(error), "unreadable")


def _objects(value: Any) -> Iterator[tuple[str, Any]]:
    """The objects of a document: itself, or the items of a list."""
    if isinstance(value, dict) and str(value.get("kind")).endswith("List") and isinstance(value.get("items"), list):
        kind = str(value["kind"]).removesuffix("List")
        for index, item in enumerate(value["items"]):
            # The items of a typed list need not say what they are.
            if kind and isinstance(item, dict):
                item = {"apiVersion": value.get("apiVersion"), "kind": kind, **item}
            yield f"items[{index}]", item
    else:
        yield "", value


def _judge(file: str, document: Document, prefix: str, value: Any, rules: Rules) -> Iterator[Finding | int]:
    from kuberay.api.model import kind_of
    from kuberay.api.problems import Problem
    from kuberay.api.validate.objects import is_ray_object, object_problems

    def finding(problem: Problem, kind: str = "", name: str = "") -> Finding:
        path = f"{prefix}.{problem.path}".strip(".") if prefix else problem.path
        return Finding(file, document.line_of(path), kind, name, problem.path, problem.message, problem.severity.value)

    if not isinstance(value, dict):
        yield finding(Problem("", f"expected a Kubernetes object, got {kind_of(value)}"))
        return
    for field in ("apiVersion", "kind"):
        if not isinstance(value.get(field), str):
            yield finding(Problem(field, "is missing: every object says its apiVersion and kind"))
            return
    if not is_ray_object(value):
        return
    yield 1
    metadata = value.get("metadata")
    said = metadata if isinstance(metadata, dict) else {}
    name = said.get("name") or said.get("generateName") or "?"
    kind = value["kind"]
    notes = [
        (path, line, f"stands here twice, first in line {first}", "error") for path, line, first in document.repeated
    ]
    notes += [
        (path, line, f"kubectl takes {text} without quotes for a boolean; write '{text}'", "warning")
        for path, line, text in document.doubtful
    ]
    for path, line, message, severity in notes:
        if not prefix or path.startswith((f"{prefix}.", f"{prefix}[")):
            where = path.removeprefix(prefix).removeprefix(".")
            yield Finding(file, line, kind, str(name), where, message, severity)
    for problem in object_problems(value, rules):
        yield finding(problem, kind, str(name))


def knows_time_zone(name: str) -> bool:
    """Whether this machine has a time zone of that name; a machine without any cannot tell, and says yes."""
    import zoneinfo

    try:
        zoneinfo.ZoneInfo(name)
    except (ValueError, OSError, zoneinfo.ZoneInfoNotFoundError):
        return not zoneinfo.available_timezones()
    return True
