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
from kuberay.api.v1.raycronjob import RayCronJob, RayCronJobSpec, RayCronJobStatus
from kuberay.api.v1.rayjob import (
    DeletionCondition,
    DeletionPolicy,
    DeletionRule,
    DeletionStrategy,
    RayJob,
    RayJobInfo,
    RayJobSpec,
    RayJobStatus,
    SubmitterConfig,
)
from kuberay.api.v1.rayservice import (
    AppStatus,
    ClusterUpgradeOptions,
    RayService,
    RayServiceSpec,
    RayServiceStatus,
    RayServiceUpgradeStrategy,
    ServeDeploymentStatus,
    ServiceClusterStatus,
)

__all__ = [
    "AppStatus",
    "AuthOptions",
    "AutoscalerOptions",
    "ClusterUpgradeOptions",
    "CollectorOptions",
    "Condition",
    "DecodeError",
    "DeletionCondition",
    "DeletionPolicy",
    "DeletionRule",
    "DeletionStrategy",
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
    "RayCronJob",
    "RayCronJobSpec",
    "RayCronJobStatus",
    "RayJob",
    "RayJobInfo",
    "RayJobSpec",
    "RayJobStatus",
    "RayService",
    "RayServiceSpec",
    "RayServiceStatus",
    "RayServiceUpgradeStrategy",
    "RedisCredential",
    "ScaleStrategy",
    "ServeDeploymentStatus",
    "ServiceClusterStatus",
    "SubmitterConfig",
    "TlsOptions",
    "UpgradeStrategy",
    "WorkerGroupSpec",
]
