"""Ray's own autoscaler, unchanged, at work on a laptop: it asks the embedded API server, and the operator follows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests import control_plane
from tests.ray.laptop import AUTOSCALER, Laptop, submit, until

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.ray, pytest.mark.slow, pytest.mark.timeout(400)]

WORK = """
import ray, time
ray.init()
where = ray.remote(num_cpus=1)(lambda: (time.sleep(3), ray.util.get_node_ip_address())[1])
print("ran on", len(set(ray.get([where.remote() for _ in range(4)], timeout=150))), "nodes")
"""


def test_work_brings_workers_and_idleness_takes_them_away(tmp_path: Path) -> None:
    try:
        control_plane.kubectl()
    except control_plane.ProgramsMissing as missing:
        pytest.skip(f"real kubectl: {missing}")
    laptop = Laptop(tmp_path / "data")
    try:
        laptop.up("--file", str(AUTOSCALER))
        assert laptop.pods("workers", "autoscaler") == []
        assert "ran on 2 nodes" in submit(laptop.dashboard, WORK)
        until(lambda: not laptop.pods("workers", "autoscaler"), "the end of idle workers", seconds=120)
    finally:
        laptop.kuberay("down", "--purge")
