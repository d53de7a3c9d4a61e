"""The `ray start` line of a Ray container: what the user set, what the group says, what the container may use.

Three steps, each a function from parameters to parameters, and one that prints them:

1. `from_group`: the group's `resources` and `labels` become parameters;
2. `with_defaults`: what every head or worker needs and the user left out;
3. `with_container_resources`: CPUs, memory and accelerators from the container's limits;
4. `command`: the line itself.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from kuberay.api.start_params import custom_resources
from kuberay.build import names
from kuberay.kube import quantity

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kuberay.kube.quantity import Quantity

Params = dict[str, str]

_MIG_SLICE = re.compile(r"nvidia\.com/mig-\d+g\.\d+gb$")
# Accelerators that Ray counts as custom resources, by the name it gives them.
_CUSTOM_ACCELERATORS = {"aws.amazon.com/neuroncore": "neuron_cores", "google.com/tpu": "TPU"}
# Flags of `ray start` that want to be told `true` or `false`; all others are switches.
_WITH_BOOLEAN_VALUE = frozenset({"log-color", "include-dashboard", "include-log-monitor"})


def is_gpu(resource: str) -> bool:
    """Whether a resource name means GPUs to Ray: whole ones of any maker, or slices of NVIDIA's."""
    return resource.endswith("gpu") or _MIG_SLICE.search(resource) is not None


def from_group(params: Mapping[str, str], resources: Mapping[str, str], labels: Mapping[str, str]) -> Params:
    """The group's `resources` and `labels` as parameters, in place of those the user gave.

    A text that is no quantity is left out; names are taken in order, so of two names for one parameter the last wins.
    """
    result = dict(params)
    custom: dict[str, float] = {}
    for name in sorted(resources):
        amount = _quantity(resources[name])
        if amount is None:
            continue
        match name.lower():
            case "cpu":
                result["num-cpus"] = str(int(amount))
            case "memory":
                result["memory"] = str(int(amount))
            case other if is_gpu(other):
                result["num-gpus"] = str(int(amount))
            case _:
                custom[name] = float(amount)
    if custom:
        result["resources"] = _quoted(custom)
    if labels:
        result["labels"] = ",".join(f"{key}={labels[key]}" for key in sorted(labels))
    return result


def with_defaults(params: Mapping[str, str], node_type: str, head_address: str) -> Params:
    """What a node needs to find its head and to be watched. `head_address` is `host:port`."""
    result = dict(params)
    if node_type == names.HEAD:
        result.setdefault("dashboard-host", "0.0.0.0")
    else:
        result.setdefault("address", head_address)
    result.setdefault("metrics-export-port", str(names.DEFAULT_PORTS["metrics"]))
    result.setdefault("dashboard-agent-listen-port", str(names.DASHBOARD_AGENT_PORT))
    # Forced: without it the container would end as soon as Ray has started.
    result["block"] = "true"
    return result


def with_container_resources(params: Mapping[str, str], resources: Mapping[str, Any]) -> Params:
    """CPUs, memory and accelerators that the container may use, for each parameter that is not given.

    Limits say what may be used; a CPU request stands in for a missing limit, a memory request does not, because Ray
    would hold its objects against a bound that nothing enforces.
    """
    result = dict(params)
    limits: Mapping[str, Any] = resources.get("limits") or {}
    requests: Mapping[str, Any] = resources.get("requests") or {}
    if "num-cpus" not in result:
        cpus = _quantity(limits.get("cpu")) or _quantity(requests.get("cpu"))
        if cpus:
            result["num-cpus"] = str(int(cpus))
    if "memory" not in result:
        memory = _quantity(limits.get("memory"))
        if memory:
            result["memory"] = str(int(memory))
    return _with_accelerators(result, limits)


def command(node_type: str, params: Mapping[str, str]) -> str:
    """The line. Blanks are KubeRay's: two between flags and one at the end, which scripts that parse it rely on."""
    line = "ray start --head " if node_type == names.HEAD else "ray start "
    for key in sorted(params):
        value = params[key]
        switch = value.lower() if key not in _WITH_BOOLEAN_VALUE else ""
        if switch == "true":
            line += f" --{key} "
        elif switch != "false":
            line += f" --{key}={value} "
    return line


def _with_accelerators(params: Params, limits: Mapping[str, Any]) -> Params:
    """The first GPU resource, and the first accelerator that Ray knows as a custom resource.

    Custom resources of the user's that cannot be read are left alone, and the accelerators with them.
    """
    custom = custom_resources(params.get("resources", "{}"))
    if not limits or custom is None:
        return params
    has_accelerator = any(name in custom for name in _CUSTOM_ACCELERATORS.values())
    for name in sorted(limits):
        amount = _quantity(limits[name])
        if not amount:
            continue
        if "num-gpus" not in params and is_gpu(name):
            params["num-gpus"] = str(int(amount))
        if not has_accelerator and name in _CUSTOM_ACCELERATORS:
            custom[_CUSTOM_ACCELERATORS[name]] = float(amount)
            params["resources"] = _quoted(custom)
            has_accelerator = True
    return params


def _quoted(custom: Mapping[str, float]) -> str:
    """JSON in single quotes, as the shell must see it; whole numbers without a fraction, keys in order."""
    members = ",".join(f"{json.dumps(name, ensure_ascii=False)}:{_number(custom[name])}" for name in sorted(custom))
    return f"'{{{members}}}'"


def _number(value: float) -> str:
    """A number as JavaScript prints it, without an exponent between a millionth and 1e21."""
    if value == 0:
        return "0"
    digits = repr(value)
    if 1e-6 <= abs(value) < 1e21:
        return f"{value:.0f}" if value.is_integer() else _without_exponent(digits)
    mantissa, _, exponent = digits.partition("e")
    return f"{mantissa.removesuffix('.0')}e{int(exponent):+d}" if exponent else digits


def _without_exponent(digits: str) -> str:
    mantissa, _, exponent = digits.partition("e")
    if not exponent:
        return digits
    # Only 1e-06 < value < 1e-04 is printed with an exponent here: shift the point to the left.
    sign = "-" if mantissa.startswith("-") else ""
    figures = mantissa.lstrip("-").replace(".", "")
    return f"{sign}0.{'0' * (-int(exponent) - 1)}{figures}"


def _quantity(text: Any) -> Quantity | None:
    if text is None:
        return None
    try:
        return quantity.parse(text)
    except ValueError:
        return None
