"""Fields that hold YAML or JSON as text, for Ray to read: told when they cannot be read at all."""

from __future__ import annotations

from typing import Any

import msgspec


def not_a_mapping(text: str) -> str | None:
    """Why a text is not one YAML mapping, or `None` when it is (or says nothing)."""
    # Few objects hold such a text; the others do not pay for the parser.
    from kuberay.api.documents import Unreadable, read

    try:
        found = list(read(text))
    except Unreadable as error:
        return f"line {error.line}: {error}"
    if any(not isinstance(document.value, dict) for document in found):
        return "must be a YAML mapping"
    return "must be one YAML document" if len(found) > 1 else None


def not_a_json_object(text: str) -> str | None:
    """Why a text is not a JSON object, or `None` when it is one."""
    try:
        msgspec.json.decode(text, type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError) as error:
        return f"must be a JSON object: {error}"
    return None
