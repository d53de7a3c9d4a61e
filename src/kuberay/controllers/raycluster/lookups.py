"""What no cache follows, and is asked for only when a decision depends on it.

To watch all Nodes, Secrets and accounts for the sake of the few that matter would cost every API server and every
operator. So they are looked at one by one: a Node when a head does not go from it, and what a user has made in place
of ours when something happens to the cluster. A cluster at rest asks for nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kuberay.api.partial import Node, PartialObject
from kuberay.controllers.raycluster.lost import Look
from kuberay.kube.errors import Forbidden, Missing
from kuberay.kube.resources import NODES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kuberay.controllers.plan import Create, Plan, Require
    from kuberay.kube.client import Client
    from kuberay.kube.resources import Resource


@dataclass(slots=True)
class Lookups:
    """What was found about one cluster."""

    nodes: dict[str, Look] = field(default_factory=dict)
    """Nodes from which heads do not go."""
    stand_ins: frozenset[tuple[Resource, str]] = frozenset()
    """Objects of others that serve the cluster."""

    def note(self, found: Iterable[Create | Require]) -> None:
        """Remember what somebody else has made, and serves."""
        self.stand_ins |= {(action.resource, action.name) for action in found}

    async def refresh(self, client: Client, namespace: str, plan: Plan, now: float) -> bool:
        """Look at what a plan depends on; tells whether there is news, so that it has to be decided anew.

        :raises KubeError: the server cannot be asked.
        """
        has_news = await self._look_at_nodes(client, plan, now)
        return await self._look_at_stand_ins(client, namespace, plan) or has_news

    async def _look_at_nodes(self, client: Client, plan: Plan, now: float) -> bool:
        for name in sorted(plan.nodes):
            try:
                self.nodes[name] = Look(now, await client.get(NODES, name, type=Node))
            except Missing:
                self.nodes[name] = Look(now, None)
            except Forbidden:
                self.nodes[name] = Look(now, None, is_forbidden=True)
        return bool(plan.nodes)

    async def _look_at_stand_ins(self, client: Client, namespace: str, plan: Plan) -> bool:
        if plan.is_empty:
            return False
        before = self.stand_ins
        for resource, name in before:
            try:
                await client.get(resource, name, namespace=namespace, type=PartialObject)
            except Missing:
                self.stand_ins -= {(resource, name)}
        return self.stand_ins != before
