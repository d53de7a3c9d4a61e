"""RayClusters that an API server takes and the operator must not: one for each rule, wrong in nothing else.

Rules are named as the spec of RayClusters names them; those that are only ours have none.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tests.build.clusters import group, template

Json = dict[str, Any]

SPEC, METADATA, STATUS = "InvalidRayClusterSpec", "InvalidRayClusterMetadata", "InvalidRayClusterStatus"
NOT_YET = "NotSupportedYet"


@dataclass(frozen=True)
class Invalid:
    """A cluster, and what is told of it."""

    rule: str
    id: str
    path: str
    """Of the field that is wrong."""
    spec: Json = field(default_factory=dict)
    """For `tests.build.clusters.cluster`."""
    reason: str = SPEC
    name: str = ""
    status: Json = field(default_factory=dict)
    gates_closed: bool = False
    """Whether it is wrong only for an operator whose feature gates are closed."""

    @property
    def label(self) -> str:
        """No other has it."""
        return f"{self.rule or 'ours'}: {self.id}"


def head(*, env: tuple[str, ...] = (), value: str = "x", mounts: Json | None = None, **fields: Any) -> Json:
    """A head group with these variables and fields; `pod` is for the Pod."""
    pod = fields.pop("pod", None)
    container: Json = {
        "env": [{"name": name, "value": value} for name in env],
        "volumeMounts": [mounts] if mounts else [],
    }
    return {"head": {"template": template("ray-head", pod=pod, **container), **fields}}


def worker(*, env: tuple[str, ...] = (), mounts: Json | None = None, pod: Json | None = None, **fields: Any) -> Json:
    """One worker group with these variables and fields."""
    container: Json = {
        "env": [{"name": name, "value": "x"} for name in env],
        "volumeMounts": [mounts] if mounts else [],
    }
    return {"groups": [group(template=template("ray-worker", pod=pod, **container), **fields)]}


def annotated(**annotations: str) -> Json:
    return {
        "metadata": {"annotations": {f"ray.io/{key.replace('_', '-')}": value for key, value in annotations.items()}}
    }


def redis(**options: Any) -> Json:
    return {"gcsFaultToleranceOptions": {"redisAddress": "redis:6379", **options}}


def rocksdb(**options: Any) -> Json:
    return {"gcsFaultToleranceOptions": {"backend": "rocksdb", **options}}


def collector(*variables: str, **fields: Any) -> Json:
    """The history server's collector with these variables, each with a value that matters to nobody."""
    env = [{"name": name, "value": value} for name, _, value in (each.partition("=") for each in variables)]
    return {"historyServerOptions": {"collectorOptions": {"image": "collector", "env": env, **fields}}}


HEAD, WORKER = "spec.headGroupSpec", "spec.workerGroupSpecs[0]"
HEAD_ENV, WORKER_ENV = (f"{group}.template.spec.containers[0].env[0]" for group in (HEAD, WORKER))
HEAD_MOUNT, WORKER_MOUNT = (f"{group}.template.spec.containers[0].volumeMounts[0]" for group in (HEAD, WORKER))
FT = "spec.gcsFaultToleranceOptions"
COLLECTOR = "spec.historyServerOptions.collectorOptions"
V2: Json = {"enableInTreeAutoscaling": True, "autoscalerOptions": {"version": "v2"}}
AUTOSCALING: Json = {"enableInTreeAutoscaling": True}
TLS: Json = {"tlsOptions": {"enabled": True}}
RESERVED = (
    "POD_IP", "FQ_RAY_IP", "RAY_CLUSTER_NAME", "RAY_CLUSTER_NAMESPACE",
    "RAY_ROLE", "OWNER_KIND", "OWNER_NAME", "EVENTS_PORT"
)  # fmt: skip
V2_VARIABLE = "RAY_enable_autoscaler_v2"


def _metadata() -> list[Invalid]:
    return [
        Invalid("M1", "name too long", "metadata.name", name="a" * 54, reason=METADATA),
        Invalid("M2", "name starts with a digit", "metadata.name", name="1" * 53, reason=METADATA),
    ]


def _groups() -> list[Invalid]:
    nothing: Json = {"template": {"spec": {"containers": []}}}
    both: Json = {"rayStartParams": {"num-gpus": "1"}, "resources": {"GPU": "1"}}
    counted: Json = {"rayStartParams": {"labels": ""}}
    odd: Json = {"labels": {"x.io/zone": "a b"}}
    return [
        Invalid("S1", "no container", f"{HEAD}.template.spec.containers", {"head": nothing}),
        Invalid("S2", "resources twice", f"{HEAD}.resources", head(**both)),
        Invalid("S3", "labels as parameter", f"{HEAD}.rayStartParams.labels", head(**counted)),
        Invalid("S3b", "no label", f"{HEAD}.labels[x.io/zone]", head(**odd)),
        Invalid("S3b", "no label key", f"{HEAD}.labels[-]", head(labels={"-": "x"})),
        Invalid("S4", "no container", f"{WORKER}.template.spec.containers", {"groups": [group(**nothing)]}),
        Invalid("S6", "negative minimum", f"{WORKER}.minReplicas", worker(minReplicas=-1)),
        Invalid("S7", "negative maximum", f"{WORKER}.maxReplicas", worker(maxReplicas=-1)),
        Invalid("S8", "bounds swapped", f"{WORKER}.minReplicas", worker(minReplicas=4, maxReplicas=3)),
        Invalid("S9", "resources twice", f"{WORKER}.resources", worker(**both)),
        Invalid("S10", "labels as parameter", f"{WORKER}.rayStartParams.labels", worker(**counted)),
        Invalid("S10", "no label", f"{WORKER}.labels[x.io/zone]", worker(**odd)),
        Invalid("S11", "negative idle timeout", f"{WORKER}.idleTimeoutSeconds", worker(idleTimeoutSeconds=-1) | V2),
        Invalid("S11", "idle timeout without v2", f"{WORKER}.idleTimeoutSeconds", worker(idleTimeoutSeconds=1)),
        Invalid("S12", "priority on an old Ray", f"{WORKER}.priority", worker(priority=1) | V2),
        Invalid("S12", "priority without v2", f"{WORKER}.priority", worker(priority=1) | {"rayVersion": "2.56.0"}),
        Invalid("", "two groups of one name", "spec.workerGroupSpecs[1].groupName", {"groups": [group(), group()]}),
        Invalid("", "the head's group name", f"{WORKER}.groupName", {"groups": [group("headgroup")]}),
        Invalid("", "no name for replicas", f"{WORKER}.groupName", {"groups": [group("", numOfHosts=2)]}),
        Invalid("", "two groups of no name", "spec.workerGroupSpecs[1].groupName", {"groups": [group(""), group("")]}),
        Invalid("", "no host", f"{WORKER}.numOfHosts", worker(numOfHosts=0)),
        Invalid("", "fewer hosts than none", f"{WORKER}.numOfHosts", worker(numOfHosts=-2)),
        Invalid("", "hosts without end", f"{WORKER}.numOfHosts", worker(numOfHosts=2**31 - 1)),
        Invalid(
            "",
            "more than can be counted",
            f"{WORKER}.rayStartParams.resources",
            worker(rayStartParams={"resources": f'{{"a": {"9" * 400}}}'}),
        ),
        Invalid(
            "",
            "serve service without a port",
            "metadata.annotations[ray.io/enable-serve-service]",
            annotated(enable_serve_service="true")
            | {"head": {"template": template("ray-head", ports=[{"name": "dashboard", "containerPort": 8265}])}},
        ),
    ]


def _fault_tolerance() -> list[Invalid]:
    password = {"redisPassword": {"value": "x"}}
    claim = {"claimName": "mine"}
    cases = [
        Invalid(
            "S13", "asked for twice", "metadata.annotations[ray.io/ft-enabled]", redis() | annotated(ft_enabled="false")
        ),
        Invalid("S14", "address without it", HEAD_ENV, head(env=("RAY_REDIS_ADDRESS",))),
        Invalid(
            "S15",
            "password as parameter",
            f"{HEAD}.rayStartParams.redis-password",
            redis() | head(rayStartParams={"redis-password": "x"}),
        ),
        Invalid("S16", "password as variable", HEAD_ENV, redis() | head(env=("REDIS_PASSWORD",))),
        Invalid("S17", "address as variable", HEAD_ENV, redis() | head(env=("RAY_REDIS_ADDRESS",))),
        Invalid(
            "S18",
            "namespace as annotation",
            "metadata.annotations[ray.io/external-storage-namespace]",
            redis() | annotated(external_storage_namespace="n"),
        ),
        Invalid("S19", "redis with a volume", f"{FT}.storage", redis(storage={})),
        Invalid("S19", "gate closed", f"{FT}.backend", rocksdb(), gates_closed=True),
        Invalid("S19", "rocksdb with an address", f"{FT}.redisAddress", rocksdb(redisAddress="x")),
        Invalid("S19", "rocksdb with a user", f"{FT}.redisUsername", rocksdb(redisUsername={"value": "x"})),
        Invalid("S19", "rocksdb with a password", f"{FT}.redisPassword", rocksdb(**password)),
        Invalid(
            "S19", "rocksdb with a namespace", f"{FT}.externalStorageNamespace", rocksdb(externalStorageNamespace="n")
        ),
        Invalid("S19", "mount of its path", HEAD_MOUNT, rocksdb() | head(mounts=_mount("x", "/data/gcs"))),
        Invalid("S19", "mount of its name", HEAD_MOUNT, rocksdb() | head(mounts=_mount("gcs-storage", "/x"))),
        Invalid(
            "S19",
            "volume of its name",
            f"{HEAD}.template.spec.volumes[0]",
            rocksdb() | head(pod={"volumes": [{"name": "gcs-storage", "emptyDir": {}}]}),
        ),
        Invalid(
            "S20",
            "user as parameter",
            f"{HEAD}.rayStartParams.redis-username",
            head(rayStartParams={"redis-username": "x"}),
        ),
        Invalid("S20", "user as variable", HEAD_ENV, head(env=("REDIS_USERNAME",))),
    ]
    for member, value in (("size", "1Gi"), ("storageClassName", "x"), ("accessModes", ["ReadWriteOnce"])):
        spec = rocksdb(storage={**claim, member: value})
        cases.append(Invalid("S19", f"claim with {member}", f"{FT}.storage.{member}", spec))
    names = ("RAY_gcs_storage", "RAY_gcs_storage_path")
    return cases + [Invalid("S19", name, HEAD_ENV, rocksdb() | head(env=(name,))) for name in names]


def _autoscaling() -> list[Invalid]:
    restarts: Json = {"pod": {"restartPolicy": "Always"}}
    command = {"env": [{"name": "KUBERAY_GEN_AUTOSCALER_START_CMD", "value": "x"}]}
    return [
        Invalid("S21", "gate closed", f"{WORKER}.suspend", worker(suspend=True), gates_closed=True),
        Invalid("S22", "variable alone", HEAD_ENV, head(env=(V2_VARIABLE,), value="1")),
        Invalid("S23", "suspended group", f"{WORKER}.suspend", worker(suspend=True) | AUTOSCALING),
        Invalid("S24", "version twice", HEAD_ENV, head(env=(V2_VARIABLE,), value="0") | V2),
        Invalid("S25", "head restarts", f"{HEAD}.template.spec.restartPolicy", head(**restarts) | V2),
        Invalid("S26", "worker restarts", f"{WORKER}.template.spec.restartPolicy", worker(**restarts) | V2),
        Invalid(
            "S27",
            "negative idle timeout",
            "spec.autoscalerOptions.idleTimeoutSeconds",
            {"autoscalerOptions": {"idleTimeoutSeconds": -1}},
        ),
        Invalid(
            "S28", "operator's variable", "spec.autoscalerOptions.env[0]", AUTOSCALING | {"autoscalerOptions": command}
        ),
    ]


def _history() -> list[Invalid]:
    written = collector("STORAGE_BACKEND=local")
    named = {"containers": [{"name": "ray", "image": "ray"}, {"name": "ray-history-collector", "image": "x"}]}
    cases = [
        Invalid("S29", "gate closed", "spec.historyServerOptions", written, gates_closed=True),
        Invalid("S29", "no collector", COLLECTOR, {"historyServerOptions": {}}),
        Invalid("S29", "no image", f"{COLLECTOR}.image", collector("STORAGE_BACKEND=local", image="")),
        Invalid("S29", "no backend", f"{COLLECTOR}.env", collector()),
        Invalid("S29", "its name on the head", f"{HEAD}.template.spec.containers[1].name", written | head(pod=named)),
        Invalid(
            "S29", "its name on a worker", f"{WORKER}.template.spec.containers[1].name", written | worker(pod=named)
        ),
        Invalid("", "history server", "spec.historyServerOptions", written, reason=NOT_YET),
    ]
    for name in RESERVED:
        spec = collector("STORAGE_BACKEND=local", f"{name}=x")
        cases.append(Invalid("S29", f"variable {name}", f"{COLLECTOR}.env[1]", spec))
    mode = "AZURE_STORAGE_AUTH_MODE"
    for needs in (
        ("GCS",),
        ("s3",),
        ("AliyunOSS", "OSS_BUCKET=x", "OSS_ENDPOINT=x"),
        ("AzureBlob",),
        ("AzureBlob", f"{mode}=connection_string", "AZURE_STORAGE_ACCOUNT_URL=x"),
        ("AzureBlob", f"{mode}=default", "AZURE_STORAGE_CONNECTION_STRING=x"),
    ):
        spec = collector(f"STORAGE_BACKEND={needs[0]}", *needs[1:])
        cases.append(Invalid("S29", f"needs of {' '.join(needs)}", f"{COLLECTOR}.env", spec))
    return cases


def _authentication() -> list[Invalid]:
    token: Json = {"authOptions": {"mode": "token"}}
    kubernetes: Json = {"authOptions": {"mode": "token", "enableK8sTokenAuth": True}}
    version = "spec.rayVersion"
    cases = [
        Invalid("S30", f"Ray {old or 'unknown'}", version, token | {"rayVersion": old})
        for old in ("2.51.9", "nightly", "")
    ]
    secret = {"authOptions": {**kubernetes["authOptions"], "secretName": "s"}, "rayVersion": "2.55.0"}
    alone = {"authOptions": {"mode": "disabled", "enableK8sTokenAuth": True}}
    return [
        *cases,
        Invalid("S30", "Kubernetes tokens on an old Ray", version, kubernetes | {"rayVersion": "2.54.0"}),
        Invalid("S30", "Kubernetes tokens and a Secret", "spec.authOptions.secretName", secret),
        Invalid("S30", "Kubernetes tokens alone", "spec.authOptions.enableK8sTokenAuth", alone),
    ]


def _network() -> list[Invalid]:
    policy = "spec.networkPolicy"
    cases = [
        Invalid("S31", "gate closed", policy, {"networkPolicy": {}}, gates_closed=True),
        Invalid(
            "S31", "name of no object", f"{WORKER}.groupName", {"networkPolicy": {}, "groups": [group("GPU-Group")]}
        ),
        Invalid(
            "S31",
            "rules for nobody",
            f"{policy}.workerGroups[0].groupName",
            {"networkPolicy": {"workerGroups": [{"groupName": "other"}]}},
        ),
    ]
    for mode, rules in (("DenyAllEgress", "ingressRules"), ("DenyAllIngress", "egressRules")):
        for part in ("head", "worker"):
            spec: Json = {"networkPolicy": {"mode": mode, part: {rules: [{}]}}}
            cases.append(Invalid("S31", f"{mode} for {part}", f"{policy}.{part}.{rules}", spec))
        spec = {"networkPolicy": {"mode": mode, "workerGroups": [{"groupName": "wg", rules: [{}]}]}}
        cases.append(Invalid("S31", f"{mode} for a group", f"{policy}.workerGroups[0].{rules}", spec))
    return cases


def _tls() -> list[Invalid]:
    cases = [
        Invalid("S32", "gate closed", "spec.tlsOptions", {"tlsOptions": {"enabled": False}}, gates_closed=True),
        Invalid("2b", "mutual TLS", "spec.tlsOptions", TLS, reason=NOT_YET),
    ]
    for name in ("RAY_USE_TLS", "RAY_TLS_SERVER_CERT", "RAY_TLS_SERVER_KEY", "RAY_TLS_CA_CERT"):
        options = AUTOSCALING | {"autoscalerOptions": {"env": [{"name": name, "value": "x"}]}}
        cases += [
            Invalid("S32", f"{name} on the head", HEAD_ENV, TLS | head(env=(name,))),
            Invalid("S32", f"{name} on a worker", WORKER_ENV, TLS | worker(env=(name,))),
            Invalid("S32", f"{name} on the autoscaler", "spec.autoscalerOptions.env[0]", TLS | options),
        ]
    for mount in (_mount("ray-tls", "/x"), _mount("x", "/etc/ray/tls")):
        options = AUTOSCALING | {"autoscalerOptions": {"volumeMounts": [mount]}}
        where = "spec.autoscalerOptions.volumeMounts[0]"
        cases += [
            Invalid("S32", f"{mount['mountPath']} on the head", HEAD_MOUNT, TLS | head(mounts=mount)),
            Invalid("S32", f"{mount['mountPath']} on a worker", WORKER_MOUNT, TLS | worker(mounts=mount)),
            Invalid("S32", f"{mount['mountPath']} on the autoscaler", where, TLS | options),
        ]
    return cases


def _upgrade_and_status() -> list[Invalid]:
    suspended = [
        {"type": kind, "status": "True", "reason": kind, "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}
        for kind in ("RayClusterSuspending", "RayClusterSuspended")
    ]
    cases = [
        Invalid(
            "U2",
            f"strategy of a {origin}",
            "spec.upgradeStrategy.type",
            {"upgradeStrategy": {"type": "None"}, "metadata": {"labels": {"ray.io/originated-from-crd": origin}}},
        )
        for origin in ("RayJob", "RayService")
    ]
    contradiction = {"conditions": suspended}
    return [
        *cases,
        Invalid("4", "suspending and suspended", "status.conditions", status=contradiction, reason=STATUS),
    ]


def _mount(name: str, path: str) -> Json:
    return {"name": name, "mountPath": path}


INVALID: tuple[Invalid, ...] = (
    *_metadata(),
    *_groups(),
    *_fault_tolerance(),
    *_autoscaling(),
    *_history(),
    *_authentication(),
    *_network(),
    *_tls(),
    *_upgrade_and_status(),
)
