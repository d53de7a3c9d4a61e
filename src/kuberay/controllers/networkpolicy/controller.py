"""NetworkPolicies from watch to write; see `raycluster.controller`, of which this is the small sister."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kuberay.api.partial import NetworkPolicy
from kuberay.build import labels
from kuberay.build.network_policy import policies
from kuberay.controllers import failures
from kuberay.controllers.act import Actor, Cache
from kuberay.controllers.announce import announcements
from kuberay.controllers.departures import Departures
from kuberay.controllers.networkpolicy.decide import decide
from kuberay.controllers.running import CATCHING_UP, RayController
from kuberay.kube.controller import Result, itself, owner
from kuberay.kube.identity import identity
from kuberay.kube.informer import Informer
from kuberay.kube.lanes import Lanes
from kuberay.kube.predicates import generation_changed
from kuberay.kube.resources import NETWORK_POLICIES
from kuberay.kube.store import Store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kuberay.api.v1 import RayCluster
    from kuberay.controllers.failures import Failure
    from kuberay.controllers.options import ControllerOptions
    from kuberay.kube.client import Client
    from kuberay.kube.controller import Controller
    from kuberay.kube.identity import Key
    from kuberay.kube.recorder import Recorder

NAME = "networkpolicy"
REPORTER = "networkpolicy-controller"

_BY_CLUSTER = "cluster"
_owner = owner("RayCluster", "ray.io")


@dataclass(slots=True)
class _Memory:
    uid: str
    failures: dict[str, Failure] = field(default_factory=dict)


class NetworkPolicyController(RayController):
    """Keeps the NetworkPolicies of the RayClusters of one namespace, or of all.

    :param clusters: follows the RayClusters of the same namespaces; somebody else runs it.
    :param now: seconds since 1970.
    :param lanes: where it takes turns with other controllers of the same process.
    """

    def __init__(
        self,
        client: Client,
        recorder: Recorder,
        options: ControllerOptions,
        clusters: Informer[RayCluster],
        *,
        namespace: str | None = None,
        now: Callable[[], float] = time.time,
        lanes: Lanes[str] | None = None,
    ) -> None:
        self._now = now
        self._memory: dict[Key, _Memory] = {}
        self._collisions: dict[Key, frozenset[str]] = {}
        """The names that a cluster wants for its policies and somebody else has; as a rule there are none."""
        self._clusters = clusters.store
        self.policies: Store[NetworkPolicy] = Store({_BY_CLUSTER: _cluster_index})
        following = Informer(client, NETWORK_POLICIES, self.policies, type=NetworkPolicy, namespace=namespace)
        self._departures = Departures(client, self._clusters, (self.policies,))
        super().__init__(recorder, [following], namespace=namespace, shared=[clusters])
        caches = {NETWORK_POLICIES: Cache(self.policies, NetworkPolicy)}
        self._actor = Actor(client, caches, lanes or Lanes(options.writes_in_flight))

    def watch(self, loop: Controller[Key]) -> None:
        """Have clusters looked at: all of them, and each whenever it, one of its policies or one in its way changes."""
        loop.watches(self._clusters, itself, when=generation_changed)
        loop.watches(self.policies, self._concerned)

    def _concerned(self, policy: NetworkPolicy) -> Iterator[Key]:
        """The cluster that a policy belongs to, and those that wait for its name: they are open until then."""
        yield from _owner(policy)
        namespace, name = identity(policy).key
        for cluster, taken in self._collisions.items():
            if name in taken and namespace == cluster.namespace:
                yield cluster

    async def reconcile(self, key: Key) -> Result | None:
        """One pass: look, decide, act."""
        cluster = self._clusters.get(key.namespace, key.name)
        if cluster is None:
            self._memory.pop(key, None)
            self._collisions.pop(key, None)
            return None
        uid = cluster.metadata.uid or ""
        memory = self._memory.get(key)
        if memory is None or memory.uid != uid:
            memory = self._memory[key] = _Memory(uid)
            self._collisions.pop(key, None)
        plan = decide(cluster, self._found(cluster), memory.failures, self._now())
        if not await self._departures.allow(plan, cluster):
            return Result(requeue_after=CATCHING_UP)
        known = self._collisions.pop(key, frozenset())
        if plan.events:
            self._collisions[key] = frozenset(event.once for event in plan.events)
        outcome = await self._actor.run(plan.stages, uid)
        memory.failures = failures.after(
            memory.failures,
            outcome.unresolved(plan),
            outcome.refusals,
            advanced=outcome.advanced,
            generation=cluster.metadata.generation or 0,
            now=self._now(),
        )
        self._emit(
            cluster,
            (*announcements(outcome, memory.failures), *(each for each in plan.events if each.once not in known)),
        )
        if outcome.interruption is not None:
            raise outcome.interruption
        return Result(requeue_after=plan.look_again if outcome.is_empty else 0.0)

    def _found(self, cluster: RayCluster) -> list[NetworkPolicy]:
        labelled = self.policies.by(_BY_CLUSTER, f"{cluster.namespace}/{cluster.name}")
        wanted = (self.policies.get(cluster.namespace, each["metadata"]["name"]) for each in policies(cluster))
        return [*labelled, *(policy for policy in wanted if policy is not None)]


def _cluster_index(policy: NetworkPolicy) -> tuple[str, ...]:
    name = policy.metadata.labels.get(labels.CLUSTER)
    return (f"{policy.metadata.namespace}/{name}",) if name else ()
