"""Merge patches made by comparison."""

from __future__ import annotations

from typing import Any


def merge_patch_between(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    """The JSON merge patch that turns one object into the other; empty when they are equal."""
    patch: dict[str, Any] = {}
    for key in before.keys() | after.keys():
        old, new = before.get(key), after.get(key)
        if isinstance(old, dict) and isinstance(new, dict):
            if changes := merge_patch_between(old, new):
                patch[key] = changes
        elif old != new:
            patch[key] = new
    return patch
