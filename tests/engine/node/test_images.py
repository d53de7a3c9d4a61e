from __future__ import annotations

import sys
from pathlib import Path

from kuberay.engine.node import images
from kuberay.engine.node.images import RayEnvironment


class TestAnEnvironmentInAFolderThatContainersHaveTheirOwnOf:
    def test_stays_visible_with_the_interpreter_it_was_made_from(self) -> None:
        ray = RayEnvironment(
            Path("/tmp/project/.venv"),
            "2.60.0",
            (Path("/tmp/python"), Path("/usr/lib/python3"), Path("/tmp/python/lib")),
        )
        assert ray.needed_below(Path("/tmp")) == [Path("/tmp/project/.venv"), Path("/tmp/python")]

    def test_elsewhere_it_needs_nothing(self) -> None:
        assert RayEnvironment(Path("/home/me/.venv"), "2.60.0", (Path("/usr"),)).needed_below(Path("/tmp")) == []


def test_the_installed_environment_knows_its_interpreter() -> None:
    assert Path(sys.base_prefix) in images.installed().libraries
