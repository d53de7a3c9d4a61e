"""The operator's rules for a RayCluster, beyond what its schema says.

In three parts, because each part is reported by an event of its own: metadata, spec and status. Every problem is
returned, in the order of the fields; a caller that wants one takes the first error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kuberay.api.meta import is_true
from kuberay.api.problems import Problem, shown
from kuberay.api.validate.authentication import authentication_problems
from kuberay.api.validate.autoscaling import autoscaling_problems
from kuberay.api.validate.fault_tolerance import fault_tolerance_problems
from kuberay.api.validate.groups import group_problems
from kuberay.api.validate.history import history_problems
from kuberay.api.validate.names import RAY_CLUSTER_NAME, name_problems
from kuberay.api.validate.network import network_policy_problems, tls_problems
from kuberay.api.validate.subject import Subject

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kuberay.api.gates import FeatureGates
    from kuberay.api.v1 import RayCluster, RayClusterSpec

LABEL_ORIGIN = "ray.io/originated-from-crd"
UPGRADE_STRATEGIES = ("Recreate", "None")


def metadata_problems(cluster: RayCluster) -> list[Problem]:
    """The name must leave room for the names of Services and Pods."""
    return list(name_problems("RayCluster", cluster.metadata, RAY_CLUSTER_NAME))


def spec_problems(cluster: RayCluster, gates: FeatureGates) -> list[Problem]:
    """Everything about the spec of a cluster that stands by itself."""
    problems = cluster_spec_problems(cluster.spec, cluster.metadata.annotations, gates)
    strategy = cluster.spec.upgrade_strategy.type if cluster.spec.upgrade_strategy else None
    if strategy is not None:
        origin = cluster.metadata.labels.get(LABEL_ORIGIN)
        if strategy not in UPGRADE_STRATEGIES:
            problems.append(
                Problem(
                    "spec.upgradeStrategy.type", f"must be {' or '.join(UPGRADE_STRATEGIES)}, got {shown(strategy)}"
                )
            )
        if origin in ("RayJob", "RayService"):
            problems.append(
                Problem("spec.upgradeStrategy.type", f"cannot be set on a RayCluster that was created by a {origin}")
            )
    return problems


def cluster_spec_problems(
    spec: RayClusterSpec, annotations: Mapping[str, str], gates: FeatureGates, path: str = "spec"
) -> list[Problem]:
    """Everything about a cluster's spec wherever it stands; jobs and services hold one under another path.

    :param annotations: of the object that holds the spec; fault tolerance may be asked for there.
    """
    subject = Subject(spec, annotations, gates, path)
    return [
        *group_problems(subject),
        *fault_tolerance_problems(subject),
        *autoscaling_problems(subject),
        *history_problems(subject),
        *authentication_problems(subject),
        *network_policy_problems(subject),
        *tls_problems(subject),
    ]


def status_problems(cluster: RayCluster) -> list[Problem]:
    """A status that no operator writes: suspending and suspended at once."""
    conditions = cluster.status.conditions
    if is_true(conditions, "RayClusterSuspending") and is_true(conditions, "RayClusterSuspended"):
        return [Problem("status.conditions", "RayClusterSuspending and RayClusterSuspended cannot both be True")]
    return []
