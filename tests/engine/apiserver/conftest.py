"""Servers for tests: empty, and with one custom kind."""

from __future__ import annotations

import pytest

from tests.engine.apiserver.api import DEFINITIONS, Api, definition


@pytest.fixture
def api() -> Api:
    """A server with the system namespaces and nothing else."""
    return Api()


@pytest.fixture
async def widgets() -> Api:
    """A server that also serves widgets.example.com."""
    api = Api()
    created = await api.create(DEFINITIONS, definition())
    assert created.status == 201, created.body
    return api
