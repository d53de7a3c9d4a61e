"""Where a clone may lie so that its tests can be run as another user, too."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import pytest

from tests import unprivileged

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [
    pytest.mark.namespaces,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user"),
]

LOOK = "import os, pathlib; print(pathlib.Path('src/kuberay/__init__.py').read_text(), os.getcwd(), os.geteuid())"


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with its environment inside, below a home folder of mode 0700."""
    home = tmp_path / "home"
    project = home / "clone"
    for file in ("src/kuberay/__init__.py", "tests/unprivileged.py", ".venv/bin/pytest"):
        path = project / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("# here")
    (project / "link").symlink_to("src")
    home.chmod(0o700)
    monkeypatch.setattr(unprivileged, "PROJECT", project)
    monkeypatch.setattr(sys, "prefix", str(project / ".venv"))
    return project


class TestAClone:
    def test_below_a_private_home_can_be_read_by_the_user_without_rights(self, clone: Path) -> None:
        ran = unprivileged.run(["-c", LOOK])
        assert ran.stdout == f"# here {clone} {unprivileged.NOBODY}\n"

    def test_that_is_private_itself_can_be_read_too(self, clone: Path) -> None:
        clone.chmod(0o700)
        ran = unprivileged.run(["-c", LOOK])
        assert ran.stdout == f"# here {clone} {unprivileged.NOBODY}\n"

    def test_whose_files_are_private_says_what_to_do(self, clone: Path) -> None:
        (clone / "src" / "kuberay").chmod(0o700)
        with pytest.raises(unprivileged.Unreadable, match=f"chmod -R go\\+rX {clone}"):
            unprivileged.run(["-c", LOOK])
