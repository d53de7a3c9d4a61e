"""The examples of the pages about the API are run as they stand."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from click.testing import CliRunner

from kuberay.api.crd import crd
from kuberay.cli import main

if TYPE_CHECKING:
    import pytest

DOCS = Path(__file__).parents[2] / "docs"


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", (DOCS / page).read_text(), re.DOTALL | re.MULTILINE)


def test_the_python_examples_run_one_after_another() -> None:
    names: dict[str, Any] = {}
    found = blocks("api.md", "python")
    for block in found:
        exec(compile(block, "docs/api.md", "exec"), names)
    assert len(found) > 5


def test_the_console_examples_print_what_they_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for block in blocks("api.md", "yaml"):
        (tmp_path / block.splitlines()[0].removeprefix("# ")).write_text(block)
    [block] = blocks("api.md", "console")
    command, expected = block.split("\n", 1)
    assert CliRunner().invoke(main, command.removeprefix("$ kuberay ").split()).stdout == expected


def test_the_sizes_in_the_table_are_true() -> None:
    full, slim = (round(len(json.dumps(crd("RayCluster", slim=slim))) / 1000) for slim in (False, True))
    assert f"| {full} kB of JSON | {slim} kB |" in (DOCS / "crds.md").read_text()
