"""The Job that removes a deleted cluster's state from Redis.

Only the head's image, environment and mounts are sure to reach that Redis, so the Job runs what is left of the head
Pod when everything that makes it a Ray node is taken away.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from kuberay.build import container, labels, names
from kuberay.build import pod as pods

if TYPE_CHECKING:
    from kuberay.api.v1 import RayCluster
    from kuberay.build.options import BuildOptions

Json = dict[str, Any]

DEADLINE_SECONDS = 300

_RESOURCES = {"cpu": "200m", "memory": "256Mi"}
_GUIDE = "https://docs.ray.io/en/master/cluster/kubernetes/user-guides/kuberay-gcs-ft.html"
_DROPPED_ANNOTATIONS = (labels.RECREATE_HASH, labels.KUBERAY_VERSION, labels.MADE_FROM)
# It waits for a certificate that names the head's address; a Job has none.
_DROPPED_INIT_CONTAINER = "wait-for-tls-ip-san"

# It stands in single quotes in a shell line, so it must hold none itself; and no `$(`, which Kubernetes would take for
# a variable. Older versions of Ray do not know the argument `username`.
PROGRAM = """
import os, sys
from urllib.parse import urlsplit

from ray._private.gcs_utils import cleanup_redis_storage

address = os.environ.get("RAY_REDIS_ADDRESS", "").partition(",")[0]
url = urlsplit(address if "://" in address else "redis://" + address)
login = {"password": os.environ.get("REDIS_PASSWORD", url.password or "")}
if "REDIS_USERNAME" in os.environ:
    login["username"] = os.environ["REDIS_USERNAME"] or url.username or ""
done = cleanup_redis_storage(
    host=url.hostname,
    port=url.port,
    use_ssl=url.scheme == "rediss",
    storage_namespace=os.environ["RAY_external_storage_namespace"],
    **login,
)
sys.exit(0 if done else "Redis did not remove the state")
"""


def job(cluster: RayCluster, options: BuildOptions) -> Json:
    """The cleanup Job of a cluster. Tried once: whoever watches it decides what a failure means."""
    head = pods.head(cluster, options)
    metadata: Json = {
        "labels": {**head.metadata["labels"], labels.NODE_TYPE: names.REDIS_CLEANUP},
        "annotations": {
            key: value for key, value in head.metadata.get("annotations", {}).items() if key not in _DROPPED_ANNOTATIONS
        },
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": names.redis_cleanup_job(cluster),
            "namespace": cluster.namespace,
            **metadata,
            "ownerReferences": [pods.owner_reference(cluster)],
        },
        "spec": {
            "backoffLimit": 0,
            "activeDeadlineSeconds": DEADLINE_SECONDS,
            "template": {"metadata": metadata, "spec": _pod_spec(orjson.loads(head.spec), options)},
        },
    }


def _pod_spec(spec: Json, options: BuildOptions) -> Json:
    ray: Json = spec["containers"][0]
    for probe in ("livenessProbe", "readinessProbe", "startupProbe"):
        ray.pop(probe, None)
    container.append_env(ray, "RAY_redis_db_connect_retries", "120")
    container.append_env(ray, "RAY_redis_db_connect_wait_milliseconds", "500")
    ray["command"] = container.bash(options)
    ray["args"] = [f"echo \"How to clean up by hand if this fails: {_GUIDE}\" && python -c '{PROGRAM}'"]
    ray["resources"] = {"limits": dict(_RESOURCES), "requests": dict(_RESOURCES)}
    spec["containers"] = [ray]
    spec["restartPolicy"] = "Never"
    if "initContainers" in spec:
        spec["initContainers"] = [
            each for each in spec["initContainers"] if each.get("name") != _DROPPED_INIT_CONTAINER
        ]
    return spec
