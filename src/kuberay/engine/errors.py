"""Why a local engine cannot start or go on. Every message says what is wrong and what to do.

EngineError
├── AlreadyRunning     another engine uses the data folder
├── ForeignFolder      the data folder is not an engine's, or somebody else's
├── PortTaken          another program listens there
├── RayMissing         no Ray in this Python environment
├── DamagedStorage     the stored objects cannot be read
└── NodeUnavailable    the kernel or the machine's settings do not allow what Pods need
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


class EngineError(Exception):
    """An engine that cannot start or go on; the message is for its user."""


class AlreadyRunning(EngineError):
    """Another engine uses the data folder."""


class ForeignFolder(EngineError):
    """The data folder holds what no engine made, or belongs to another user. It is left as it is."""


class PortTaken(EngineError):
    """Another program listens on the port that was asked for."""


class RayMissing(EngineError):
    """There is no Ray in this Python environment."""


class DamagedStorage(EngineError):
    """The file with the stored objects does not hold what this program wrote. It is never repaired or replaced."""

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(
            f"{path}: {problem}. Restore the file from a copy, or move it away to start with an empty cluster."
        )


class NodeUnavailable(EngineError):
    """Namespaces, mounts or networking that Pods need are not available."""
