"""Changes to one container: environment, command, mounts. Each says who wins when the user set the same thing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kuberay.build import labels

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kuberay.build.options import BuildOptions

Json = dict[str, Any]

# The shell expands it, so a user can raise the limit by an environment variable.
_ULIMIT = "ulimit -n ${RAY_START_ULIMIT_OPEN_FILES:-65536}"


def bash(options: BuildOptions) -> list[str]:
    """The command under which every script of ours runs."""
    return ["/bin/bash", "-cl" if options.login_shell else "-c", "--"]


def append_env(container: Json, name: str, value: str) -> None:
    """Set a variable for good: of two with one name the last counts, so this wins over the user's."""
    container.setdefault("env", []).append({"name": name, "value": value})


def append_field_env(container: Json, name: str, field_path: str) -> None:
    """Like `append_env`, with a value that Kubernetes takes from the Pod itself."""
    value_from = {"fieldRef": {"fieldPath": field_path}}
    container.setdefault("env", []).append({"name": name, "valueFrom": value_from})


def default_env(container: Json, name: str, value: str) -> None:
    """Set a variable unless the user has."""
    if name not in [variable.get("name") for variable in container.get("env", ())]:
        append_env(container, name, value)


def add_empty_dir(pod_spec: Json, container: Json, name: str, path: str, source: Json) -> None:
    """Give a container an emptyDir at `path`, unless something is mounted there; a volume of that name is reused."""
    mounts = container.get("volumeMounts", [])
    if any(mount.get("mountPath") == path for mount in mounts):
        return
    volumes = pod_spec.setdefault("volumes", [])
    if not any(volume.get("name") == name for volume in volumes):
        volumes.append({"name": name, "emptyDir": source})
    container["volumeMounts"] = [*mounts, {"name": name, "mountPath": path}]


def add_metrics_port(container: Json, port: int) -> None:
    """Declare where Ray serves metrics, so that Prometheus finds every node; a port of that name is kept."""
    ports = container.setdefault("ports", [])
    if not any(each.get("name") == "metrics" for each in ports):
        ports.append({"name": "metrics", "containerPort": port})


def compose_command(container: Json, ray_start: str, annotations: Mapping[str, str], options: BuildOptions) -> None:
    """Run `ray_start` after the user's own command, unless the user starts Ray without us.

    That is so when the Pod's annotation says it, or when the text `ray start` stands in the command. Items are joined
    with two blanks between them (KubeRay's way), so `["ray", "start"]` as two items is not recognised.
    """
    items = [*(container.get("command") or ()), *(container.get("args") or ())]
    own = "".join(f" {item} " for item in items)
    if annotations.get(labels.OVERWRITE_CONTAINER_CMD, "").lower() == "true" or "ray start" in own:
        return
    generated = f"{_ULIMIT}; {ray_start}"
    container["command"] = bash(options)
    container["args"] = [f"{own} && {generated}" if own else generated]
