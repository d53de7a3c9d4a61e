"""The same suite, run by a user without any rights: one design serves both."""

from __future__ import annotations

import os

import pytest

from tests import unprivileged


@pytest.mark.namespaces
@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_everything_about_a_node_works_without_root() -> None:
    finished = unprivileged.run_tests("tests/engine/node", "-m", "not ray")
    assert finished.returncode == 0, finished.stdout[-8000:]
    assert " passed" in finished.stdout
