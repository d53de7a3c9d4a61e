from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from kuberay.raydash import Dashboard, Node, Refused, Unreachable

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

NODES = {
    "result": True,
    "data": {
        "summary": [
            {"ip": "10.244.0.2", "raylet": {"state": "ALIVE", "isHeadNode": True}},
            {"ip": "10.244.0.3", "raylet": {"state": "DEAD", "isHeadNode": False}},
        ]
    },
}


@pytest.fixture
async def ray() -> AsyncIterator[str]:
    """Something that answers as the dashboard of Ray 2.60 does, and badly where a test wants it."""

    async def version(_: web.Request) -> web.Response:
        return web.json_response({"version": "4", "ray_version": "2.60.0"})

    async def nodes(_: web.Request) -> web.Response:
        return web.json_response(NODES)

    async def broken(_: web.Request) -> web.Response:
        return web.Response(status=500, text="Internal Server Error")

    async def page(_: web.Request) -> web.Response:
        return web.Response(text="<html>")

    application = web.Application()
    application.router.add_get("/api/version", version)
    application.router.add_get("/nodes", nodes)
    application.router.add_get("/broken/api/version", broken)
    application.router.add_get("/page/api/version", page)
    async with TestServer(application) as server:
        yield str(server.make_url(""))


async def test_the_version_and_the_nodes_of_a_cluster_are_read(ray: str) -> None:
    async with Dashboard(ray) as dashboard:
        assert await dashboard.version() == "2.60.0"
        assert await dashboard.nodes() == [
            Node(address="10.244.0.2", is_alive=True, is_head=True),
            Node(address="10.244.0.3", is_alive=False, is_head=False),
        ]


async def test_an_error_page_is_a_refusal_that_shows_it(ray: str) -> None:
    async with Dashboard(ray + "/broken") as dashboard:
        with pytest.raises(Refused, match="answered 500: Internal Server Error"):
            await dashboard.version()


async def test_an_answer_that_is_no_json_is_a_refusal(ray: str) -> None:
    async with Dashboard(ray + "/page") as dashboard:
        with pytest.raises(Refused, match="not JSON"):
            await dashboard.version()


async def test_nobody_at_the_address_is_unreachable(unused_tcp_port: int) -> None:
    async with Dashboard(f"http://127.0.0.1:{unused_tcp_port}") as dashboard:
        with pytest.raises(Unreachable, match="no answer from"):
            await dashboard.version()
