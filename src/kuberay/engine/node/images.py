"""What stands for an image on this node: images are not pulled, every one means the Ray that is installed here."""

from __future__ import annotations

import os
import shlex
import sys
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

_SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True, slots=True)
class RayEnvironment:
    """A Python environment with Ray in it; `version` is `None` when it has none."""

    folder: Path
    version: str | None
    libraries: tuple[Path, ...] = ()
    """Further folders it consists of: the interpreter it was made from, packages that are installed in place."""

    @property
    def programs(self) -> str:
        """Where `ray` and `python` are."""
        return str(self.folder / "bin")

    def problem(self, image: str) -> str | None:
        """Why a container of this image cannot run, and what to do; `None` when it can."""
        if self.version:
            return None
        return (
            f"{image} is not pulled: images stand for the Ray of the Python environment {self.folder}, "
            "and there is none. Install it with: pip install 'kuberay[local]'"
        )

    def notice(self, image: str) -> str:
        """What an event tells the user about the image of a Pod."""
        return f"{image} is not pulled: runs on Ray {self.version} of this environment ({self.folder})"

    def search_path(self, given: str | None) -> str:
        """`PATH` of a container: the environment's own programs come first, whatever the user asks for."""
        return f"{self.programs}:{given or _SYSTEM_PATH}"

    def profile(self, machines: Path) -> str:
        """What a login shell runs first: the machine's own, which sets `PATH` anew, and then our programs come first.

        :param machines: the machine's own, which may be missing.
        """
        try:
            text = machines.read_text(errors="surrogateescape")
        except OSError:
            text = ""
        return f"{text}\nPATH={shlex.quote(self.programs)}:$PATH\nexport PATH\n"

    def needed_below(self, hidden: Path) -> list[Path]:
        """What has to stay visible for Ray to run, of all that lies in a folder that a container has its own of."""
        inside = sorted({each for each in (self.folder, *self.libraries) if each.is_relative_to(hidden)})
        return [each for each in inside if not any(each != other and each.is_relative_to(other) for other in inside)]

    def base_variables(self, hostname: str) -> dict[str, str]:
        """What an image would have set."""
        home = os.environ.get("HOME") or "/"
        return {"HOME": home, "HOSTNAME": hostname, "LANG": "C.UTF-8"}


def installed() -> RayEnvironment:
    """The environment kuberay itself runs in."""
    try:
        version = metadata.version("ray")
    except metadata.PackageNotFoundError:
        version = None
    libraries = tuple(path for path in map(Path, (sys.base_prefix, *sys.path)) if path.is_dir())
    return RayEnvironment(Path(sys.prefix), version, libraries)
