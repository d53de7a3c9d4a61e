"""Reading Pod templates that users wrote.

A template is kept verbatim, and where an API server does not check it (the slim CRDs) it may hold anything. These
readers never fail: what has not the shape of the thing asked for is as good as not there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kuberay.api.facts import Json


def objects(value: Any, key: str) -> list[Json]:
    """The objects in the list `value[key]`."""
    found = value.get(key) if isinstance(value, dict) else None
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


def mapping(value: Any, key: str) -> Json:
    """The object `value[key]`."""
    found = value.get(key) if isinstance(value, dict) else None
    return found if isinstance(found, dict) else {}


def text(value: Any, key: str) -> str:
    """The string `value[key]`."""
    found = value.get(key) if isinstance(value, dict) else None
    return found if isinstance(found, str) else ""


def containers(template: Json) -> list[Json]:
    """The containers of a Pod template."""
    return objects(mapping(template, "spec"), "containers")


def ray_container(template: Json) -> Json:
    """The container that runs Ray: the first."""
    return next(iter(containers(template)), {})


def environment(container: Json) -> dict[str, Json]:
    """A container's variables by name; of two with one name the later counts, as it does for the process."""
    return {text(variable, "name"): variable for variable in objects(container, "env")}


def variable_index(container: Json, name: str) -> int | None:
    """Where in a container's `env` a variable stands."""
    variables = container.get("env")
    if not isinstance(variables, list):
        return None
    return next((index for index, each in enumerate(variables) if text(each, "name") == name), None)


def restart_policy(template: Json) -> str:
    """A template's restart policy, empty when it sets none."""
    return text(mapping(template, "spec"), "restartPolicy")
