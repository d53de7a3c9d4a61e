"""Parameters of `ray start` that are read before Ray reads them.

They are texts, and go through a shell first, which may put in what a variable holds. So what cannot be read is the
user's own business and left alone; told is only what can be read, and that no Ray could do anything with.
"""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

from kuberay.api.problems import Problem, child, shown, warning

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_LARGEST_PORT = 65535
_decode = json.JSONDecoder(parse_int=float).decode
"""Whole numbers are read as what Ray counts in, however many digits they have."""


def custom_resources(text: str) -> dict[str, float] | None:
    """The parameter `resources` as the user quoted it; `None` when it is not JSON of names and numbers."""
    try:
        value = _json(text)
    except (ValueError, RecursionError):
        return None
    if value is None:
        return {}
    if not isinstance(value, dict) or not all(
        isinstance(each, float) and math.isfinite(each) for each in value.values()
    ):
        return None
    return value


def start_param_problems(params: Mapping[str, str], path: str) -> Iterator[Problem]:
    """Resources that cannot be counted; and ports that no machine has, which KubeRay lets Ray refuse."""
    for name, text in params.items():
        if (name == "port" or name.endswith("-port")) and _is_beyond_ports(text):
            yield warning(child(path, name), f"is beyond the largest port, {_LARGEST_PORT}: {shown(text)}")
    if "resources" in params and (wrong := _uncountable(params["resources"])):
        yield Problem(child(path, "resources"), wrong)


def _is_beyond_ports(text: str) -> bool:
    digits = text.lstrip("0")
    return text.isascii() and digits.isdecimal() and (len(digits) > 5 or int(digits) > _LARGEST_PORT)


def _uncountable(text: str) -> str | None:
    try:
        value = _json(text)
    except RecursionError:
        return "is nested too deeply; a JSON object of names and numbers is wanted"
    except ValueError:
        return None
    amounts = value if isinstance(value, dict) else {}
    odd = [name for name, each in amounts.items() if isinstance(each, float) and not math.isfinite(each)]
    return f"the amount of {shown(odd[0])} is no finite number, or too large for one" if odd else None


def _json(text: str) -> Any:
    """What stands within the quotes."""
    return _decode(text.strip("'\"` "))
