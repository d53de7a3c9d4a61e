"""RayClusters from watch to write: caches, queue, and one pass of observe, decide and act for each name that comes up.

Here is what `decide` must not know of: how fresh the caches are, how often a status may be written, what was refused
in the passes before. All of it may be lost; it is only memory.
"""

from __future__ import annotations

import secrets
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import structlog

from kuberay.api.core import Job, PersistentVolumeClaim, Pod, Service
from kuberay.api.gates import Gate
from kuberay.api.partial import Ingress, PartialObject
from kuberay.api.v1 import RayCluster
from kuberay.build import labels, names
from kuberay.build.auth import TOKEN_BYTES
from kuberay.controllers import failures
from kuberay.controllers.act import Actor, Cache
from kuberay.controllers.announce import announcements
from kuberay.controllers.departures import Departures
from kuberay.controllers.history import History
from kuberay.controllers.kinds import RAY_CLUSTERS, ROUTES
from kuberay.controllers.plan import Delete, EmitEvent
from kuberay.controllers.raycluster.blueprint import Blueprint
from kuberay.controllers.raycluster.census import Census
from kuberay.controllers.raycluster.children import WAYS_IN
from kuberay.controllers.raycluster.decide import decide
from kuberay.controllers.raycluster.lookups import Lookups
from kuberay.controllers.raycluster.observe import (
    BY_OWNER,
    Seen,
    may_be_a_clusters,
    observe,
    owner_index,
)
from kuberay.controllers.raycluster.status import at_a_loss
from kuberay.controllers.raycluster.used_names import UsedNames
from kuberay.controllers.running import CATCHING_UP, RayController
from kuberay.kube.controller import Result, itself, owner
from kuberay.kube.decoding import EventType
from kuberay.kube.identity import Key, identity, version_order
from kuberay.kube.informer import Informer
from kuberay.kube.lanes import Lanes
from kuberay.kube.predicates import annotations_changed, any_of, deletion_asked, generation_changed, labels_changed
from kuberay.kube.recorder import Regarding
from kuberay.kube.resources import (
    INGRESSES,
    JOBS,
    PERSISTENT_VOLUME_CLAIMS,
    PODS,
    ROLE_BINDINGS,
    ROLES,
    SECRETS,
    SERVICE_ACCOUNTS,
    SERVICES,
)
from kuberay.kube.store import Store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from kuberay.controllers.failures import Failure
    from kuberay.controllers.options import ControllerOptions
    from kuberay.controllers.outcome import Outcome
    from kuberay.controllers.plan import Action, Plan
    from kuberay.kube.client import Client
    from kuberay.kube.controller import Controller
    from kuberay.kube.decoding import Unreadable
    from kuberay.kube.recorder import Recorder
    from kuberay.kube.resources import Resource

log = structlog.get_logger(__name__)

NAME = "raycluster"
"""Of the controller, in metrics and in the log."""
REPORTER = "raycluster-controller"
"""Of the controller, in events."""

_OUR_PODS = f"{labels.NODE_TYPE} in (head,worker,redis-cleanup)"
_CLEANUP_JOBS = f"{labels.NODE_TYPE}={names.REDIS_CLEANUP}"
_CHILDREN: dict[Resource, type[PartialObject | Ingress]] = {
    SERVICE_ACCOUNTS: PartialObject,
    ROLES: PartialObject,
    ROLE_BINDINGS: PartialObject,
    SECRETS: PartialObject,
    INGRESSES: Ingress,
    ROUTES: PartialObject,
}
"""The kinds of children beside Pods and Services, and what is kept of each."""
_OLD_CRD = (
    "The CustomResourceDefinition of RayClusters drops status.conditions, without which no cluster can be suspended or "
    "cleaned up after: apply that of this version, kuberay crds | kubectl apply --server-side --force-conflicts -f -"
)
_is_news = any_of(generation_changed, deletion_asked, labels_changed, annotations_changed)
"""Whether a change of a cluster is one that decisions depend on; its status is our own word."""


@dataclass(slots=True)
class _Memory:
    """What is remembered of one cluster from pass to pass."""

    uid: str
    failures: dict[str, Failure] = field(default_factory=dict)
    used_names: UsedNames = field(default_factory=UsedNames)
    reported: frozenset[str] = frozenset()
    lookups: Lookups = field(default_factory=Lookups)
    status_held: float | None = None
    """Since when a status is held back."""
    status_due: float = 0.0
    """When it has to be written."""
    is_namespace_closing: bool = False
    loses_conditions: bool = False
    """Whether users were told that the server does not store its conditions."""
    confirmed_at: str = ""
    """The version of the cluster at which its Pods were last known to be as cached."""
    blueprint: Blueprint | None = None
    """Of a cluster that is being worked on; one at rest shall take no memory for it."""

    def blueprint_of(self, cluster: RayCluster) -> Blueprint:
        """What follows from the cluster's own words; worked out once for each generation."""
        if self.blueprint is None or not self.blueprint.fits(cluster):
            self.blueprint = Blueprint(cluster)
        return self.blueprint


class RayClusterController(RayController):
    """Keeps the RayClusters of one namespace, or of all, as their users want them.

    :param now: seconds since 1970.
    :param random: so many unpredictable bytes.
    :param lanes: where it takes turns with other controllers of the same process.
    """

    def __init__(
        self,
        client: Client,
        recorder: Recorder,
        options: ControllerOptions,
        *,
        namespace: str | None = None,
        now: Callable[[], float] = time.time,
        random: Callable[[int], bytes] = secrets.token_bytes,
        lanes: Lanes[str] | None = None,
    ) -> None:
        self._client = client
        self._options = options
        self._now = now
        self._random = random
        self._memory: dict[Key, _Memory] = {}
        self._has_turn = False
        self._untold: dict[Key, Unreadable] = {}
        """Clusters that could not be read before its turn had come."""
        self.history = History()
        self.clusters: Store[RayCluster] = Store()
        self.clusters.on_change(self._note_readable)
        self.pods: Store[Pod] = Store()
        self._census = Census(self.pods)
        self.pods.on_change(self._note_used_name)
        self.services: Store[Service] = Store({BY_OWNER: owner_index})
        self.jobs: Store[Job] = Store({BY_OWNER: owner_index})
        self.claims: Store[PersistentVolumeClaim] = Store()
        self.children: dict[Resource, Store[Any]] = {
            resource: Store() for resource in _CHILDREN if resource != ROUTES or options.uses_routes
        }
        owned: list[Store[Any]] = [self.pods, self.services, self.claims, *self.children.values()]
        self._departures = Departures(client, self.clusters, owned)
        self.cluster_informer = Informer(
            client,
            RAY_CLUSTERS,
            self.clusters,
            type=RayCluster,
            namespace=namespace,
            on_unreadable=self._tell_unreadable,
        )
        informers: list[Informer[Any]] = [
            self.cluster_informer,
            Informer(client, PODS, self.pods, type=Pod, namespace=namespace, labels=_OUR_PODS),
            # Not by label: those for Serve and for the hosts of workers carry none that all of them have.
            Informer(client, SERVICES, self.services, type=Service, namespace=namespace, concerns=may_be_a_clusters),
        ]
        extras: list[Informer[Any]] = []
        for resource, store in self.children.items():
            (extras if resource in WAYS_IN else informers).append(
                Informer(
                    client,
                    resource,
                    store,
                    type=_CHILDREN[resource],
                    namespace=namespace,
                    # An Ingress is mended, and what it has lost may be its label.
                    labels=None if resource == INGRESSES else labels.CLUSTER,
                    concerns=may_be_a_clusters,
                )
            )
        if options.redis_cleanup:
            informers.append(Informer(client, JOBS, self.jobs, type=Job, namespace=namespace, labels=_CLEANUP_JOBS))
        if Gate.GCS_FAULT_TOLERANCE_EMBEDDED_STORAGE in options.gates:
            # A user's own claim carries no label of ours.
            informers.append(
                Informer(client, PERSISTENT_VOLUME_CLAIMS, self.claims, type=PersistentVolumeClaim, namespace=namespace)
            )
        caches = {
            RAY_CLUSTERS: Cache(self.clusters, RayCluster),
            PODS: Cache(self.pods, Pod),
            SERVICES: Cache(self.services, Service),
            JOBS: Cache(self.jobs, Job),
            PERSISTENT_VOLUME_CLAIMS: Cache(self.claims, PersistentVolumeClaim),
            **{resource: Cache(store, _CHILDREN[resource]) for resource, store in self.children.items()},
        }
        self._actor = Actor(client, caches, lanes or Lanes(options.writes_in_flight))
        super().__init__(recorder, informers, namespace=namespace, extras=extras)

    def watch(self, loop: Controller[Key]) -> None:
        """Have clusters looked at: all of them, and each whenever something happens to it or to what it owns."""
        loop.watches(self.clusters, itself, when=_is_news)
        owner_key = owner("RayCluster", "ray.io")
        loop.watches(self.pods, lambda pod: tuple(owner_key(pod)) or _by_label(pod), after=self._options.gathering)
        loop.watches(self.services, owner_key)
        loop.watches(self.jobs, owner_key)
        loop.watches(self.claims, owner_key)
        for store in self.children.values():
            loop.watches(store, owner_key)
        self._has_turn = True
        for found in self._untold.values():
            self._tell_unreadable(found)
        self._untold.clear()

    async def reconcile(self, key: Key) -> Result | None:
        """One pass: look, decide, act."""
        cluster = self.clusters.get(key.namespace, key.name)
        if cluster is None:
            self._memory.pop(key, None)
            return None
        uid = cluster.metadata.uid or ""
        memory = self._memory.get(key)
        if memory is None or memory.uid != uid:
            memory = self._memory[key] = _Memory(uid)
        shown = self.pods.resource_version
        seen = observe(
            cluster,
            self._census,
            self.services,
            drawn=memory.blueprint_of(cluster),
            stores=self.children,
            stand_ins=memory.lookups.stand_ins,
            nodes=memory.lookups.nodes,
            jobs=self.jobs,
            claims=self.claims,
            is_namespace_closing=memory.is_namespace_closing,
            failures=memory.failures,
            used_names=memory.used_names.at(self._now()),
            reported=memory.reported,
        )
        plan = await self._decide(seen)
        if await memory.lookups.refresh(self._client, key.namespace, plan, self._now()):
            seen = replace(seen, stand_ins=memory.lookups.stand_ins, nodes=memory.lookups.nodes)
            plan = await self._decide(seen)
        if not await self._departures.allow(plan, cluster):
            return Result(requeue_after=CATCHING_UP)
        stages, is_held_back = await self._fenced(seen, shown, plan, memory)
        outcome = await self._actor.run(stages, uid)
        is_settled = self._remember(cluster, plan, outcome, memory)
        self.history.note(key, outcome, self._now())
        self._emit(cluster, announcements(outcome, memory.failures))
        if outcome.interruption is not None:
            raise outcome.interruption
        has_acted = not outcome.is_empty
        wait = await self._tell(seen, plan, memory, is_outdated=has_acted or is_settled)
        if has_acted or is_settled:
            return Result(requeue_after=0.0)
        if wait is None and seen.flock.is_steady:
            memory.blueprint = None
        waits = [plan.look_again, wait, CATCHING_UP if is_held_back else None]
        return Result(requeue_after=min((each for each in waits if each is not None), default=None))

    def _note_used_name(self, old: Pod | None, new: Pod | None) -> None:
        """Remember the names of Pods that have left."""
        owner = old.metadata.controller if old is not None and new is None else None
        if old is None or owner is None:
            return
        memory = self._memory.get(Key(old.metadata.namespace, owner.name))
        if memory is not None and memory.uid == owner.uid:
            memory.used_names.note(old.name, self._now())

    def _remember(self, cluster: RayCluster, plan: Plan, outcome: Outcome, memory: _Memory) -> bool:
        """Keep what was refused, and forget what is settled; tells whether there was something to forget."""
        memory.is_namespace_closing |= outcome.is_namespace_closing
        memory.lookups.note(outcome.found)
        for name in outcome.occupied:
            memory.used_names.note(name, self._now())
        before = memory.failures
        memory.failures = failures.after(
            before,
            outcome.unresolved(plan),
            outcome.refusals,
            advanced=outcome.advanced,
            generation=cluster.metadata.generation or 0,
            now=self._now(),
        )
        return before.keys() > memory.failures.keys()

    async def _decide(self, seen: Seen) -> Plan:
        """The plan. No rule is meant to fail, whatever users write; when one does, they shall see at least that."""
        try:
            return decide(seen, self._options, self._now(), self._random(TOKEN_BYTES))
        except Exception as error:
            # What the error says may quote the spec, and that is not for everybody who reads events.
            kind = type(error).__name__
            note = f"The operator cannot make sense of this RayCluster ({kind}) and tries again; its log tells more"
            self._emit(seen.cluster, [EmitEvent(type="Warning", reason="InternalError", action="Reconcile", note=note)])
            told = at_a_loss(seen.cluster, error, self._now()) if self._options.has_conditions else None
            if told is not None:
                await self._actor.patch_status(told)
            raise

    async def _fenced(
        self, seen: Seen, shown: str, plan: Plan, memory: _Memory
    ) -> tuple[Sequence[Sequence[Action]], bool]:
        """The stages that may be carried out, and whether something was left out for want of fresh knowledge.

        The cache of clusters can be newer than that of Pods: then a smaller number of replicas is known, and Pods that
        are already gone are not, and a healthy one too many would be chosen to go.

        :param shown: the version up to which Pods were known when they were looked at. What has been shown since then
            is no part of the plan, and cannot speak for it.
        """
        if not any(isinstance(action, Delete) and action.is_fenced for action in plan.actions):
            return plan.stages, False
        if await self._knew_its_pods(seen, shown, memory):
            return plan.stages, False
        kept = [
            [action for action in stage if not (isinstance(action, Delete) and action.is_fenced)]
            for stage in plan.stages
        ]
        return [stage for stage in kept if stage], True

    async def _knew_its_pods(self, seen: Seen, shown: str, memory: _Memory) -> bool:
        """Whether what was seen of Pods is at least as new as the cluster: by their watch, or by asking once."""
        cluster = seen.cluster
        version = cluster.metadata.resource_version or ""
        if version_order(shown) >= version_order(version) or memory.confirmed_at == version:
            return True
        page = await self._client.list(
            PODS, namespace=cluster.namespace, labels=f"{labels.CLUSTER}={cluster.name},{_OUR_PODS}", type=Pod
        )
        if _states(page.items, cluster) != _states(seen.pods, cluster):
            log.info("waiting for news of Pods before any is removed", version=version)
            return False
        memory.confirmed_at = version
        return True

    async def _tell(self, seen: Seen, plan: Plan, memory: _Memory, *, is_outdated: bool) -> float | None:
        """Write the status and the events of a plan, if it is time; returns in how many seconds to look again.

        A status that nobody waits for is held back until the Pods are quiet, but not for long: they come and go in
        flocks, and one write tells of many.
        """
        now = self._now()
        wait = None
        if plan.status is not None:
            options = self._options
            if memory.status_held is None:
                memory.status_held, memory.status_due = now, now + options.status_delay
            is_due = now >= memory.status_due or (plan.status.is_urgent and not is_outdated)
            if not is_due:
                memory.status_due = min(now + options.status_delay, memory.status_held + options.longest_status_delay)
                return memory.status_due - now
            written = await self._actor.patch_status(plan.status)
            if written is None:
                wait = CATCHING_UP
            else:
                self._departures.confirm(written)
                if plan.status.leads_on and self._keeps_conditions(written, memory):
                    wait = 0.0
        memory.status_held = None
        self._emit(seen.cluster, plan.events)
        memory.reported = plan.told
        return wait

    def _keeps_conditions(self, cluster: RayCluster, memory: _Memory) -> bool:
        """Whether a status is stored with its conditions: what comes next is decided from them."""
        if cluster.status.conditions:
            return True
        if not memory.loses_conditions:
            memory.loses_conditions = True
            log.error(_OLD_CRD)
            self._emit(cluster, [EmitEvent(type="Warning", reason="OutdatedCRD", action="Update", note=_OLD_CRD)])
        return False

    def _tell_unreadable(self, found: Unreadable) -> None:
        """A cluster that cannot even be read gets no status; its events can say so, whatever is in it.

        A standby may not write them, and has it in mind until its turn has come.
        """
        key = Key(found.namespace, found.name)
        if found.type is EventType.DELETED:
            self._untold.pop(key, None)
            return
        if not self._has_turn:
            self._untold[key] = found
            return
        regarding = Regarding(RAY_CLUSTERS.api_version, RAY_CLUSTERS.kind, found.namespace, found.name, "")
        note = f"RayCluster {key} cannot be read, and is left as it is: {found.why}"
        self._recorder.event(regarding, "Warning", "InvalidRayClusterSpec", "Validate", note)

    def _note_readable(self, old: RayCluster | None, new: RayCluster | None) -> None:
        """Forget what was to be told of a cluster that can be read again, or is gone."""
        self._untold.pop(identity(new or old).key, None)


def _by_label(pod: Pod) -> tuple[Key, ...]:
    """The cluster that a Pod of somebody else is labelled with: it is told of, or its name is waited for."""
    name = pod.metadata.labels.get(labels.CLUSTER)
    return (Key(pod.metadata.namespace, name),) if name else ()


def _states(pods: Iterable[Pod], cluster: RayCluster) -> set[tuple[str, str]]:
    """Which Pods of a cluster there are, and in which state each."""
    owned = ((pod.metadata.controller, identity(pod)) for pod in pods)
    return {(pod.uid, pod.resource_version) for by, pod in owned if by is not None and by.uid == cluster.metadata.uid}
