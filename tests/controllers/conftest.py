from __future__ import annotations

import pytest

from tests.controllers.acting import World
from tests.controllers.embedded import embedded


@pytest.fixture
async def world() -> World:
    return World(*await embedded())
