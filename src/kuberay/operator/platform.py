"""What kind of Kubernetes the operator works in, asked once when it starts.

KubeRay takes any of three groups for an OpenShift. What matters here is whether there are Routes: a cluster that has
some other part of OpenShift, and no Routes, has Ingresses.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

import msgspec
import structlog

from kuberay.controllers.kinds import ROUTES
from kuberay.kube.decoding import decoder_for
from kuberay.kube.errors import KubeError
from kuberay.kube.transport import Request

if TYPE_CHECKING:
    from kuberay.kube.client import Client

log = structlog.get_logger(__name__)

_AGAIN = 5.0
"""Seconds after which a server that did not answer is asked again."""


class _Group(msgspec.Struct):
    name: str


class _Groups(msgspec.Struct):
    groups: list[_Group] | None = None


async def is_openshift(client: Client) -> bool:
    """Whether the API server is that of an OpenShift, as far as it serves Routes.

    :raises KubeError: the server did not say, or is no API server.
    """
    answer = decoder_for(_Groups).object(await client.send(Request("GET", "/apis")))
    return any(group.name == ROUTES.group for group in answer.groups or ())


async def await_openshift(client: Client, stop: asyncio.Event, *, server: str) -> bool:
    """The same, asked until the server answers or `stop` is set: an operator that does not know must not work.

    :param server: its address, to be told: whatever answers there may be something else, such as a proxy's login page.
    """
    while not stop.is_set():
        try:
            return await is_openshift(client)
        except KubeError as error:
            message = "cannot learn what the API server serves"
            log.error(message, server=server, error=str(error), retry_in_seconds=_AGAIN)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), _AGAIN)
    return False
