"""The page about writing an operator says what is true: its first program is run as it stands."""

from __future__ import annotations

import ast
import asyncio
import re
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kuberay.engine.apiserver.server import ApiServer
from kuberay.engine.apiserver.storage import MemoryStorage
from kuberay.engine.apiserver.transport import InProcessTransport
from kuberay.kube.client import Client
from kuberay.kube.http import HttpTransport
from kuberay.kube.kubeconfig import load
from kuberay.kube.resources import CONFIG_MAPS, NAMESPACES

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine

    from tests.control_plane import ControlPlane

PAGE = Path(__file__).parents[2] / "docs" / "kube.md"


def programs() -> list[str]:
    return re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)


def greeter() -> Callable[[Client], Coroutine[Any, Any, None]]:
    names: dict[str, Any] = {}
    exec(compile(programs()[0], str(PAGE), "exec"), names)
    operate: Callable[[Client], Coroutine[Any, Any, None]] = names["operate"]
    return operate


def test_it_has_about_twenty_lines() -> None:
    body = programs()[0].partition("async def operate")[2]
    assert len([line for line in body.splitlines() if line.strip()]) <= 20


def test_every_program_of_the_page_is_one() -> None:
    for program in programs():
        compile(program, str(PAGE), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)


@asynccontextmanager
async def greeting(client: Client) -> AsyncIterator[None]:
    operating = asyncio.create_task(greeter()(client))
    try:
        yield
        assert not operating.done()
    finally:
        operating.cancel()
        await asyncio.wait([operating])


async def greets(client: Client) -> None:
    meta = {"name": "greeter-docs"}
    await client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": meta})
    at: dict[str, Any] = {"namespace": "greeter-docs"}

    async def reads(name: str, text: str) -> None:
        async with asyncio.timeout(30):
            while (await client.get(CONFIG_MAPS, name, **at)).get("data", {}).get("greeting") != text:  # noqa: ASYNC110
                await asyncio.sleep(0.01)

    await client.create(CONFIG_MAPS, {"metadata": {"name": "early"}, "data": {"name": "Ada"}}, **at)
    await client.create(CONFIG_MAPS, {"metadata": {"name": "other"}, "data": {"x": "y"}}, **at)
    async with greeting(client):
        await reads("early", "Hello, Ada!")
        await client.create(CONFIG_MAPS, {"metadata": {"name": "late"}, "data": {"name": "Bob"}}, **at)
        await reads("late", "Hello, Bob!")
        await client.patch(CONFIG_MAPS, "early", {"data": {"name": "Eve", "greeting": "Go away"}}, **at)
        await reads("early", "Hello, Eve!")
        version = (await client.list(CONFIG_MAPS, **at)).resource_version
        await asyncio.sleep(0.1)  # at rest nothing is written
        assert [
            each["metadata"]["name"]
            for each in (await client.list(CONFIG_MAPS, **at)).items
            if int(each["metadata"]["resourceVersion"]) > int(version)
        ] == []
        assert (await client.get(CONFIG_MAPS, "other", **at))["data"] == {"x": "y"}


async def test_the_twenty_lines_reconcile_config_maps() -> None:
    await greets(Client(InProcessTransport(ApiServer(MemoryStorage()))))


@pytest.mark.kubernetes
async def test_they_do_so_on_a_real_server(kubernetes: ControlPlane) -> None:
    client = Client(HttpTransport(load(kubernetes.kubeconfig)))
    try:
        await greets(client)
    finally:
        await client.close()
