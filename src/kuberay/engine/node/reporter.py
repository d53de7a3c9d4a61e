"""What the API is told about one Pod: its status when it says something new, and in the end its removal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kuberay.engine.node import status
from kuberay.kube.resources import PODS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kuberay.engine.node.context import NodeContext
    from kuberay.engine.node.pod import Container, Object


class Reporter:
    """Writes the status of one Pod; remembers what it wrote, because the object it is shown may be older."""

    def __init__(self, node: NodeContext, pod: Object) -> None:
        self._node = node
        self._published: Object = dict(pod.get("status") or {})
        before = self._published.get("startTime")
        self._started_at = status.moment(before) if before else node.now()

    async def publish(
        self, pod: Object, histories: Mapping[str, Container], address: str, *, leaving: bool = False
    ) -> None:
        """Write the status, if it differs from what was written last.

        :raises KubeError: it could not be written.
        """
        current = status.of_pod(
            {**pod, "status": {"conditions": self._known_conditions(pod)}},
            histories,
            pod_ip=address,
            host_ip=str(self._node.helper.gateway),
            started_at=self._started_at,
            now=self._node.now(),
            leaving=leaving,
        )
        if all(self._published.get(key) == value for key, value in current.items()):
            return
        metadata = pod["metadata"]
        patch = {"metadata": {"uid": metadata["uid"]}, "status": current}
        await self._node.client.patch(
            PODS, metadata["name"], patch, namespace=metadata["namespace"], subresource="status"
        )
        self._published = current

    async def delete(self, pod: Object) -> None:
        """Remove the object: everything it stood for has ended.

        :raises KubeError: it could not be removed.
        """
        metadata = pod["metadata"]
        await self._node.client.delete(
            PODS, metadata["name"], namespace=metadata["namespace"], uid=metadata["uid"], grace_period_seconds=0
        )

    def _known_conditions(self, pod: Object) -> list[Object]:
        """Our own conditions as we wrote them last, and those of others as they are now."""
        known = {each["type"]: each for each in (pod.get("status") or {}).get("conditions") or ()}
        for each in self._published.get("conditions") or ():
            if each["type"] in status.CONDITIONS:
                known[each["type"]] = each
        return list(known.values())
