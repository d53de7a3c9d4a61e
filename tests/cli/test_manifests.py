from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kuberay.cli.manifests import Unreadable, read_manifests

if TYPE_CHECKING:
    from pathlib import Path


def write(folder: Path, text: str) -> str:
    file = folder / "cluster.yaml"
    file.write_text(text)
    return str(file)


def test_every_document_comes_with_its_line(tmp_path: Path) -> None:
    file = write(
        tmp_path,
        "# two objects\napiVersion: v1\nkind: Namespace\nmetadata: {name: a}\n---\n---\n"
        "apiVersion: ray.io/v1\nkind: RayCluster\nmetadata: {name: b}\n",
    )
    assert [(each.line, each.title) for each in read_manifests([file])] == [(2, "namespace/a"), (7, "raycluster/b")]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("kind: [\n", r"cluster\.yaml:2: not YAML"),
        ("a: 1\n\tb: 2\n", r"cluster\.yaml:2: not YAML.*tab character"),
        ("- 1\n", r"cluster\.yaml:1: expected a Kubernetes object, found list"),
        ("\nkind: Pod\nmetadata: {name: a}\n", r"cluster\.yaml:2: apiVersion is missing"),
        ("apiVersion: v1\nkind: Pod\n", r"cluster\.yaml:1: metadata\.name is missing"),
        ("apiVersion: v1\nkind: Pod\nmetadata:\n", r"cluster\.yaml:1: metadata\.name is missing"),
    ],
)
def test_what_is_no_manifest_is_named_by_file_and_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(Unreadable, match=message):
        read_manifests([write(tmp_path, text)])


def test_a_file_that_is_no_text_is_named(tmp_path: Path) -> None:
    (tmp_path / "cluster.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(Unreadable, match=r"cluster\.yaml: cannot be read"):
        read_manifests([str(tmp_path / "cluster.yaml")])
