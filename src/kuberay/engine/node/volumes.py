"""A Pod's volumes as folders of this machine, and a container's mounts of them.

Disk volumes are folders below the Pod's own; memory volumes are folders too, on which the sandbox mounts a tmpfs
that only the Pod sees. What this node does not have is said with the volume's name, never left out in silence.
"""

from __future__ import annotations

import base64
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kuberay.engine.node import environment
from kuberay.engine.node.environment import ConfigError
from kuberay.engine.node.helper.mounts import Mount
from kuberay.engine.node.remote import MemoryVolume
from kuberay.kube import quantity

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kuberay.engine.node.environment import Facts, Object, References

_DEFAULT_MODE = 0o644
_HOST_PATHS = {
    "Directory": Path.is_dir,
    "File": Path.is_file,
    "Socket": Path.is_socket,
    "CharDevice": Path.is_char_device,
    "BlockDevice": Path.is_block_device,
}


class VolumeError(Exception):
    """A volume that this node cannot give; the message names it."""


@dataclass(frozen=True, slots=True)
class Volume:
    """A volume in place: where it is, and whether it is the Pod's own to make folders in."""

    path: Path
    own: bool = False
    readonly: bool = False


@dataclass(frozen=True, slots=True)
class PodFolder:
    """Where one Pod keeps its volumes, logs and scratch files."""

    path: Path

    def volume(self, name: str) -> Path:
        return self.path / "volumes" / name

    @property
    def shared_memory(self) -> Path:
        return self.path / "shm"

    def container(self, name: str, attempt: int) -> Path:
        """A container that is started again starts with a clean `/tmp`."""
        return self.path / "containers" / name / str(attempt)

    @property
    def logs(self) -> Path:
        return self.path / "logs"


def prepare(pod: Object, folder: PodFolder, facts: Facts, references: References) -> dict[str, Volume]:
    """Make every volume of the Pod; safe to repeat, an emptyDir keeps what is in it.

    :raises VolumeError: one of them is not to be had.
    """
    found = {}
    for volume in pod["spec"].get("volumes") or ():
        name = volume["name"]
        try:
            found[name] = _prepare(pod, volume, folder.volume(name), facts, references)
        except (ConfigError, OSError, ValueError) as problem:
            raise VolumeError(f'volume "{name}": {problem}') from problem
    return found


def memory_volumes(pod: Object, folder: PodFolder) -> list[MemoryVolume]:
    """The tmpfs mounts of a Pod: its shared memory and its emptyDirs of medium Memory."""
    mounts = [MemoryVolume(str(folder.shared_memory))]
    for volume in pod["spec"].get("volumes") or ():
        empty = volume.get("emptyDir")
        if empty and empty.get("medium") == "Memory":
            limit = empty.get("sizeLimit")
            mounts.append(
                MemoryVolume(str(folder.volume(volume["name"])), int(quantity.parse(limit)) if limit else None)
            )
    return mounts


def mounts(container: Object, volumes: dict[str, Volume], own: dict[str, Path], env: Mapping[str, str]) -> list[Mount]:
    """Everything that is laid over the host's file system for one container.

    :param own: files and folders every container gets, such as `/etc/hosts` and `/tmp`, by the path they appear at.
    :raises VolumeError: a mount names no volume, or a part of one that would lead out of it.
    """
    asked = {mount["mountPath"].rstrip("/") or "/": mount for mount in container.get("volumeMounts") or ()}
    found = [Mount(str(source), path, own=True) for path, source in own.items() if path not in asked]
    for path, mount in asked.items():
        volume = volumes.get(mount["name"])
        if volume is None:
            raise VolumeError(f'container "{container["name"]}" mounts volume "{mount["name"]}", which the Pod lacks')
        readonly = volume.readonly or bool(mount.get("readOnly"))
        found.append(Mount(str(_part(volume, mount, env)), path, readonly=readonly, own=volume.own))
    return found


def _part(volume: Volume, mount: Object, env: Mapping[str, str]) -> Path:
    below = mount.get("subPath") or environment.expand(mount.get("subPathExpr") or "", env)
    if not below:
        return volume.path
    if below.startswith("/") or ".." in below.split("/"):
        raise VolumeError(f'volume "{mount["name"]}": subPath {below} leads out of it')
    part = volume.path / below
    if not part.exists():
        if not volume.own:
            raise VolumeError(f'volume "{mount["name"]}": it has no {below}')
        part.mkdir(parents=True)
    return part


def _prepare(pod: Object, volume: Object, place: Path, facts: Facts, references: References) -> Volume:
    if "emptyDir" in volume:
        _make_open_folder(place)
        return Volume(place, own=True)
    if host := volume.get("hostPath"):
        return Volume(_host_path(host))
    if source := volume.get("configMap"):
        _write(place, _config_map_files(source, references), source.get("defaultMode"))
    elif source := volume.get("secret"):
        _write(
            place, _secret_files({**source, "name": source.get("secretName")}, references), source.get("defaultMode")
        )
    elif source := volume.get("downwardAPI"):
        _write(place, _downward_files(pod, source, facts), source.get("defaultMode"))
    elif source := volume.get("projected"):
        files: dict[str, tuple[bytes, int | None]] = {}
        for part in source.get("sources") or ():
            files |= _projected_files(pod, part, facts, references)
        _write(place, files, source.get("defaultMode"))
    else:
        kind = next((key for key in volume if key != "name"), "no source")
        raise ConfigError(f"{kind} volumes are not available on a local node")
    return Volume(place, readonly=True)


def _projected_files(
    pod: Object, part: Object, facts: Facts, references: References
) -> dict[str, tuple[bytes, int | None]]:
    if source := part.get("configMap"):
        return _config_map_files(source, references)
    if source := part.get("secret"):
        return _secret_files(source, references)
    if source := part.get("downwardAPI"):
        return _downward_files(pod, source, facts)
    raise ConfigError(f"projected source {next(iter(part), 'without a kind')} is not available on a local node")


def _config_map_files(source: Object, references: References) -> dict[str, tuple[bytes, int | None]]:
    found = references.config_map(source["name"])
    if found is None and not source.get("optional"):
        raise ConfigError(f'configmap "{source["name"]}" not found')
    data = {key: str(value).encode() for key, value in ((found or {}).get("data") or {}).items()}
    data |= {key: base64.b64decode(value) for key, value in ((found or {}).get("binaryData") or {}).items()}
    return _chosen(source, data)


def _secret_files(source: Object, references: References) -> dict[str, tuple[bytes, int | None]]:
    found = references.secret(source["name"])
    if found is None and not source.get("optional"):
        raise ConfigError(f'secret "{source["name"]}" not found')
    return _chosen(source, {key: base64.b64decode(value) for key, value in ((found or {}).get("data") or {}).items()})


def _chosen(source: Object, data: dict[str, bytes]) -> dict[str, tuple[bytes, int | None]]:
    items = source.get("items")
    if not items:
        return {key: (value, None) for key, value in data.items()}
    chosen = {}
    for item in items:
        if item["key"] in data:
            chosen[item["path"]] = (data[item["key"]], item.get("mode"))
        elif not source.get("optional"):
            raise ConfigError(f"references non-existent config key: {item['key']}")
    return chosen


def _downward_files(pod: Object, source: Object, facts: Facts) -> dict[str, tuple[bytes, int | None]]:
    files = {}
    for item in source.get("items") or ():
        if reference := item.get("fieldRef"):
            value = environment.field_value(pod, reference["fieldPath"], facts)
        else:
            value = environment.resource_value(pod, {}, item["resourceFieldRef"], facts)
        files[item["path"]] = (value.encode(), item.get("mode"))
    return files


def _write(place: Path, files: dict[str, tuple[bytes, int | None]], default_mode: int | None) -> None:
    place.mkdir(parents=True, exist_ok=True)
    for name, (content, mode) in files.items():
        file = place / name
        if ".." in Path(name).parts or file == place:
            raise ConfigError(f"{name} leads out of the volume")
        file.parent.mkdir(parents=True, exist_ok=True)
        partial = file.with_name(f".{file.name}.partial")
        partial.write_bytes(content)
        partial.chmod(default_mode or _DEFAULT_MODE if mode is None else mode)
        os.replace(partial, file)


def _host_path(source: Object) -> Path:
    path, kind = Path(source["path"]), source.get("type") or ""
    if kind == "DirectoryOrCreate":
        path.mkdir(parents=True, exist_ok=True)
    elif kind == "FileOrCreate":
        path.touch()
    elif kind in _HOST_PATHS and not _HOST_PATHS[kind](path):
        raise ConfigError(f"hostPath type check failed: {path} is not a {kind}")
    if not path.exists():
        raise ConfigError(f"{path} does not exist on this machine")
    return path


def _make_open_folder(path: Path) -> None:
    """Writable by whoever the container's processes are, as an emptyDir is."""
    path.mkdir(parents=True, exist_ok=True)
    path.chmod(0o777)


def make_container_folders(folder: PodFolder, container: str, attempt: int) -> tuple[Path, Path]:
    """Make a container's own `/tmp`, and an empty folder in which its root can be put together.

    What earlier attempts left in theirs is removed; this may take a while.
    """
    base = folder.container(container, attempt)
    shutil.rmtree(base.parent, ignore_errors=True)
    scratch, stage = base / "tmp", base / "stage"
    scratch.mkdir(parents=True, exist_ok=True)
    scratch.chmod(0o1777)
    stage.mkdir(exist_ok=True)
    return scratch, stage
