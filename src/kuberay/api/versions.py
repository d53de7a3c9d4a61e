"""Ray versions as users write them in `rayVersion`, for telling whether a feature is there."""

from __future__ import annotations

import re
from typing import NamedTuple

_VERSION = re.compile(r"v?([0-9]{1,9})\.([0-9]{1,9})(?:\.([0-9]{1,9}))?")


class RayVersion(NamedTuple):
    """Numbers only: what follows them (`rc1`, `.dev0`) does not change which features are there."""

    major: int
    minor: int
    patch: int = 0

    @staticmethod
    def parse(text: str) -> RayVersion | None:
        """The version a text starts with: `2.52` is `2.52.0`, `v2.52.0rc1` too. `None` for `nightly` and the like."""
        match = _VERSION.match(text.strip())
        if match is None:
            return None
        major, minor, patch = match.groups(default="0")
        return RayVersion(int(major), int(minor), int(patch))

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}.{self.patch}"


TOKEN_AUTH = RayVersion(2, 52)
"""The first version that can ask clients for a token."""
KUBERNETES_TOKEN_AUTH = RayVersion(2, 55)
"""The first version that can leave authentication to Kubernetes."""
GROUP_PRIORITY = RayVersion(2, 56)
"""The first version whose autoscaler knows priorities of worker groups."""
