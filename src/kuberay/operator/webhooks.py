"""What the operator refuses before it is stored: names that cannot work, and worker groups that share one.

These are KubeRay's three validating webhooks, at its paths. They are few on purpose: whatever else is wrong with a
spec shows as a condition of the object, where it can be mended, and deletion is never refused: neither the wish for it,
nor any change of an object that is on its way out, for that is how its finalizers go.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from kuberay.api.meta import ObjectMeta
from kuberay.api.problems import Problem, child
from kuberay.api.templates import mapping, text
from kuberay.api.validate import names, rayservice
from kuberay.kube.webhook import ServerCertificate, Verdict, WebhookServer

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from kuberay.kube.metrics import Metrics
    from kuberay.kube.webhook import AdmissionRequest

CERTIFICATES = Path("/tmp/k8s-webhook-server/serving-certs")
"""Where cert-manager's Secret is mounted in KubeRay's manifests."""

_LIMITS = {
    "RayCluster": names.RAY_CLUSTER_NAME,
    "RayJob": names.RAY_JOB_NAME,
    "RayService": names.RAY_SERVICE_NAME,
}


def server(certificates: Path, metrics: Metrics) -> WebhookServer:
    """A server for the three kinds.

    :param certificates: a folder with `tls.crt` and `tls.key`.
    :raises ConfigError: they cannot be used.
    """
    made = WebhookServer(ServerCertificate(certificates / "tls.crt", certificates / "tls.key"), metrics=metrics)
    for kind in _LIMITS:
        made.reviews(f"/validate-ray-io-v1-{kind.lower()}", _reviewer(kind))
    return made


def problems(kind: str, obj: dict[str, Any]) -> Iterator[Problem]:
    """What is wrong with an object that must not be stored."""
    metadata = mapping(obj, "metadata")
    known = ObjectMeta(name=text(metadata, "name"), generate_name=text(metadata, "generateName"))
    yield from names.name_problems(kind, known, _LIMITS[kind])
    if kind == "RayCluster":
        yield from _shared_names(mapping(obj, "spec").get("workerGroupSpecs"))
    if kind == "RayService":
        name = rayservice.ANNOTATION_INITIALIZING_TIMEOUT
        timeout = mapping(metadata, "annotations").get(name)
        if timeout is not None and rayservice.initializing_timeout(str(timeout)) is None:
            path = child("metadata.annotations", name)
            yield Problem(path, "a duration such as 5m, or a number of seconds, is wanted")


def _shared_names(groups: Any) -> Iterator[Problem]:
    seen: set[str] = set()
    for index, group in enumerate(groups if isinstance(groups, list) else ()):
        name = text(group, "groupName") if isinstance(group, dict) else ""
        if name in seen:
            yield Problem(f"spec.workerGroupSpecs[{index}]", f"worker group names must be unique: {name!r} is taken")
        seen.add(name)


def _reviewer(kind: str) -> Callable[[AdmissionRequest], Awaitable[Verdict]]:
    async def review(request: AdmissionRequest) -> Verdict:
        if request.operation not in ("CREATE", "UPDATE") or request.object is None:
            return Verdict()
        if mapping(request.object, "metadata").get("deletionTimestamp"):
            return Verdict()
        found = list(problems(kind, request.object))
        if not found:
            return Verdict()
        why = "; ".join(map(str, found))
        return Verdict(denied=f'{kind}.ray.io "{request.name}" is invalid: {why}', code=422, reason="Invalid")

    return review
