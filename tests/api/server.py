"""A real kube-apiserver as an oracle: install CRDs, then ask what it makes of an object without storing it."""

from __future__ import annotations

import http.client
import json
import ssl
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from tests.control_plane import ControlPlane

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


@dataclass(frozen=True, slots=True)
class Answer:
    """What the server says: the object as it would store it, or a refusal."""

    code: int
    body: dict[str, Any]

    @property
    def accepted(self) -> bool:
        return self.code < 300


class Server:
    """A connection to a control plane."""

    def __init__(self, plane: ControlPlane) -> None:
        address = urlsplit(plane.url)
        context = ssl.create_default_context(cafile=str(plane.ca_file))
        self._connection = http.client.HTTPSConnection(address.hostname or "", address.port, context=context)
        self._headers = {"Authorization": f"Bearer {plane.token}", "Content-Type": "application/json"}

    def close(self) -> None:
        self._connection.close()

    def ask(self, method: str, path: str, body: Any = None) -> Answer:
        self._connection.request(method, path, json.dumps(body).encode() if body is not None else None, self._headers)
        with self._connection.getresponse() as response:
            content = response.read()
            # What is not served yet is answered in plain text.
            found = response.headers.get_content_type() == "application/json"
            return Answer(response.status, json.loads(content) if found else {"message": content.decode()})

    def install(self, *crds: dict[str, Any]) -> None:
        """Replace all CRDs of `ray.io` by these, and wait until they are served."""
        for installed in self.ask("GET", CRDS).body["items"]:
            self.ask("DELETE", f"{CRDS}/{installed['metadata']['name']}")
        self._until(lambda: not self.ask("GET", CRDS).body["items"])
        for crd in crds:
            answer = self.ask("POST", CRDS, crd)
            assert answer.accepted, answer.body["message"]
        names = [
            (crd["spec"]["names"]["plural"], version["name"]) for crd in crds for version in crd["spec"]["versions"]
        ]
        for plural, version in names:
            self._until(lambda path=f"/apis/ray.io/{version}/{plural}": self.ask("GET", path).accepted)

    def create(self, document: dict[str, Any]) -> Answer:
        """Have the server judge and complete an object; nothing is stored."""
        plural = document["kind"].lower() + "s"
        return self.ask("POST", f"/apis/{document['apiVersion']}/namespaces/default/{plural}?dryRun=All", document)

    def _until(self, holds: Any) -> None:
        deadline = time.monotonic() + 30
        while not holds():
            assert time.monotonic() < deadline, "the server did not get there in 30 s"
            time.sleep(0.05)
