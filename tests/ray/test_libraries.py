"""The libraries of Ray that its images have: a manifest that runs on an image imports them here, too."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = [pytest.mark.ray, pytest.mark.slow, pytest.mark.timeout(120)]


def test_the_environment_has_the_libraries_that_the_images_of_ray_have() -> None:
    libraries = "ray.data, ray.serve, ray.tune, ray.train, ray.rllib, ray.util.client, numpy, pandas"
    ran = subprocess.run([sys.executable, "-c", f"import {libraries}"], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
