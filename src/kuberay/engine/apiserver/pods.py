"""The subresources that only Pods have: binding to a node, and logs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kuberay.engine.apiserver.ages import timestamp
from kuberay.engine.apiserver.answers import StreamAnswer
from kuberay.engine.apiserver.schema import builtin_schema
from kuberay.engine.streams import LogOptions
from kuberay.kube.errors import BadRequest, Conflict, ServiceUnavailable, StatusDetails

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator
    from datetime import datetime

    from kuberay.engine.apiserver.requests import Query
    from kuberay.engine.apiserver.storage import Object
    from kuberay.engine.streams import PodStreams


_BINDING_SCHEMA = builtin_schema("core.v1.Binding")


@dataclass(frozen=True, slots=True)
class LogRequest:
    """A request for logs that has been checked and can be handed to the node."""

    pod: Object
    container: str
    options: LogOptions


def log_request(pod: Object, query: Query) -> LogRequest:
    """:raises BadRequest: no such container, or several and none is named."""
    name = pod["metadata"]["name"]
    spec = pod["spec"]
    containers = [one["name"] for one in spec.get("containers", ())]
    others = [one["name"] for one in spec.get("initContainers", ())]
    container = query.text("container")
    if not container:
        container = pod["metadata"].get("annotations", {}).get("kubectl.kubernetes.io/default-container", "")
    if not container and len(containers) == 1:
        container = containers[0]
    if not container:
        also = f" or one of the init containers: [{' '.join(others)}]" if others else ""
        raise BadRequest(
            f"a container name must be specified for pod {name}, choose one of: [{' '.join(containers)}]{also}"
        )
    if container not in containers and container not in others:
        raise BadRequest(f"container {container} is not valid for pod {name}")
    if not spec.get("nodeName"):
        raise BadRequest(f"pod {name} does not have a host assigned")
    return LogRequest(
        pod,
        container,
        LogOptions(
            follow=query.flag("follow"),
            previous=query.flag("previous"),
            timestamps=query.flag("timestamps"),
            tail_lines=query.number("tailLines"),
            limit_bytes=query.number("limitBytes"),
            since_seconds=query.number("sinceSeconds"),
            since_time=query.text("sinceTime") or None,
        ),
    )


async def open_logs(streams: PodStreams | None, request: LogRequest) -> StreamAnswer:
    """The stream of a container's output. Its first piece is awaited, so that a refusal is a Status, not a cut text.

    :raises ApiError: what the node refuses.
    """
    if streams is None:
        raise ServiceUnavailable("no node is connected to this API server, so there are no logs to read")
    chunks = streams.logs(request.pod, request.container, request.options)
    first = await anext(chunks, None)
    return StreamAnswer({"content-type": "text/plain"}, _continued(first, chunks))


async def _continued(first: bytes | None, rest: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
    if first is None:
        return
    yield first
    async for chunk in rest:
        yield chunk


def bound(pod: Object, binding: Object, now: datetime) -> Object:
    """The Pod with its node. The Pod that is passed in stays as it is.

    :raises BadRequest: not a Binding, or one that names no node or another Pod.
    :raises Conflict: the Pod has a node, or is going away.
    """
    name = pod["metadata"]["name"]
    _BINDING_SCHEMA.prune(binding)
    if wrong := _BINDING_SCHEMA.validate(binding):
        raise BadRequest(f"cannot be handled as a Binding: {wrong[0].field}: {wrong[0].message}")
    node = binding.get("target", {}).get("name", "")
    meta = binding.get("metadata", {})
    if meta.get("name") != name:
        raise BadRequest("name in URL does not match name in Binding object")
    if not node:
        raise BadRequest("target.name: Required value")
    details = StatusDetails(name=name, kind="pods/binding")
    if meta.get("uid", pod["metadata"]["uid"]) != pod["metadata"]["uid"]:
        raise Conflict(
            f'Operation cannot be fulfilled on pods/binding "{name}": the Pod is another one', details=details
        )
    if pod["spec"].get("nodeName"):
        already = f'pod {name} is already assigned to node "{pod["spec"]["nodeName"]}"'
        raise Conflict(f'Operation cannot be fulfilled on pods/binding "{name}": {already}', details=details)
    if "deletionTimestamp" in pod["metadata"]:
        leaving = f"pod {name} is being deleted, cannot be assigned to a host"
        raise Conflict(f'Operation cannot be fulfilled on pods/binding "{name}": {leaving}', details=details)
    status = pod.get("status", {})
    scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": timestamp(now)}
    conditions = [one for one in status.get("conditions", ()) if one.get("type") != "PodScheduled"]
    return {
        **pod,
        "metadata": dict(pod["metadata"]),
        "spec": {**pod["spec"], "nodeName": node},
        "status": {**status, "conditions": [*conditions, scheduled]},
    }
