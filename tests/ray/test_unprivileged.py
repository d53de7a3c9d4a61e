"""Laptop mode once more, as a user without any rights: the same tests, the same commands."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import pytest

from tests import control_plane, unprivileged
from tests.ray import test_laptop

pytestmark = [pytest.mark.ray, pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can drop rights, and this run has none to drop")
def test_all_of_laptop_mode_works_without_root() -> None:
    try:
        kubectl = control_plane.kubectl()
    except control_plane.ProgramsMissing as missing:
        pytest.skip(f"real kubectl: {missing}")
    # A place that everybody can read: the cache of the user who built kubectl usually is not.
    shared = Path(tempfile.mkdtemp(prefix="kuberay-kubectl-"))
    shared.chmod(0o755)
    try:
        shutil.copy(kubectl, shared / "kubectl")
        variables = {"KUBECTL": str(shared / "kubectl")}
        ran = unprivileged.run_tests("tests/ray/test_laptop.py", timeout=850, variables=variables)
    finally:
        shutil.rmtree(shared)
    assert ran.returncode == 0, ran.stdout
    count = sum(name.startswith("test_") for name in vars(test_laptop))
    assert f"{count} passed in" in ran.stdout
