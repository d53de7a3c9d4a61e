"""A world for every test."""

from __future__ import annotations

import pytest

from tests.engine.loops.world import World


@pytest.fixture
def world() -> World:
    return World()
