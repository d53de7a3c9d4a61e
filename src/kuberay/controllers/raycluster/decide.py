"""What is to be done about a RayCluster. Pure: the same snapshot at the same time gives the same plan.

In order: is it leaving, is it ours, is it valid; then the head Service and what else it needs beside Pods; then, unless
it is suspended, the head, and the worker groups, each by itself; and the status that tells of all this.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import orjson

from kuberay.api.cel import MANAGED_BY_OPERATOR
from kuberay.api.meta import find_condition, is_true
from kuberay.api.problems import Problem, Severity, child, errors
from kuberay.api.validate.raycluster import status_problems
from kuberay.build import labels, names, services
from kuberay.build import pod as pods
from kuberay.controllers.conditions import LONGEST_MESSAGE
from kuberay.controllers.plan import ANY_POD, HEAD_POD, SERVICE, Create, Delete, EmitEvent, Plan, Subject
from kuberay.controllers.raycluster import children, deletion, following, scale, scaling, storage, upgrade
from kuberay.controllers.raycluster.health import beyond_repair, seconds_until_age
from kuberay.controllers.raycluster.lost import lost
from kuberay.controllers.raycluster.status import (
    BLOCKED,
    PROVISIONED,
    SUSPENDED,
    SUSPENDING,
    Blocked,
    is_resumed,
    status,
    status_patch,
)
from kuberay.controllers.raycluster.trouble import seconds_until_told
from kuberay.kube.resources import PODS, SERVICES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kuberay.api.core import Pod
    from kuberay.api.v1 import RayCluster
    from kuberay.controllers.options import ControllerOptions
    from kuberay.controllers.plan import Action
    from kuberay.controllers.raycluster.observe import Seen

SERVICE_SCOPE = "service"
HEAD_SCOPE = "head"
SUSPEND_SCOPE = "suspend"


def decide(seen: Seen, options: ControllerOptions, now: float, entropy: bytes) -> Plan:
    """The plan for a cluster.

    :param now: seconds since 1970.
    :param entropy: `auth.TOKEN_BYTES` unpredictable bytes, for a token that may have to be made.
    """
    cluster = seen.cluster
    if cluster.metadata.deletion_timestamp is not None or seen.is_namespace_closing:
        # With a namespace everything in it goes, the rights to let a cluster go among it: that is not put off. Nor does
        # it matter who manages the cluster by now: nobody else would take away a finalizer that we have put there.
        return deletion.deletion(seen, options, now)
    if not _is_ours(seen):
        return Plan()
    blocked = _blocked(seen, options)
    draft = _Draft(seen, options, now, entropy)
    if blocked is None:
        draft.fill()
    events = (
        *_blocked_event(seen, blocked, options),
        *_warning_events(seen, options),
        *_shape_events(seen),
        *_stranger_events(seen),
        *(storage.claim_events(seen) if blocked is None else ()),
        *(children.unknown_events(seen, options) if blocked is None else ()),
    )
    return Plan(
        stages=draft.stages,
        status=status_patch(cluster, status(seen, blocked, now, has_conditions=options.has_conditions), now),
        events=tuple(event for event in events if event.once not in seen.reported),
        told=frozenset(event.once for event in events if event.once),
        held=frozenset(draft.held),
        look_again=draft.look_again,
        nodes=draft.nodes,
    )


def _is_ours(seen: Seen) -> bool:
    return seen.cluster.spec.managed_by in (None, MANAGED_BY_OPERATOR)


def _blocked(seen: Seen, options: ControllerOptions) -> Blocked | None:
    """Why the cluster must be left as it is: what its user has to change first."""
    for reason, problems in _layers(seen, options):
        if problems:
            return Blocked(reason, "; ".join(map(str, problems))[:LONGEST_MESSAGE])
    return storage.foreign_claim(seen)


def _layers(seen: Seen, options: ControllerOptions) -> Iterator[tuple[str, list[Problem]]]:
    """What is wrong, one kind of it after the other: each may rely on those before it."""
    yield "InvalidRayClusterMetadata", seen.blueprint.metadata_problems
    yield "InvalidRayClusterSpec", errors(seen.blueprint.spec_problems(options.gates))
    yield "InvalidRayClusterSpec", errors(seen.blueprint.shape_problems)
    yield "InvalidRayClusterSpec", list(_service_problems(seen.cluster))
    yield "InvalidRayClusterStatus", status_problems(seen.cluster)
    yield "NotSupportedYet", seen.blueprint.unsupported


def _service_problems(cluster: RayCluster) -> Iterator[Problem]:
    wants_serve = services.wants_serve(cluster)
    if wants_serve and not services.serve_ports(cluster):
        where = child("metadata.annotations", labels.ENABLE_SERVE_SERVICE)
        yield Problem(where, "needs a port of the head's Ray container that is named serve, or starts with serve-")
    others = {
        names.serve_service(cluster): wants_serve,
        names.headless_service(cluster): services.wants_headless(cluster),
    }
    name = names.head_service(cluster)
    if others.get(name):
        where = "spec.headGroupSpec.headService.metadata.name"
        yield Problem(where, f"{name} is the name of another Service of this cluster; use another one")


def _warning_events(seen: Seen, options: ControllerOptions) -> Iterator[EmitEvent]:
    """What may go wrong with the restart policies of a cluster that scales itself, told once for each generation."""
    cluster = seen.cluster
    if not cluster.spec.is_autoscaling or cluster.status.observed_generation == cluster.metadata.generation:
        return
    found = [each for each in seen.blueprint.spec_problems(options.gates) if each.path.endswith(".restartPolicy")]
    if found and not errors(found):
        note = f"RayCluster {cluster.namespace}/{cluster.name}: " + "; ".join(map(str, found))
        yield EmitEvent(type="Warning", reason="InvalidRayClusterSpec", action="Validate", note=note)


def _shape_events(seen: Seen) -> Iterator[EmitEvent]:
    """Fields of templates that a full CRD would have dropped, told once for each generation."""
    cluster = seen.cluster
    if cluster.status.observed_generation == cluster.metadata.generation:
        return
    if found := [each for each in seen.blueprint.shape_problems if each.severity is Severity.WARNING]:
        note = f"RayCluster {cluster.namespace}/{cluster.name}: " + "; ".join(map(str, found))
        once = f"shape of generation {cluster.metadata.generation}"
        yield EmitEvent(type="Warning", reason="InvalidRayClusterSpec", action="Validate", note=note, once=once)


def _blocked_event(seen: Seen, blocked: Blocked | None, options: ControllerOptions) -> Iterator[EmitEvent]:
    """One warning when a cluster becomes blocked, or blocked for another reason."""
    if blocked is None:
        return
    known = find_condition(seen.cluster.status.conditions, BLOCKED) if options.has_conditions else None
    if known is None or (known.reason, known.message) != (blocked.reason, blocked.message):
        note = f"RayCluster {seen.cluster.namespace}/{seen.cluster.name}: {blocked.message}"
        once = "" if options.has_conditions else note
        yield EmitEvent(type="Warning", reason=blocked.reason, action="Validate", note=note, once=once)


def _stranger_events(seen: Seen) -> Iterator[EmitEvent]:
    """Somebody else's Pod that looks like ours is neither counted nor touched, but its user should know.

    Pods of an earlier cluster of the same name are on their way out by themselves.
    """
    for pod in seen.strangers:
        owner = pod.metadata.controller
        is_leftover = owner is not None and (owner.kind, owner.name) == ("RayCluster", seen.cluster.name)
        if not is_leftover:
            name = f"{pod.metadata.namespace}/{pod.name}"
            note = f"Pod {name} carries the labels of this RayCluster but does not belong to it; it is not counted"
            yield EmitEvent(type="Warning", reason="ForeignPod", action="Validate", note=note, once=pod.metadata.uid)


class _Draft:
    """A plan in the making: the actions of each stage, and when to look again."""

    def __init__(self, seen: Seen, options: ControllerOptions, now: float, entropy: bytes) -> None:
        self._seen = seen
        self._cluster = seen.cluster
        self._options = options
        self._now = now
        self._entropy = entropy
        self._live_heads = [pod for pod in seen.heads if not pod.is_leaving]
        self._precautions: list[Action] = []
        self._deletes: list[Action] = []
        self._last_deletes: list[Action] = []
        self._service: list[Action] = []
        self._references: list[Action] = []
        self._head: list[Action] = []
        self._workers: list[Action] = []
        waits = (options.resync, seconds_until_told(seen.flock.troubles, now))
        self._waits = [each for each in waits if each is not None]
        self.held: set[str] = set()
        self.nodes: frozenset[str] = frozenset()

    @property
    def stages(self) -> tuple[tuple[Action, ...], ...]:
        """What must be there before anything is stored; then deletes, because what they free may be needed; then the
        Service and the other children, the head, the workers."""
        stages = (
            self._precautions,
            self._deletes,
            self._last_deletes,
            self._service,
            self._references,
            self._head,
            self._workers,
        )
        return tuple(tuple(stage) for stage in stages if stage)

    @property
    def look_again(self) -> float | None:
        return min(self._waits, default=None)

    def fill(self) -> None:
        self._force_away_lost_heads()
        # A cluster without Pods has everything else all the same: what it stores shall stay or go as its user says now.
        is_provided = self._take_precautions() and self._provide()
        conditions = self._cluster.status.conditions if self._options.has_conditions else []
        if is_true(conditions, SUSPENDING):
            self._remove_everything()
        elif is_true(conditions, SUSPENDED):
            if not is_resumed(self._cluster):
                self._remove_everything()  # a Pod that was asked for before, and came late
        elif self._cluster.spec.suspend:
            # It says so first, if it can; its Pods go when that is known.
            if not self._options.has_conditions:
                self._remove_everything()
        elif is_provided:
            self._add_pods()
        else:
            self._leave_workers()

    def _take_precautions(self) -> bool:
        """Provide for what a head stores: that it is removed in the end, and that there is a volume to store it on.

        Returns whether a head may be made.
        """
        if deletion.needs_finalizer(self._cluster, self._options):
            if self._is_held(deletion.FINALIZER_SCOPE):
                return False
            self._precautions.append(deletion.add_finalizer(self._cluster))
        action = storage.claim_action(self._seen)
        if action is not None:
            if self._is_held(storage.SCOPE):
                return False
            self._precautions.append(action)
        return True

    def _is_held(self, scope: str) -> bool:
        """Whether a scope was refused a moment ago, and has to wait."""
        failure = self._seen.failures.get(scope)
        if failure is None or not failure.holds(self._cluster.metadata.generation or 0, self._now):
            return False
        self.held.add(scope)
        self._waits.append(failure.retry_at - self._now)
        return True

    def _force_away_lost_heads(self) -> None:
        found = lost(self._seen.heads, self._seen.nodes, HEAD_SCOPE, self._options.lost_after, self._now)
        self.nodes = found.nodes
        if found.look_again is not None:
            self._waits.append(found.look_again)
        if found.deletes and not self._is_held(HEAD_SCOPE):
            self._deletes += found.deletes

    def _remove_everything(self) -> None:
        if self._is_held(SUSPEND_SCOPE):
            return
        live = [pod for pod in self._seen.pods if not pod.is_leaving]
        for pod in live[: self._options.batch]:
            self._deletes.append(_delete(pod, ANY_POD, SUSPEND_SCOPE, "the cluster is being suspended"))

    def _provide(self) -> bool:
        """Everything beside Pods. Returns whether Pods have what they cannot do without, or are about to."""
        self._add_service()
        needs = children.needs(self._seen, self._options, self._entropy, self._is_held)
        self._service += needs.first
        self._references += needs.second
        return not needs.blocks_pods and not self._seen.left_behind

    def _add_service(self) -> None:
        scopes = {
            names.head_service(self._cluster): SERVICE_SCOPE,
            names.serve_service(self._cluster): children.SERVE_SCOPE,
        }
        for change in following.changes(self._seen, self._options, scopes):
            if not self._is_held(change.scope):
                self._service.append(change)
        if self._seen.head_service is not None or self._seen.left_behind or self._is_held(SERVICE_SCOPE):
            return
        service = services.head(self._cluster, self._options.build)
        self._service.append(
            Create(
                resource=SERVICES,
                namespace=self._cluster.namespace,
                name=names.head_service(self._cluster),
                body=orjson.dumps(service),
                subject=SERVICE,
                scope=SERVICE_SCOPE,
                why="the cluster has no head Service",
            )
        )

    def _add_pods(self) -> None:
        if upgrade.is_outdated(self._seen, self._options):
            self._recreate()
            return
        self._rename_head()
        self._add_head()
        if self._may_have_workers:
            self._add_workers()
        else:
            self._leave_workers()

    def _leave_workers(self) -> None:
        """Keep in mind which groups were refused Pods: what a group lacks for that reason is not lost."""
        scopes = (scaling.scope(group.group_name) for group in self._cluster.spec.worker_group_specs)
        self.held |= {scope for scope in scopes if scope in self._seen.failures}

    def _recreate(self) -> None:
        if not self._is_held(upgrade.SCOPE):
            workers, heads = upgrade.removals(self._seen, self._options)
            self._deletes += workers
            self._last_deletes += heads

    def _rename_head(self) -> None:
        change = upgrade.rename(self._seen, self._options)
        if change is not None and not self._is_held(upgrade.SCOPE):
            self._head.append(change)

    def _add_head(self) -> None:
        """A head if there is none. One that is beyond repair goes, and is replaced when it is gone.

        A head that is leaving still holds its name, and may still write: the new one waits for its end.
        """
        if self._is_held(HEAD_SCOPE) or (self._seen.head_service is None and SERVICE_SCOPE in self.held):
            return
        if not self._seen.heads:
            if not self._stays_headless and not self._is_head_name_taken:
                self._head.append(_new_head(self._seen, self._options))
        elif len(self._live_heads) == 1:
            head = self._live_heads[0]
            why = beyond_repair(head)
            if why is None:
                return
            wait = seconds_until_age(head, self._options.replace_after, self._now)
            if wait > 0:
                self._waits.append(wait)
            else:
                self._deletes.append(_delete(head, HEAD_POD, HEAD_SCOPE, why))

    @property
    def _stays_headless(self) -> bool:
        """A RayJob whose submitter lives in the head asks for this: a second head would run the job a second time."""
        wish = self._cluster.metadata.annotations.get(labels.DISABLE_PROVISIONED_HEAD_RESTART)
        return wish == "true" and is_true(self._cluster.status.conditions, PROVISIONED)

    @property
    def _is_head_name_taken(self) -> bool:
        """So it is when a cluster was made again under its name before its old head was gone."""
        name = pods.head_name(self._cluster, self._options.build)
        return any(pod.name == name for pod in self._seen.strangers)

    @property
    def _may_have_workers(self) -> bool:
        """Workers are for joining a head: without one (or one to come), or with two, they are left as they are."""
        return len(self._live_heads) <= 1 and bool(self._seen.heads or self._head)

    def _add_workers(self) -> None:
        self._deletes += [
            orphan for orphan in scale.orphans(self._seen, self._options) if not self._is_held(orphan.scope)
        ]
        groups = self._cluster.spec.worker_group_specs
        # Many groups share what may be done at a time, so that a plan stays short.
        options = replace(self._options, batch=max(self._options.batch // max(len(groups), 1), 1))
        for group in groups:
            may_grow = not self._is_held(scaling.scope(group.group_name))
            needs = scale.scale(self._seen, group, options, self._now, may_grow=may_grow)
            if needs.deletes and not self._is_held(scaling.removal_scope(group.group_name)):
                self._deletes += needs.deletes
            self._workers += needs.creates
            if needs.look_again is not None:
                self._waits.append(needs.look_again)


def _delete(pod: Pod, subject: Subject, scope: str, why: str) -> Delete:
    return Delete(
        resource=PODS,
        namespace=pod.metadata.namespace,
        name=pod.name,
        uid=pod.metadata.uid,
        subject=subject,
        scope=scope,
        why=why,
    )


def _new_head(seen: Seen, options: ControllerOptions) -> Create:
    cluster = seen.cluster
    template = seen.blueprint.head(options.build)
    name = pods.head_name(cluster, options.build)
    is_generated = name is None
    if name is None:
        taken = {pod.name for pod in (*seen.pods, *seen.strangers)} | seen.used_names
        name = names.unused(names.head_generate_name(cluster), f"{cluster.metadata.uid}/{names.HEAD}", taken)
    return Create(
        resource=PODS,
        namespace=cluster.namespace,
        name=name,
        body=template.pod(name),
        subject=HEAD_POD,
        scope=HEAD_SCOPE,
        why="the cluster has no head Pod",
        takes_another_name=is_generated,
    )
