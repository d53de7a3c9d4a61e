"""`kuberay crds`: the CustomResourceDefinitions that an API server needs before it takes Ray objects."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Iterator

_PLAIN_KEY = re.compile(r"[A-Za-z][A-Za-z0-9.\-]*")
_WORDS_OF_YAML = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null"})


@click.command()
@click.option("--slim", is_flag=True, help="Leave Pod templates and Services open; installs with plain kubectl apply.")
@click.option("--output", type=click.Choice(["yaml", "json"]), default="yaml", help="YAML documents, or one JSON list.")
def crds(slim: bool, output: str) -> None:
    """Print the CustomResourceDefinitions of ray.io.

    The full ones spell out Pods and Services and are too large for client-side apply:

        kuberay crds | kubectl apply --server-side --force-conflicts -f -

    The slim ones accept the same objects, check all fields of Ray, and leave Pods to the time they are made:

        kuberay crds --slim | kubectl apply -f -
    """
    from kuberay.api.crd import DEFINITIONS, crd

    definitions = [crd(kind, slim=slim) for kind in DEFINITIONS]
    if output == "json":
        click.echo(json.dumps({"apiVersion": "v1", "kind": "List", "items": definitions}, indent=2))
    else:
        for definition in definitions:
            click.echo("---\n" + to_yaml(definition), nl=False)


def to_yaml(value: dict[str, Any]) -> str:
    """An object as block YAML. Fast, and without anchors for parts that stand in several places."""
    return "".join(_lines(value, ""))


def _lines(value: Any, indent: str) -> Iterator[str]:
    if isinstance(value, dict):
        members = ((f"{_key(key)}:", member) for key, member in value.items())
    else:
        members = (("-", member) for member in value)
    for lead, member in members:
        if isinstance(member, dict | list) and member:
            yield f"{indent}{lead}\n"
            yield from _lines(member, indent + "  ")
        else:
            # JSON's scalars and empty collections are YAML too.
            yield f"{indent}{lead} {json.dumps(member)}\n"


def _key(key: str) -> str:
    return key if _PLAIN_KEY.fullmatch(key) and key.lower() not in _WORDS_OF_YAML else json.dumps(key)
