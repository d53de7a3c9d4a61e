"""Reading manifest files: several YAML documents each, with the line every document starts at."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

if TYPE_CHECKING:
    from collections.abc import Iterable


class Unreadable(Exception):
    """A file that cannot be read as manifests; the message names file and line."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """One document of a file."""

    file: str
    line: int
    document: dict[str, Any]

    @property
    def title(self) -> str:
        """How to speak of it: `raycluster/example`."""
        return f"{self.document['kind'].lower()}/{self.document['metadata']['name']}"


def read_manifests(files: Iterable[str]) -> list[Manifest]:
    """Every document of the files in order; empty documents are passed over.

    :raises Unreadable: a file is missing, is no YAML, or holds a document that is no Kubernetes object.
    """
    return [manifest for file in files for manifest in _documents(file)]


def _documents(file: str) -> Iterable[Manifest]:
    name = "standard input" if file == "-" else file
    try:
        text = sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as problem:
        raise Unreadable(f"{name}: cannot be read: {problem}") from problem
    loader = yaml.CSafeLoader(text)
    try:
        while loader.check_node():
            node = loader.get_node()
            assert node is not None  # check_node said so
            line = node.start_mark.line + 1
            document = loader.construct_document(node)
            if document is not None:
                yield Manifest(name, line, _checked(name, line, document))
    except yaml.YAMLError as problem:
        mark = getattr(problem, "problem_mark", None)
        where = f"{name}:{mark.line + 1}" if mark else name
        raise Unreadable(f"{where}: not YAML: {getattr(problem, 'problem', None) or problem}") from problem
    finally:
        loader.dispose()


def _checked(file: str, line: int, document: Any) -> dict[str, Any]:
    if not isinstance(document, dict):
        raise Unreadable(f"{file}:{line}: expected a Kubernetes object, found {type(document).__name__}")
    for field in ("apiVersion", "kind"):
        if not isinstance(document.get(field), str):
            raise Unreadable(
                f"{file}:{line}: {field} is missing; every object needs apiVersion, kind and metadata.name"
            )
    metadata = document.get("metadata")
    if not isinstance(metadata, dict) or not isinstance(metadata.get("name"), str):
        raise Unreadable(f"{file}:{line}: metadata.name is missing")
    return document
