"""`ray.io/v1` as Python types.

from kuberay.api.v1 import RayCluster

cluster = RayCluster.from_dict(manifest)
for group in cluster.spec.worker_group_specs:
    print(group.group_name, group.replicas)
"""

from kuberay.api.meta import Condition, ObjectMeta, OwnerReference
from kuberay.api.model import DecodeError
from kuberay.api.v1.options import (
    AuthOptions,
    AutoscalerOptions,
    CollectorOptions,
    GcsFaultToleranceOptions,
    GcsStorage,
    GroupNetworkRules,
    HistoryServerOptions,
    NetworkPolicyOptions,
    NetworkRules,
    RedisCredential,
    TlsOptions,
    UpgradeStrategy,
)
from kuberay.api.v1.raycluster import (
    HeadGroupSpec,
    HeadInfo,
    IngressOptions,
    RayCluster,
    RayClusterSpec,
    RayClusterStatus,
    ScaleStrategy,
    WorkerGroupSpec,
)

__all__ = [
    "AuthOptions",
    "AutoscalerOptions",
    "CollectorOptions",
    "Condition",
    "DecodeError",
    "GcsFaultToleranceOptions",
    "GcsStorage",
    "GroupNetworkRules",
    "HeadGroupSpec",
    "HeadInfo",
    "HistoryServerOptions",
    "IngressOptions",
    "NetworkPolicyOptions",
    "NetworkRules",
    "ObjectMeta",
    "OwnerReference",
    "RayCluster",
    "RayClusterSpec",
    "RayClusterStatus",
    "RedisCredential",
    "ScaleStrategy",
    "TlsOptions",
    "UpgradeStrategy",
    "WorkerGroupSpec",
]
