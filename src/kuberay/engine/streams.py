"""What the API server asks of the node that runs a Pod: its logs.

The API server serves `pods/log` over HTTP; the node agent owns the files. This is the interface between the
two, so that either can be tested, and replaced, without the other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping


@dataclass(frozen=True, slots=True)
class LogOptions:
    """The query of `GET .../pods/NAME/log`, decoded. `None` means not given."""

    follow: bool = False
    previous: bool = False
    timestamps: bool = False
    tail_lines: int | None = None
    limit_bytes: int | None = None
    since_seconds: int | None = None
    since_time: str | None = None


class PodStreams(Protocol):
    """Implemented by the node agent."""

    def logs(self, pod: Mapping[str, Any], container: str, options: LogOptions) -> AsyncIterator[bytes]:
        """The container's output; with `follow` it ends when the container ends for good.

        :raises ApiError: nothing to read yet (`BadRequest`, as a kubelet says it), or no such container.
        """
        ...
