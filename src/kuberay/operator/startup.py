"""How an operator process is run: what command line, Configuration file and environment make together.

KubeRay's rules, with its accidents mended: a Configuration file's encoders count (flags that name others win), and
flags that the file puts out of force are told of. Three defaults are our own: eight objects at a time instead of one,
no limit on requests unless one is asked for, and outside a Pod nothing listens beyond loopback.
"""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from kuberay.api import names
from kuberay.api.gates import FeatureGates, Gate
from kuberay.operator import configuration, settings
from kuberay.operator.logs import LogFormat

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kuberay.operator.configuration import Configuration
    from kuberay.operator.flags import Flags
    from kuberay.operator.settings import Settings

CONCURRENCY = 8
MOST_CONCURRENCY = 10_000
"""Each is a task that is made at start. Nobody works on so many Ray clusters at once: more is a slip of the finger."""
BURST = 200
_BATCH_OF_ONE_WORKER = 250
_SMALLEST_BATCH = 10
SCHEDULERS = ("volcano", "yunikorn", "kai-scheduler", "scheduler-plugins")

_BESIDE_A_FILE = frozenset(
    {"config", "feature-gates", "kubeconfig", "context", "log-stdout-encoder", "log-file-encoder"}
) | frozenset({"zap-devel", "zap-encoder", "zap-log-level", "zap-stacktrace-level", "zap-time-encoding"})
"""Flags that count although there is a Configuration file."""
_WITHOUT_EFFECT = {
    "forced-cluster-upgrade": "--forced-cluster-upgrade is deprecated and has no effect",
    "zap-encoder": "--zap-encoder has no effect: --log-stdout-encoder decides",
    "zap-stacktrace-level": "--zap-stacktrace-level has no effect: only mistakes of the program have a trace",
    "zap-time-encoding": "--zap-time-encoding has no effect: times are ISO 8601",
}
_NOT_YET = {
    "use_kubernetes_proxy": "--use-kubernetes-proxy (useKubernetesProxy) has no effect yet: nobody asks Ray",
    "delete_ray_job_after_job_finishes": "deleteRayJobAfterJobFinishes has no effect yet: RayJobs are not looked at",
}
"""Fields of a Configuration that ask for what this version does not do, and what to say of them."""
_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "error": logging.ERROR, "panic": logging.CRITICAL}


class StartupError(ValueError):
    """The operator cannot be run as it is told to; the message names the flag, field or variable."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSettings:
    """What is logged, where, and for whom."""

    format: LogFormat = LogFormat.JSON
    level: int = logging.INFO
    file: str = ""
    file_format: LogFormat = LogFormat.JSON


@dataclass(frozen=True, slots=True, kw_only=True)
class Startup:
    """Everything that is decided before the operator begins."""

    settings: Settings
    log: LogSettings = field(default_factory=LogSettings)
    kubeconfig: str | None = None
    context: str | None = None
    qps: float = 0.0
    """Requests a second; 0 for no limit."""
    burst: int = BURST
    leader_election: bool = True
    leader_election_namespace: str = ""
    """Empty for the namespace that the process belongs to."""
    notices: tuple[str, ...] = ()
    """What whoever started it should know: what is deprecated, or was ignored."""


def prepare(flags: Flags, environment: Mapping[str, str], read_file: Callable[[str], str]) -> Startup:
    """Decide how to run.

    :param read_file: the content of the Configuration file.
    :raises StartupError: something contradicts itself, cannot be understood, or is not there yet.
    :raises OSError: the Configuration file cannot be read.
    """
    gates, notices = _gates(flags.feature_gates)
    told, more = _told(flags, read_file)
    more += [text for name, text in _NOT_YET.items() if getattr(told, name)]
    _refuse_schedulers(told)
    _refuse_numbers(told)
    _refuse_namespaces(told)
    everywhere = "" if environment.get("KUBERNETES_SERVICE_HOST") else "127.0.0.1"
    made = settings.from_environment(
        environment,
        watch_namespaces=namespaces(told.watch_namespace),
        reconcile_concurrency=told.reconcile_concurrency or CONCURRENCY,
        health_address=_address("--health-probe-bind-address (probeAddr)", told.probe_addr or f"{everywhere}:8082"),
        gates=gates,
    )
    build = replace(
        made.controllers.build,
        head_sidecars=tuple(told.head_sidecar_containers),
        worker_sidecars=tuple(told.worker_sidecar_containers),
        default_environment=tuple(told.default_container_envs),
        default_annotations=told.default_pod_annotations,
        default_labels=told.default_pod_labels,
    )
    made = replace(
        made,
        metrics_address=_address("--metrics-addr (metricsAddr)", told.metrics_addr or f"{everywhere}:8080"),
        webhook_address=f"{everywhere}:9443" if environment.get("ENABLE_WEBHOOKS") == "true" else None,
        cluster_metrics=told.enable_metrics,
        controllers=replace(
            made.controllers,
            build=build,
            batch=_batch(made, told.qps),
            writes_in_flight=told.writes_in_flight or made.controllers.writes_in_flight,
        ),
    )
    return Startup(
        settings=made,
        log=LogSettings(
            format=_format("stdout", flags.log_stdout_encoder, told.log_stdout_encoder),
            level=_level(flags),
            file=told.log_file,
            file_format=_format("file", flags.log_file_encoder, told.log_file_encoder)
            if told.log_file
            else LogFormat.JSON,
        ),
        kubeconfig=flags.kubeconfig or None,
        context=flags.context or None,
        qps=max(told.qps, 0.0),
        burst=told.burst or BURST,
        leader_election=told.enable_leader_election,
        leader_election_namespace=told.leader_election_namespace,
        notices=(*notices, *more),
    )


def _batch(made: Settings, qps: float) -> int:
    """How many Pods of a group one pass may make or remove: about as many as a second allows where others have to wait
    for its end, because there is but one worker or few requests may be sent."""
    limits = [made.controllers.batch]
    if made.reconcile_concurrency == 1:
        limits.append(_BATCH_OF_ONE_WORKER)
    if qps > 0:
        limits.append(max(_SMALLEST_BATCH, int(qps)))
    return min(limits)


def _gates(text: str) -> tuple[FeatureGates, list[str]]:
    """The gates that are open, and what is to be said about them: nothing is opened that leads nowhere."""
    unsupported = Gate.KUBERNETES_WAS
    try:
        gates = FeatureGates.parse(text)
    except ValueError as error:
        raise StartupError(f"--feature-gates: {error}") from error
    if unsupported not in gates:
        return gates, []
    if unsupported in FeatureGates.parse(f"{text},AllAlpha=false"):
        raise StartupError(f"--feature-gates: {unsupported} is not supported yet: there is no gang scheduling")
    notice = f"--feature-gates: AllAlpha leaves out {unsupported}, which is not supported yet"
    return FeatureGates.parse(f"{text},{unsupported}=false"), [notice]


def _told(flags: Flags, read_file: Callable[[str], str]) -> tuple[Configuration, list[str]]:
    """What the file says, or else what the flags say, in the words of the file."""
    notices = [text for name, text in _WITHOUT_EFFECT.items() if name in flags.given]
    if not flags.config:
        if flags.enable_batch_scheduler:
            notices.append("--enable-batch-scheduler is deprecated; use --batch-scheduler=volcano")
        return _from_flags(flags), notices
    ignored = sorted(flags.given - _BESIDE_A_FILE)
    if ignored:
        listed = ", ".join(f"--{name}" for name in ignored)
        notices.append(f"ignored because of --config, where the same can be said: {listed}")
    try:
        told, unknown = configuration.read(read_file(flags.config))
    except (configuration.ConfigurationError, UnicodeDecodeError) as error:
        raise StartupError(f"{flags.config}: {error}") from error
    if unknown:
        notices.append(f"{flags.config} has fields that mean nothing here: {', '.join(unknown)}")
    return told, notices


def _from_flags(flags: Flags) -> Configuration:
    return configuration.Configuration(
        metrics_addr=flags.metrics_addr or "",
        probe_addr=flags.health_probe_bind_address or "",
        enable_leader_election=flags.enable_leader_election,
        leader_election_namespace=flags.leader_election_namespace,
        reconcile_concurrency=flags.reconcile_concurrency,
        watch_namespace=flags.watch_namespace,
        log_file=flags.log_file_path,
        batch_scheduler=flags.batch_scheduler,
        enable_batch_scheduler=flags.enable_batch_scheduler,
        use_kubernetes_proxy=flags.use_kubernetes_proxy,
        enable_metrics=flags.enable_metrics,
        qps=flags.qps,
        burst=flags.burst,
        writes_in_flight=flags.writes_in_flight,
    )


def _refuse_schedulers(told: Configuration) -> None:
    new, old = "--batch-scheduler (batchScheduler)", "--enable-batch-scheduler (enableBatchScheduler)"
    name = told.batch_scheduler
    if name and told.enable_batch_scheduler:
        raise StartupError(f"{new} and {old} choose a batch scheduler in a new and in an old way; keep the new one")
    if name and name not in SCHEDULERS:
        raise StartupError(f"{new}: {name!r} is unknown; known are {', '.join(SCHEDULERS)}")
    if name or told.enable_batch_scheduler:
        raise StartupError(f"{new if name else old}: {name or 'volcano'} is not supported yet")


def _refuse_numbers(told: Configuration) -> None:
    for name, count in (
        ("--reconcile-concurrency (reconcileConcurrency)", told.reconcile_concurrency),
        ("--writes-in-flight (writesInFlight)", told.writes_in_flight),
        ("--burst (burst)", told.burst if told.qps > 0 else 0),
    ):
        if count < 0:
            raise StartupError(f"{name} must be at least 1, not {count}")
    if told.reconcile_concurrency > MOST_CONCURRENCY:
        raise StartupError(
            f"--reconcile-concurrency (reconcileConcurrency) must be at most {MOST_CONCURRENCY}, "
            f"not {told.reconcile_concurrency}"
        )
    if not math.isfinite(told.qps):
        raise StartupError(f"--qps (qps) must be a number of requests per second, or 0 for no limit, not {told.qps}")


def _refuse_namespaces(told: Configuration) -> None:
    lease = told.leader_election_namespace
    for name, given in (
        ("--watch-namespace (watchNamespace)", namespaces(told.watch_namespace)),
        ("--leader-election-namespace (leaderElectionNamespace)", (lease,) if lease else ()),
    ):
        for each in given:
            if wrong := names.dns_1123_label(each):
                raise StartupError(f"{name}: {wrong}")


def namespaces(text: str) -> tuple[str, ...]:
    """Those of a list with commas, each once: two controllers of one namespace would do everything twice."""
    return tuple(dict.fromkeys(filter(None, (each.strip() for each in text.split(",")))))


def _address(name: str, text: str) -> str | None:
    if text == "0":
        return None
    try:
        settings.listening(text)
    except ValueError as error:
        raise StartupError(f"{name}: {error}, or 0 for nowhere") from error
    return text


def _format(where: str, flag: str | None, file: str) -> LogFormat:
    chosen = flag or file or "json"
    try:
        return LogFormat(chosen)
    except ValueError:
        raise StartupError(f"log {where} encoder {chosen!r} is unknown; known are json and console") from None


def _level(flags: Flags) -> int:
    text = flags.zap_log_level.lower() or ("debug" if flags.zap_devel else "info")
    if text.isdecimal() and int(text) > 0:
        return logging.DEBUG
    if text not in _LEVELS:
        raise StartupError(
            f"--zap-log-level={flags.zap_log_level}: debug, info, error, panic or a number above 0 is wanted"
        )
    return _LEVELS[text]
