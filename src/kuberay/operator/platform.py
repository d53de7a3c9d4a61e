"""What kind of Kubernetes the operator works in, asked once when it starts.

KubeRay takes any of three groups for an OpenShift. What matters here is whether there are Routes: a cluster that has
some other part of OpenShift, and no Routes, has Ingresses.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

import orjson
import structlog

from kuberay.controllers.kinds import ROUTES
from kuberay.kube.errors import KubeError
from kuberay.kube.transport import Request

if TYPE_CHECKING:
    from kuberay.kube.client import Client

log = structlog.get_logger(__name__)

_AGAIN = 5.0
"""Seconds after which a server that did not answer is asked again."""


async def is_openshift(client: Client) -> bool:
    """Whether the API server is that of an OpenShift, as far as it serves Routes.

    :raises KubeError: the server did not say.
    """
    answer = orjson.loads(await client.send(Request("GET", "/apis")))
    return any(group.get("name") == ROUTES.group for group in answer.get("groups") or ())


async def await_openshift(client: Client, stop: asyncio.Event) -> bool:
    """The same, asked until the server answers or `stop` is set: an operator that does not know must not work."""
    while not stop.is_set():
        try:
            return await is_openshift(client)
        except KubeError as error:
            log.error("cannot learn what the API server serves", error=str(error), retry_in_seconds=_AGAIN)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), _AGAIN)
    return False
