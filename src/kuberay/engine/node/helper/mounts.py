"""The file system as one container sees it: the host's, with the Pod's volumes in their places.

There are no images, so the host's tree is shown whole, and the mounts of the container are laid over it. A mount
path that the host does not have must not appear on the host's disk: the deepest folder that exists is *mirrored*,
that is, covered by a tmpfs which shows the same entries by bind mounts, and in which new ones can be made.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass

from kuberay.engine.node import syscalls

_MOST_LINKS = 40
# What a remount must repeat: an unprivileged process may add restrictions to a mount, never drop one.
_KEPT_FLAGS = {
    os.ST_NOSUID: syscalls.MS_NOSUID,
    os.ST_NODEV: syscalls.MS_NODEV,
    os.ST_NOEXEC: syscalls.MS_NOEXEC,
    os.ST_NOATIME: syscalls.MS_NOATIME,
    os.ST_NODIRATIME: syscalls.MS_NODIRATIME,
    os.ST_RELATIME: syscalls.MS_RELATIME,
}


@dataclass(frozen=True, slots=True)
class Mount:
    """`source` shown at `target`. In a volume that is the Pod's own, folders for other mounts may be made."""

    source: str
    target: str
    readonly: bool = False
    own: bool = False


def resolve(root: str, path: str) -> tuple[str, list[str]]:
    """Follow `path` as if `root` were `/`: the part that exists, free of links, and the parts that do not.

    Links are followed by hand because the kernel would take an absolute one from the wrong root.
    """
    existing: list[str] = []
    waiting = [part for part in path.split("/") if part][::-1]
    links = 0
    while waiting:
        part = waiting.pop()
        if part == ".":
            continue
        if part == "..":
            del existing[-1:]
            continue
        place = "/".join([root, *existing, part])
        try:
            mode = os.lstat(place).st_mode
        except (FileNotFoundError, NotADirectoryError):
            return "/" + "/".join(existing), [part, *waiting[::-1]]
        if stat.S_ISLNK(mode):
            links += 1
            if links > _MOST_LINKS:
                raise OSError(f"{path}: too many symbolic links")
            target = os.readlink(place)
            if target.startswith("/"):
                existing = []
            waiting += [piece for piece in target.split("/") if piece][::-1]
        else:
            existing.append(part)
    return "/" + "/".join(existing), []


class Root:
    """A new root under construction. `stage` is an empty folder that disappears with the old root."""

    def __init__(self, stage: str) -> None:
        syscalls.mount("tmpfs", stage, "tmpfs", syscalls.MS_NOSUID | syscalls.MS_NODEV, "mode=700")
        self._stage = stage
        self._mirrors = 0
        self._path = f"{stage}/root"
        # Whether new entries may be made below a folder, for every folder where the answer changes.
        self._extensible = {"/": False}
        os.mkdir(self._path)
        syscalls.bind("/", self._path)

    def mount_proc(self) -> None:
        syscalls.mount(
            "proc", f"{self._path}/proc", "proc", syscalls.MS_NOSUID | syscalls.MS_NODEV | syscalls.MS_NOEXEC
        )

    def attach(self, mount: Mount) -> None:
        """Lay one mount over what is there."""
        place = self._place(mount.target, folder=os.path.isdir(mount.source))
        syscalls.bind(mount.source, self._path + place)
        if mount.readonly:
            self._make_readonly(self._path + place)
        self._extensible[place] = mount.own and not mount.readonly

    def make_folder(self, path: str) -> None:
        """Make sure a folder exists for the container, as a runtime does for its working directory."""
        self._place(path, folder=True)

    def enter(self) -> None:
        """Make this the root of the mount namespace; the old one is gone afterwards."""
        os.chdir(self._path)
        syscalls.pivot_root(".", ".")
        syscalls.umount(".")
        os.chdir("/")

    def _place(self, target: str, *, folder: bool) -> str:
        existing, missing = resolve(self._path, target)
        if not missing:
            if os.path.isdir(self._path + existing) != folder:
                raise OSError(f"{target}: a folder and a file cannot be mounted on each other")
            return existing
        if not self._may_extend(existing):
            self._mirror(existing)
        place = existing
        for part in missing[:-1]:
            place = os.path.join(place, part)
            os.mkdir(self._path + place)
        place = os.path.join(place, missing[-1])
        if folder:
            os.mkdir(self._path + place)
        else:
            _make_file(self._path + place)
        return place

    def _may_extend(self, folder: str) -> bool:
        while folder not in self._extensible:
            folder = os.path.dirname(folder)
        return self._extensible[folder]

    def _mirror(self, folder: str) -> None:
        self._mirrors += 1
        mirror = f"{self._stage}/{self._mirrors}"
        original = self._path + folder
        os.mkdir(mirror)
        mode = stat.S_IMODE(os.stat(original).st_mode)
        syscalls.mount("tmpfs", mirror, "tmpfs", syscalls.MS_NOSUID | syscalls.MS_NODEV, f"mode={mode:o}")
        with os.scandir(original) as entries:
            for entry in entries:
                self._mirror_entry(entry, f"{mirror}/{entry.name}", os.path.join(folder, entry.name))
        if folder == "/":
            self._path = mirror
        else:
            syscalls.bind(mirror, original)
        self._extensible[folder] = True

    def _mirror_entry(self, entry: os.DirEntry[str], copy: str, place: str) -> None:
        if entry.is_symlink():
            os.symlink(os.readlink(entry.path), copy)
            return
        if entry.is_dir():
            os.mkdir(copy)
            self._extensible.setdefault(place, False)
        else:
            _make_file(copy)
        syscalls.bind(entry.path, copy)

    def _make_readonly(self, place: str) -> None:
        current = os.statvfs(place).f_flag
        kept = sum(ours for theirs, ours in _KEPT_FLAGS.items() if current & theirs)
        syscalls.mount("none", place, flags=syscalls.MS_BIND | syscalls.MS_REMOUNT | syscalls.MS_RDONLY | kept)


def _make_file(path: str) -> None:
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o644))
