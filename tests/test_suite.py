"""That tests are found: one that is not run proves nothing."""

from __future__ import annotations

from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

HERE = Path(__file__).parent


def test_no_folder_of_tests_is_passed_over(pytestconfig: pytest.Config) -> None:
    folders = {file.parent.relative_to(HERE) for file in HERE.rglob("test_*.py")}
    passed_over = pytestconfig.getini("norecursedirs")
    assert len(folders) > 10
    assert [each for each in folders for part in each.parts for name in passed_over if fnmatch(part, name)] == []
