"""Rules for Ray's authentication: it depends on the Ray version, and there are two kinds of token."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kuberay.api.problems import Problem, shown
from kuberay.api.versions import KUBERNETES_TOKEN_AUTH, TOKEN_AUTH, RayVersion

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kuberay.api.validate.subject import Subject


def authentication_problems(subject: Subject) -> Iterator[Problem]:
    """All rules about authentication. A block without a mode means `token`."""
    options = subject.spec.auth_options
    if options is None:
        return
    if not options.is_token:
        if options.enable_k8s_token_auth:
            yield Problem(subject.at("authOptions.enableK8sTokenAuth"), "needs authOptions.mode token")
        return
    needed = KUBERNETES_TOKEN_AUTH if options.enable_k8s_token_auth else TOKEN_AUTH
    feature = "authOptions.enableK8sTokenAuth" if options.enable_k8s_token_auth else "authOptions.mode token"
    text = subject.spec.ray_version or ""
    version = RayVersion.parse(text)
    if not text:
        yield Problem(subject.at("rayVersion"), f"must be set for {feature}, which needs Ray {needed} or later")
    elif version is None:
        yield Problem(
            subject.at("rayVersion"), f"{shown(text)} is not a version; {feature} needs Ray {needed} or later"
        )
    elif version < needed:
        yield Problem(subject.at("rayVersion"), f"{feature} needs Ray {needed} or later, got {shown(text)}")
    if options.enable_k8s_token_auth and options.secret_name:
        yield Problem(
            subject.at("authOptions.secretName"),
            "has no use with enableK8sTokenAuth: clients show Kubernetes' own tokens",
        )
