"""The command line of the operator, in KubeRay's words and in the syntax of Go's `flag` package.

Manifests and charts that start KubeRay start this operator with the same arguments: one or two dashes, `--flag=value`
or `--flag value`, and switches that take a value only behind an equals sign. What Go would overlook is refused here: a
word that belongs to no flag, such as the `false` of `--enable-leader-election false`, and all that stands behind it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

_TRUE = frozenset({"1", "t", "T", "true", "TRUE", "True"})
_FALSE = frozenset({"0", "f", "F", "false", "FALSE", "False"})


class FlagError(ValueError):
    """The command line cannot be understood; the message names the flag and what is wanted."""


class HelpWanted(Exception):
    """Somebody asked for the list of flags."""


def _flag(default: Any, text: str, *, value: str = "", shown: str = "") -> Any:
    """A flag with its default; `value` names what it takes, `shown` tells the default where it depends."""
    return field(default=default, metadata={"text": text, "value": value, "shown": shown})


@dataclass(frozen=True, slots=True, kw_only=True)
class Flags:
    """What the command line said, and the defaults of what it did not say. A field's name is its flag's."""

    batch_scheduler: str = _flag("", "Gang scheduler of Ray's Pods. None is supported yet.", value="NAME")
    burst: int = _flag(200, "Requests that may be sent at once when --qps limits them.", value="N")
    config: str = _flag("", "Configuration file; most other flags are then ignored.", value="FILE")
    context: str = _flag("", "Context of the kubeconfig to use instead of its current one.", value="NAME")
    enable_batch_scheduler: bool = _flag(False, "Deprecated: stands for --batch-scheduler=volcano.")
    enable_leader_election: bool = _flag(True, "Work only while holding the lease that one of several operators has.")
    enable_metrics: bool = _flag(False, "Serve metrics of Ray clusters beside those of the process.")
    feature_gates: str = _flag(
        "", "Switch features on or off; AllAlpha and AllBeta stand for many.", value="A=true,B=false"
    )
    forced_cluster_upgrade: bool = _flag(False, "Deprecated: has no effect.")
    health_probe_bind_address: str | None = _flag(
        None,
        "Where /healthz and /readyz are served; `0` for nowhere.",
        value="ADDRESS",
        shown=":8082 in a Pod, else 127.0.0.1:8082",
    )
    kubeconfig: str = _flag(
        "", "Cluster to work on. Default: $KUBECONFIG, the Pod's own account, ~/.kube/config.", value="FILE"
    )
    leader_election_namespace: str = _flag(
        "", "Namespace of the lease. Default: that of the Pod's account.", value="NAMESPACE"
    )
    log_file_encoder: str | None = _flag(None, "json or console, for --log-file-path.", value="ENCODER", shown="json")
    log_file_path: str = _flag("", "Log into this file too; it is rotated at 500 MB.", value="FILE")
    log_stdout_encoder: str | None = _flag(
        None, "json for machines, console for people.", value="ENCODER", shown="json"
    )
    metrics_addr: str | None = _flag(
        None,
        "Where /metrics is served; `0` for nowhere.",
        value="ADDRESS",
        shown=":8080 in a Pod, else 127.0.0.1:8080",
    )
    qps: float = _flag(0.0, "Requests a second that the operator may send; 0 leaves that to the API server.", value="N")
    reconcile_concurrency: int = _flag(0, "Ray objects of a kind worked on at a time.", value="N", shown="8")
    use_kubernetes_proxy: bool = _flag(False, "Has no effect yet: nothing asks Ray for anything.")
    watch_namespace: str = _flag("", "Work only in these namespaces. Default: all.", value="A,B")
    writes_in_flight: int = _flag(
        0, "Writes to the API server under way at a time. More help only where each takes long.", value="N", shown="8"
    )
    zap_devel: bool = _flag(False, "Log details too; the same as --zap-log-level=debug.")
    zap_encoder: str = _flag("", "Has no effect: --log-stdout-encoder decides.", value="ENCODER")
    zap_log_level: str = _flag(
        "", "debug, info, error, panic, or a number above 0 for details.", value="LEVEL", shown="info"
    )
    zap_stacktrace_level: str = _flag(
        "", "Has no effect: mistakes of the program are logged with their trace.", value="LEVEL"
    )
    zap_time_encoding: str = _flag("", "Has no effect: times are ISO 8601.", value="ENCODING")
    given: frozenset[str] = frozenset()
    """The flags that the command line named."""


def parse(arguments: Sequence[str]) -> Flags:
    """Read a command line.

    :raises FlagError: a flag that there is not, a value that does not fit, or a word that belongs to no flag.
    :raises HelpWanted: it holds `-h` or `--help`.
    """
    values: dict[str, Any] = {}
    words = iter(arguments)
    for word in words:
        if not word.startswith("-") or word in ("-", "--"):
            raise FlagError(f"{word!r} belongs to no flag; switches take a value as in --enable-metrics=false")
        name, equals, value = word.removeprefix("-").removeprefix("-").partition("=")
        if name in ("h", "help"):
            raise HelpWanted
        kind = _KINDS.get(name)
        if kind is None:
            raise FlagError(f"flag --{name} is unknown; known are {', '.join('--' + known for known in _KINDS)}")
        if not equals:
            value = "true" if kind is bool else _next(words, name)
        values[name.replace("-", "_")] = _read(name, kind, value)
    return Flags(**values, given=frozenset(name.replace("_", "-") for name in values))


def usage() -> str:
    """One paragraph for each flag."""
    return "\n".join(_paragraphs())


def _paragraphs() -> Iterator[str]:
    for each in fields(Flags):
        if not each.metadata:
            continue
        value = each.metadata["value"]
        shown = each.metadata["shown"] or (str(each.default).lower() if each.default not in ("", False) else "")
        default = f" (default {shown})" if shown and not each.metadata["text"].startswith("Deprecated") else ""
        yield f"  --{each.name.replace('_', '-')}{' ' + value if value else ''}\n      {each.metadata['text']}{default}"


def _next(words: Iterable[str], name: str) -> str:
    for word in words:
        return word
    raise FlagError(f"flag --{name} needs a value")


def _read(name: str, kind: type, text: str) -> bool | int | float | str:
    try:
        if kind is bool:
            if text not in _TRUE | _FALSE:
                raise FlagError(f"--{name}={text}: true or false is wanted")
            return text in _TRUE
        return kind(text)  # type: ignore[no-any-return]
    except FlagError:
        raise
    except ValueError:
        wanted = "a whole number" if kind is int else "a number"
        raise FlagError(f"--{name}={text}: {wanted} is wanted") from None


_TYPES: dict[str, type] = {"bool": bool, "int": int, "float": float, "str": str, "str | None": str}
_KINDS: dict[str, type] = {
    each.name.replace("_", "-"): _TYPES[str(each.type)] for each in fields(Flags) if each.metadata
}
