"""The optional parts of a RayCluster's spec: autoscaler, authentication, fault tolerance, history, network, TLS."""

# ruff: noqa: RUF012 (a Struct makes a new list or dict for each instance)

from typing import Annotated

import msgspec

from kuberay.api import cel
from kuberay.api.facts import Facts, Int32, Json, Quantity
from kuberay.api.model import Model


class UpgradeStrategy(Model, frozen=True, kw_only=True):
    """What happens to running Pods when the spec changes."""

    type: Annotated[str | None, Facts(enum=("Recreate", "None"))] = None
    """`Recreate` replaces all Pods; `None` and absent leave them as they are."""


class AuthOptions(Model, frozen=True, kw_only=True):
    """Who may talk to the Ray cluster."""

    mode: Annotated[str | None, Facts(enum=("disabled", "token"))] = None
    """`token` asks every client for a token. Absent means `token`: the block is there to switch it on."""
    secret_name: str | None = None
    """A Secret of the user with the token under `auth_token`; absent: the operator makes one named like the cluster."""
    enable_k8s_token_auth: bool | None = msgspec.field(default=None, name="enableK8sTokenAuth")
    """Let Kubernetes decide: clients show a service account token. Needs Ray 2.55.0."""

    @property
    def is_token(self) -> bool:
        """Whether clients need a token."""
        return self.mode in (None, "", "token")


class AutoscalerOptions(Model, frozen=True, kw_only=True):
    """The autoscaler's sidecar in the head Pod."""

    version: Annotated[str | None, Facts(enum=("v1", "v2"))] = None
    """Absent: Ray decides (v2 from Ray 2.47.0)."""
    upscaling_mode: Annotated[str | None, Facts(enum=("Default", "Aggressive", "Conservative"))] = None
    """How eagerly workers are added; read by Ray."""
    idle_timeout_seconds: Int32 = None
    """How long a worker may be idle before it is removed; read by Ray, which takes 60 when absent."""
    image: str | None = None
    """Absent: the image of the head."""
    image_pull_policy: str | None = None
    """Absent: `IfNotPresent`."""
    command: list[str] = []
    """Replaces the sidecar's command."""
    args: list[str] = []
    """Replaces the sidecar's arguments."""
    env: Annotated[list[Json], Facts(embeds="EnvVar")] = []
    env_from: Annotated[list[Json], Facts(embeds="EnvFromSource")] = []
    volume_mounts: Annotated[list[Json], Facts(embeds="VolumeMount")] = []
    resources: Annotated[Json | None, Facts(embeds="ResourceRequirements")] = None
    """Absent: 500m CPU and 512Mi, requested and limited."""
    security_context: Annotated[Json | None, Facts(embeds="SecurityContext")] = None


class RedisCredential(Model, frozen=True, kw_only=True):
    """A user name or password: written out, or taken from a Secret."""

    value: str | None = None
    value_from: Annotated[Json | None, Facts(embeds="EnvVarSource")] = None


class GcsStorage(Model, frozen=True, kw_only=True):
    """The volume of the embedded store."""

    claim_name: str | None = None
    """A claim of the user; excludes `size`, `storage_class_name` and `access_modes`."""
    size: Quantity = None
    """Size of the claim the operator makes; absent: `1Gi`."""
    storage_class_name: str | None = None
    access_modes: list[str] = []
    """Absent: `ReadWriteOnce`."""
    sub_path: str | None = None
    deletion_policy: Annotated[str | None, Facts(enum=("DeleteWithCluster", "Retain"))] = None
    """`Retain` leaves the claim when the cluster goes; absent: `DeleteWithCluster`."""


class GcsFaultToleranceOptions(Model, frozen=True, kw_only=True):
    """Where Ray keeps its cluster state so that a new head can take over. Being there switches it on."""

    backend: Annotated[str | None, Facts(enum=("redis", "rocksdb"), rules=cel.GCS_BACKEND)] = None
    """`redis` (also when absent) or `rocksdb`, a store on a volume of the head."""
    redis_address: str | None = None
    redis_username: RedisCredential | None = None
    redis_password: RedisCredential | None = None
    external_storage_namespace: str | None = None
    """The prefix of the cluster's keys in Redis; absent: the cluster's UID."""
    storage: GcsStorage | None = None
    """Only for `rocksdb`."""

    @property
    def is_embedded(self) -> bool:
        """Whether the state lives on a volume and not in Redis."""
        return self.backend == "rocksdb"


class CollectorOptions(Model, frozen=True, kw_only=True):
    """The sidecar that copies Ray's logs and events to the history server's storage."""

    image: str | None = None
    image_pull_policy: str | None = None
    env: Annotated[list[Json], Facts(embeds="EnvVar")] = []
    """Must hold a literal `STORAGE_BACKEND`, and what that backend needs."""
    resources: Annotated[Json | None, Facts(embeds="ResourceRequirements")] = None
    """Absent: requests 50m CPU and 64Mi, limits 200m CPU and 256Mi."""


class HistoryServerOptions(Model, frozen=True, kw_only=True):
    """Keep what a cluster leaves behind readable after it is gone."""

    collector_options: CollectorOptions | None = None


class NetworkRules(Model, frozen=True, kw_only=True):
    """Traffic allowed beyond what Ray itself needs."""

    ingress_rules: Annotated[list[Json], Facts(embeds="NetworkPolicyIngressRule")] = []
    egress_rules: Annotated[list[Json], Facts(embeds="NetworkPolicyEgressRule")] = []


class GroupNetworkRules(Model, frozen=True, kw_only=True):
    """The rules of one worker group; they replace those for all workers."""

    group_name: Annotated[str, Facts(required=True)]
    ingress_rules: Annotated[list[Json], Facts(embeds="NetworkPolicyIngressRule")] = []
    egress_rules: Annotated[list[Json], Facts(embeds="NetworkPolicyEgressRule")] = []


class NetworkPolicyOptions(Model, frozen=True, kw_only=True):
    """Close the cluster's network but for Ray's own traffic and the rules given here."""

    mode: Annotated[str | None, Facts(enum=("DenyAll", "DenyAllIngress", "DenyAllEgress"), default="DenyAll")] = None
    head: NetworkRules | None = None
    worker: NetworkRules | None = None
    worker_groups: Annotated[list[GroupNetworkRules], Facts(list_type="map", list_keys=("groupName",))] = []


class TlsOptions(Model, frozen=True, kw_only=True):
    """Mutual TLS between Ray's processes, with certificates from cert-manager."""

    enabled: bool | None = None
