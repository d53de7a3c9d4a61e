"""Rules for what a RayJob deletes when it has ended: nothing twice, nothing that is not its own, in a sane order."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from kuberay.api.problems import Problem, warning

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kuberay.api.v1 import DeletionStrategy, RayJobSpec

_ORDER = ("DeleteWorkers", "DeleteCluster", "DeleteSelf")
"""What goes with what follows it, so it cannot go later."""


def deletion_problems(spec: RayJobSpec, strategy: DeletionStrategy, path: str) -> Iterator[Problem]:
    """All rules about the deletion strategy."""
    where = f"{path}.deletionStrategy"
    legacy = strategy.on_success is not None or strategy.on_failure is not None
    if strategy.deletion_rules:
        if spec.shutdown_after_job_finishes:
            yield Problem(f"{where}.deletionRules", "cannot be set beside shutdownAfterJobFinishes: true")
        if legacy:
            yield Problem(f"{where}.deletionRules", "cannot be set beside onSuccess and onFailure")
        yield from _rule_problems(spec, strategy, f"{where}.deletionRules")
    elif legacy:
        yield warning(where, "onSuccess and onFailure are deprecated; use deletionRules")
        yield from _legacy_problems(spec, strategy, where)
    else:
        yield Problem(where, "needs deletionRules, or both onSuccess and onFailure")


def _own_cluster_problem(spec: RayJobSpec, policy: str | None) -> str | None:
    """Why a policy does not suit the job's cluster."""
    if spec.cluster_selector and policy in ("DeleteCluster", "DeleteWorkers"):
        return f"{policy} is not possible with clusterSelector: the cluster is not the job's own"
    if policy == "DeleteWorkers" and spec.ray_cluster_spec is not None and spec.ray_cluster_spec.is_autoscaling:
        return "DeleteWorkers is not possible with autoscaling on: the autoscaler would bring them back"
    return None


def _rule_problems(spec: RayJobSpec, strategy: DeletionStrategy, path: str) -> Iterator[Problem]:
    seen: set[tuple[str, str, str]] = set()
    ttls: dict[tuple[str, str], dict[str, tuple[int, int]]] = {}
    for index, rule in enumerate(strategy.deletion_rules):
        where = f"{path}[{index}]"
        condition = rule.condition
        states = {"jobStatus": condition.job_status, "jobDeploymentStatus": condition.job_deployment_status}
        given = [(field, value) for field, value in states.items() if value]
        if len(given) != 1:
            yield Problem(f"{where}.condition", "needs exactly one of jobStatus and jobDeploymentStatus")
            continue
        ttl = condition.ttl_seconds or 0
        if ttl < 0:
            yield Problem(f"{where}.condition.ttlSeconds", f"must not be negative, got {ttl}")
            continue
        if wrong := _own_cluster_problem(spec, rule.policy):
            yield Problem(f"{where}.policy", wrong)
            continue
        field, value = given[0]
        if (field, value, rule.policy) in seen:
            yield Problem(where, f"{rule.policy} for {field} {value} is already said by an earlier rule")
            continue
        seen.add((field, value, rule.policy))
        ttls.setdefault((field, value), {})[rule.policy] = (ttl, index)
    for (field, value), found in ttls.items():
        ordered = [(policy, *found[policy]) for policy in _ORDER if policy in found]
        for (sooner, ttl, _), (later, next_ttl, index) in itertools.pairwise(ordered):
            if ttl > next_ttl:
                yield Problem(
                    f"{path}[{index}].condition.ttlSeconds",
                    f"for {field} {value}, {later} ({next_ttl} s) must not come before {sooner} ({ttl} s)",
                )


def _legacy_problems(spec: RayJobSpec, strategy: DeletionStrategy, path: str) -> Iterator[Problem]:
    for field, side in (("onSuccess", strategy.on_success), ("onFailure", strategy.on_failure)):
        if side is None:
            yield Problem(f"{path}.{field}", "must be set: onSuccess and onFailure belong together")
            continue
        where = f"{path}.{field}.policy"
        if not side.policy:
            yield Problem(where, "must be set")
        elif wrong := _own_cluster_problem(spec, side.policy):
            yield Problem(where, wrong)
        elif spec.shutdown_after_job_finishes and side.policy == "DeleteNone":
            yield Problem(where, "DeleteNone contradicts shutdownAfterJobFinishes: true")
