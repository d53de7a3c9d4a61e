"""What a cluster may ask for by its API and does not get from this version.

A feature that is silently left out is worse than a refusal: a cluster without the token its user asked for is open to
everybody. So a cluster that asks for one of these is not started at all, and is told why.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kuberay.api.problems import Problem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kuberay.api.v1 import RayCluster


def unsupported(cluster: RayCluster) -> list[Problem]:
    """One problem for each feature that is asked for and not there yet, naming its field."""
    return [
        Problem(path, f"{feature} is not supported yet; remove the field to run the cluster without it")
        for path, feature in _asked_for(cluster)
    ]


def _asked_for(cluster: RayCluster) -> Iterator[tuple[str, str]]:
    spec = cluster.spec
    if spec.tls_options is not None and spec.tls_options.enabled:
        yield "spec.tlsOptions", "mutual TLS"
    if spec.history_server_options is not None:
        yield "spec.historyServerOptions", "the history server's collector"
