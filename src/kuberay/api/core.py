"""Pods and Services as the operator's caches hold them: the fields that decisions read, and no others.

Ten thousand Pods are cached, so these are slim, frozen, invisible to the garbage collector, and decoded straight from
the API server's bytes; environment, volumes, probes and managed fields are skipped without becoming objects. They are
for reading only: a projection is never written back (writes are patches). What a user wrote stays a dict elsewhere.
"""

from __future__ import annotations

import msgspec


class Slim(msgspec.Struct, frozen=True, kw_only=True, gc=False, rename="camel", omit_defaults=True):
    """What is read of an object, and nothing else."""


class Owner(Slim, frozen=True, kw_only=True):
    """A reference to an owner."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None
    block_owner_deletion: bool | None = None


class Metadata(Slim, frozen=True, kw_only=True):
    """What identifies an object and tells whom it belongs to."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int | None = None
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    owner_references: list[Owner] = []
    finalizers: list[str] = []

    @property
    def controller(self) -> Owner | None:
        """The owner that manages the object, if it has one."""
        for owner in self.owner_references:
            if owner.controller:
                return owner
        return None


class Container(Slim, frozen=True, kw_only=True):
    """A container of a Pod's spec."""

    name: str = ""


class PodSpec(Slim, frozen=True, kw_only=True):
    """The part of a Pod's spec that decisions read."""

    containers: list[Container] = []
    init_containers: list[Container] = []
    restart_policy: str = ""
    node_name: str = ""


class PodCondition(Slim, frozen=True, kw_only=True):
    """One observation of the kubelet or the scheduler about a Pod."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None


class Waiting(Slim, frozen=True, kw_only=True):
    """A container that has not started, and why."""

    reason: str = ""
    message: str = ""


class Running(Slim, frozen=True, kw_only=True):
    """A container that runs."""

    started_at: str | None = None


class Terminated(Slim, frozen=True, kw_only=True):
    """A container that has ended, and how."""

    exit_code: int = 0
    signal: int | None = None
    reason: str = ""
    message: str = ""
    finished_at: str | None = None


class ContainerState(Slim, frozen=True, kw_only=True):
    """Exactly one member is set; none means waiting without a reason."""

    waiting: Waiting | None = None
    running: Running | None = None
    terminated: Terminated | None = None


class ContainerStatus(Slim, frozen=True, kw_only=True):
    """How a container fares."""

    name: str = ""
    ready: bool = False
    restart_count: int = 0
    state: ContainerState = ContainerState()
    last_state: ContainerState = ContainerState()


class PodStatus(Slim, frozen=True, kw_only=True):
    """How a Pod fares."""

    phase: str = ""
    reason: str = ""
    message: str = ""
    pod_ip: str = msgspec.field(default="", name="podIP")
    start_time: str | None = None
    conditions: list[PodCondition] = []
    container_statuses: list[ContainerStatus] = []
    init_container_statuses: list[ContainerStatus] = []


class Pod(Slim, frozen=True, kw_only=True):
    """A Pod as it is cached."""

    metadata: Metadata = Metadata()
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def name(self) -> str:
        """`metadata.name`."""
        return self.metadata.name

    @property
    def is_leaving(self) -> bool:
        """Whether its deletion was asked for."""
        return self.metadata.deletion_timestamp is not None

    @property
    def is_ready(self) -> bool:
        """Whether the kubelet says that it serves."""
        return any(each.type == "Ready" and each.status == "True" for each in self.status.conditions)


class ServicePort(Slim, frozen=True, kw_only=True):
    """A port of a Service."""

    name: str = ""
    port: int = 0
    protocol: str = "TCP"
    node_port: int | None = None
    target_port: int | str | None = None
    app_protocol: str | None = None


class ServiceSpec(Slim, frozen=True, kw_only=True):
    """The part of a Service's spec that decisions read."""

    type: str = ""
    cluster_ip: str = msgspec.field(default="", name="clusterIP")
    ports: list[ServicePort] = []
    selector: dict[str, str] = {}


class Service(Slim, frozen=True, kw_only=True):
    """A Service as it is cached."""

    metadata: Metadata = Metadata()
    spec: ServiceSpec = ServiceSpec()

    @property
    def name(self) -> str:
        """`metadata.name`."""
        return self.metadata.name


class JobCondition(Slim, frozen=True, kw_only=True):
    """One observation of the Job controller."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""


class JobStatus(Slim, frozen=True, kw_only=True):
    """How a Job fares."""

    conditions: list[JobCondition] = []


class Job(Slim, frozen=True, kw_only=True):
    """A Job as it is cached."""

    metadata: Metadata = Metadata()
    status: JobStatus = JobStatus()

    @property
    def name(self) -> str:
        """`metadata.name`."""
        return self.metadata.name

    @property
    def end(self) -> JobCondition | None:
        """How the Job ended, if it has. One that is about to fail counts: its Pods only have to be taken down."""
        return next(
            (
                each
                for each in self.status.conditions
                if each.status == "True" and each.type in ("Complete", "Failed", "FailureTarget")
            ),
            None,
        )


class VolumeResources(Slim, frozen=True, kw_only=True):
    """How much a claim asks for."""

    requests: dict[str, str | int] = {}


class PersistentVolumeClaimSpec(Slim, frozen=True, kw_only=True):
    """The part of a claim's spec that decisions read."""

    access_modes: list[str] = []
    storage_class_name: str | None = None
    resources: VolumeResources = VolumeResources()


class PersistentVolumeClaim(Slim, frozen=True, kw_only=True):
    """A volume claim as it is cached."""

    metadata: Metadata = Metadata()
    spec: PersistentVolumeClaimSpec = PersistentVolumeClaimSpec()

    @property
    def name(self) -> str:
        """`metadata.name`."""
        return self.metadata.name
