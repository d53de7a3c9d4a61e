"""Every name of an object we make, and the rules by which a name that is too long becomes one that fits.

The rules are KubeRay's, quirks included: Ray's autoscaler, dashboards and users' scripts find objects by these names.
"""

from __future__ import annotations

import hashlib
import string
from typing import TYPE_CHECKING

from kuberay.api.templates import mapping, text

if TYPE_CHECKING:
    from collections.abc import Container

    from kuberay.api.v1 import RayCluster, WorkerGroupSpec

HEAD = "head"
WORKER = "worker"
REDIS_CLEANUP = "redis-cleanup"
"""Values of the label `ray.io/node-type`."""

HEAD_GROUP = "headgroup"
"""The group name of the head: no worker group can have it."""

WAIT_GCS_READY = "wait-gcs-ready"
SHARED_MEMORY = "shared-mem"
AUTOSCALER = "autoscaler"
RAY_LOGS = "ray-logs"

DEFAULT_PORTS = {"client": 10001, "dashboard": 8265, "gcs-server": 6379, "metrics": 8080, "serve": 8000}
"""What a head listens on when its container declares nothing else."""

DASHBOARD_AGENT_PORT = 52365

_POD_PREFIX = 50
_NAME = 50
_LABEL = 63
_ROUTE = 51
# The letters and digits that Kubernetes puts at the end of generated names: no vowels, so no words.
_SUFFIX_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
_SUFFIX_LENGTH = 5


def pod_prefix(prefix: str, node_type: str) -> str:
    """The name of a Pod without its random end: the first 50 characters, then the node type, in lower case."""
    return f"{prefix[:_POD_PREFIX]}-{node_type}".lower()


def head_pod(cluster: RayCluster) -> str:
    """The one name a head Pod of this cluster can have, which is what keeps a second head from existing.

    Never shortened, or two clusters with long names could want the same: the longest name that a cluster may have
    leaves room for the node type.
    """
    return f"{cluster.name}-{HEAD}".lower()


def head_generate_name(cluster: RayCluster) -> str:
    return pod_prefix(cluster.name, HEAD) + "-"


def worker_generate_name(cluster: RayCluster, group: WorkerGroupSpec) -> str:
    return pod_prefix(f"{cluster.name}-{group.group_name}", WORKER) + "-"


def unused(generate_name: str, seed: str, taken: Container[str]) -> str:
    """A name that looks generated but follows from `seed`: the first of its series that is not `taken`.

    Whoever asks twice with the same knowledge gets the same name. So a create whose answer was lost, or that two
    overlapping operators send, ends in `AlreadyExists` and not in a Pod too many.
    """
    attempt = 0
    while True:
        digest = hashlib.sha1(f"{seed}/{attempt}".encode(), usedforsecurity=False).digest()
        number = int.from_bytes(digest, "big")
        suffix = ""
        for _ in range(_SUFFIX_LENGTH):
            number, digit = divmod(number, len(_SUFFIX_ALPHABET))
            suffix += _SUFFIX_ALPHABET[digit]
        name = generate_name + suffix
        if name not in taken:
            return name
        attempt += 1


def head_service(cluster: RayCluster) -> str:
    """The user's name for it when there is one. Never shortened."""
    given = text(mapping(cluster.spec.head_group_spec.head_service, "metadata"), "name")
    return given or f"{cluster.name}-head-svc"


def headless_service(cluster: RayCluster) -> str:
    return f"{cluster.name}-headless"


def serve_service(cluster: RayCluster) -> str:
    return f"{cluster.name}-serve-svc"


def ingress(cluster: RayCluster) -> str:
    return check_name(f"{cluster.name}-head-ingress")


def route(cluster: RayCluster) -> str:
    """Short enough for the host name that OpenShift makes of it and of its namespace."""
    longest = max(_ROUTE - len(cluster.namespace), 1)
    return check_name(f"{cluster.name}-head-route"[:longest])


def role(cluster: RayCluster) -> str:
    """Of the autoscaler's Role and of its RoleBinding."""
    return check_name(cluster.name)


def auth_secret(cluster: RayCluster) -> str:
    """Of the Secret with the cluster's token, unless the user names another."""
    return check_name(cluster.name)


def head_address(cluster: RayCluster, cluster_domain: str) -> str:
    """The DNS name by which every other Pod reaches the head."""
    return f"{head_service(cluster)}.{cluster.namespace}.svc.{cluster_domain}"


def redis_cleanup_job(cluster: RayCluster) -> str:
    return check_label(f"{cluster.name}-{REDIS_CLEANUP}")


def head_network_policy(cluster: RayCluster) -> str:
    return f"{cluster.name}-head"


def worker_network_policy(cluster: RayCluster, group: str) -> str:
    return f"{cluster.name}-workers-{group}"


def gcs_claim(cluster: RayCluster) -> str:
    """The volume claim of a head that keeps its state itself. Never shortened."""
    return f"{cluster.name}-gcs-pvc"


def identifier(cluster: RayCluster, node_type: str) -> str:
    """The value of the label `ray.io/identifier`."""
    return check_label(f"{cluster.name}-{node_type}")


def check_name(name: str) -> str:
    """The last 50 characters, with a first one that a name may start with."""
    name = name[-_NAME:]
    if name[:1].isdigit():
        name = "r" + name[1:]
    return _without_leading_punctuation(name)


def check_label(value: str) -> str:
    """The last 63 characters, with a first one that a label value may start with. Also the rule for Job names."""
    return _without_leading_punctuation(value[-_LABEL:])


def _without_leading_punctuation(name: str) -> str:
    return "r" + name[1:] if name[:1] and name[0] in string.punctuation else name
