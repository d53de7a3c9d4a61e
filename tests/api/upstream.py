"""The shared test data: manifests of KubeRay, and what its operator made of them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ROOT = Path(__file__).parents[3] / "shared" / "upstream"
RAY_KINDS = ("RayCluster", "RayJob", "RayService", "RayCronJob")

needs_upstream = pytest.mark.skipif(not ROOT.exists(), reason="the upstream test data is not beside the repository")


def manifests(*kinds: str, without: Sequence[str] = ()) -> list[Any]:
    """One parameter per document of these kinds in the samples and cases, named by its file."""
    wanted = kinds or RAY_KINDS
    return [
        pytest.param(document, id=f"{path.parent.name}/{path.stem}-{index}")
        for path in sorted([*ROOT.glob("samples/*.yaml"), *ROOT.glob("cases/*.yaml")])
        if path.stem not in without
        for index, document in enumerate(documents(path))
        if document.get("kind") in wanted
    ] or [pytest.param({}, marks=needs_upstream)]


def documents(path: Path) -> Iterator[dict[str, Any]]:
    """The documents of a file that are objects."""
    for document in yaml.load_all(path.read_text(), Loader=yaml.CSafeLoader):
        if isinstance(document, dict):
            yield document
