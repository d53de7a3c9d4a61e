"""Rules for the autoscaler and what does not go with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kuberay.api import templates
from kuberay.api.gates import Gate
from kuberay.api.problems import Problem, shown, warning
from kuberay.api.validate.subject import AUTOSCALER_V2_VARIABLE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kuberay.api.validate.subject import Subject

_START_COMMAND_VARIABLE = "KUBERAY_GEN_AUTOSCALER_START_CMD"


def autoscaling_problems(subject: Subject) -> Iterator[Problem]:
    """All rules about autoscaling and suspended groups."""
    spec = subject.spec
    variable = subject.head_environment.get(AUTOSCALER_V2_VARIABLE)
    for index, group in enumerate(spec.worker_group_specs):
        if not group.suspend:
            continue
        path = subject.at(f"workerGroupSpecs[{index}].suspend")
        if Gate.RAY_JOB_DELETION_POLICY not in subject.gates:
            yield Problem(path, f"a suspended worker group needs the feature gate {Gate.RAY_JOB_DELETION_POLICY}")
        if spec.is_autoscaling:
            yield Problem(path, f"worker group {shown(group.group_name)} cannot be suspended with autoscaling on")
    if spec.is_autoscaling:
        if spec.autoscaler_version and variable is not None:
            yield Problem(
                subject.head_variable_at(AUTOSCALER_V2_VARIABLE),
                f"{AUTOSCALER_V2_VARIABLE} must not be set beside autoscalerOptions.version; remove it",
            )
        yield from _restart_policy_problems(subject)
    elif templates.text(variable, "value") in ("1", "true"):
        yield Problem(
            subject.head_variable_at(AUTOSCALER_V2_VARIABLE),
            f"{AUTOSCALER_V2_VARIABLE} asks for the autoscaler, but enableInTreeAutoscaling is not true",
        )
    yield from _option_problems(subject)


def _restart_policy_problems(subject: Subject) -> Iterator[Problem]:
    """A restarted Ray process is a new Ray node in an old Pod, which the autoscaler cannot tell apart."""
    spec = subject.spec
    if spec.autoscaler_version not in ("v1", "v2"):
        return
    pods = [
        (f"workerGroupSpecs[{index}]", f"worker group {shown(group.group_name)}", group.template)
        for index, group in enumerate(spec.worker_group_specs)
    ]
    if spec.autoscaler_version == "v2":
        pods.insert(0, ("headGroupSpec", "the head", spec.head_group_spec.template))
    for path, what, template in pods:
        policy = templates.restart_policy(template)
        if policy in ("", "Never"):
            continue
        where = subject.at(f"{path}.template.spec.restartPolicy")
        message = f"of {what} should be Never or unset with autoscaler {spec.autoscaler_version}, got {shown(policy)}"
        yield Problem(where, message) if spec.autoscaler_version == "v2" else warning(where, message)


def _option_problems(subject: Subject) -> Iterator[Problem]:
    options = subject.spec.autoscaler_options
    if options is None:
        return
    if options.idle_timeout_seconds is not None and options.idle_timeout_seconds < 0:
        yield Problem(
            subject.at("autoscalerOptions.idleTimeoutSeconds"),
            f"must not be negative, got {options.idle_timeout_seconds}",
        )
    for index, variable in enumerate(options.env):
        if templates.text(variable, "name") == _START_COMMAND_VARIABLE:
            yield Problem(
                subject.at(f"autoscalerOptions.env[{index}]"), f"{_START_COMMAND_VARIABLE} is set by the operator"
            )
    if not subject.spec.is_autoscaling:
        yield warning(subject.at("autoscalerOptions"), "has no effect while enableInTreeAutoscaling is not true")
