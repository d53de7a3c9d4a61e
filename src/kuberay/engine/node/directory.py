"""The cluster's Services and endpoints as the name server and the proxy read them: straight from the caches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kuberay.engine.node.names import LABEL_SERVICE
from kuberay.kube.store import Store

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

Object = dict[str, Any]


class CachedDirectory:
    """Implements `names.Directory` on two stores, which informers fill."""

    def __init__(self) -> None:
        self.service_store: Store[Object] = Store()
        self.slice_store: Store[Object] = Store({"service": _service_of})

    def service(self, namespace: str, name: str) -> Object | None:
        return self.service_store.get(namespace, name)

    def services(self) -> Iterator[Object]:
        return iter(self.service_store)

    def slices(self, namespace: str, service: str) -> Iterable[Object]:
        return self.slice_store.by("service", f"{namespace}/{service}")


def _service_of(piece: Object) -> list[str]:
    metadata = piece["metadata"]
    service = (metadata.get("labels") or {}).get(LABEL_SERVICE)
    return [f"{metadata['namespace']}/{service}"] if service else []
