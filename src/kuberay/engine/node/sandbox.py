"""What a Pod has before its first container starts: an address, namespaces, volumes and the files under `/etc`."""

from __future__ import annotations

import asyncio
import os
import shutil
from ipaddress import AddressValueError, IPv4Address
from pathlib import Path
from typing import TYPE_CHECKING

from kuberay.engine.node import names, unavailable, volumes
from kuberay.engine.node.container import Surroundings
from kuberay.engine.node.environment import Facts
from kuberay.engine.node.errors import HelperRefused
from kuberay.engine.node.events import NORMAL, WARNING
from kuberay.engine.node.network import NetworkFull
from kuberay.engine.node.volumes import PodFolder, VolumeError
from kuberay.kube.errors import KubeError

if TYPE_CHECKING:
    from kuberay.engine.node.context import NodeContext
    from kuberay.engine.node.pod import Object

_LONGEST_HOSTNAME = 63
_MACHINES_PROFILE = Path("/etc/profile")
_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"


class SandboxFailed(Exception):
    """A Pod cannot have what it needs; `reason` is that of the event that tells it."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class PodSandbox:
    """The surroundings of one Pod's containers. Made when the first is to start, removed after the last."""

    def __init__(self, node: NodeContext, pod: Object) -> None:
        metadata = pod["metadata"]
        self._node = node
        self._pod = pod
        self.key = f"{metadata['namespace']}/{metadata['name']}"
        self.name = str(metadata["uid"])
        self.folder = PodFolder(node.folder / self.name)
        self.hostname = (pod["spec"].get("hostname") or metadata["name"])[:_LONGEST_HOSTNAME].rstrip("-.")
        self.address = ""
        self._around: Surroundings | None = None

    def surroundings(self) -> Surroundings:
        assert self._around, "create comes first"
        return self._around

    async def create(self) -> None:
        """Make it; safe to repeat.

        :raises SandboxFailed: it cannot be made now; try again later.
        """
        if self._around:
            return
        try:
            self.address = self.address or str(self._node.addresses.take(self.key, preferred=self._earlier_address()))
            facts = self._facts()
            references = await self._node.references(self._pod)
            found = volumes.prepare(self._pod, self.folder, facts, references)
            self.folder.shared_memory.mkdir(parents=True, exist_ok=True)
            files = self._write_files()
            await self._node.helper.create_sandbox(
                self.name,
                address=self.address,
                hostname=self.hostname,
                memory=volumes.memory_volumes(self._pod, self.folder),
            )
        except VolumeError as problem:
            raise SandboxFailed("FailedMount", str(problem)) from problem
        except (NetworkFull, HelperRefused, OSError, KubeError) as problem:
            raise SandboxFailed("FailedCreatePodSandBox", str(problem)) from problem
        self._around = Surroundings(self.name, self.hostname, self.folder, found, files, facts)
        self._tell()

    async def remove(self) -> None:
        """Kill what is left in it and free the address; safe to repeat. The folder, with its logs, stays."""
        if self._around:
            self._around = None
            await self._node.helper.remove_sandbox(self.name)
        self._node.addresses.release(self.key)

    async def delete_folder(self) -> None:
        """Remove volumes and logs: nobody can ask for them any more."""
        await asyncio.to_thread(shutil.rmtree, self.folder.path, ignore_errors=True)

    def _earlier_address(self) -> IPv4Address | None:
        try:
            return IPv4Address((self._pod.get("status") or {}).get("podIP") or "")
        except AddressValueError:
            return None

    def _facts(self) -> Facts:
        return Facts(
            pod_ip=self.address,
            host_ip=str(self._node.helper.gateway),
            cpu=self._node.cpu,
            memory=self._node.memory,
            service_host=self._node.service_host,
            service_port=self._node.service_port,
        )

    def _write_files(self) -> dict[str, Path]:
        namespace = self._pod["metadata"]["namespace"]
        aliases = "".join(
            f"{alias['ip']}\t{' '.join(alias.get('hostnames') or ())}\n"
            for alias in self._pod["spec"].get("hostAliases") or ()
        )
        subdomain = self._pod["spec"].get("subdomain") or ""
        hosts = names.hosts_file(self.address, self.hostname, namespace=namespace, subdomain=subdomain)
        contents = {
            "/etc/hosts": hosts + aliases,
            "/etc/resolv.conf": names.resolver_configuration(namespace, str(self._node.helper.gateway)),
            "/etc/hostname": f"{self.hostname}\n",
            "/etc/profile": self._node.ray.profile(_MACHINES_PROFILE),
        }
        folder = self.folder.path / "etc"
        folder.mkdir(parents=True, exist_ok=True)
        files = {}
        for path, content in contents.items():
            files[path] = folder / Path(path).name
            files[path].write_text(content)
        return files | self._write_account()

    def _write_account(self) -> dict[str, Path]:
        """The credentials of a Pod that runs as somebody. One that names no account has no business with the API."""
        spec = self._pod["spec"]
        account = spec.get("serviceAccountName")
        if not account or spec.get("automountServiceAccountToken") is False or self._node.account_files is None:
            return {}
        folder = self.folder.path / "account"
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        for name, content in self._node.account_files(self._pod["metadata"]["namespace"], account).items():
            with open(folder / name, "wb", opener=_for_owner_only) as file:
                file.write(content)
        return {_ACCOUNT: folder}

    def _tell(self) -> None:
        """Say once what is different here from what the Pod asks for."""
        spec = self._pod["spec"]
        everybody = [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]
        for image in sorted({each["image"] for each in everybody if each.get("image")}):
            if self._node.ray.version:
                self._node.recorder.record(self._pod, NORMAL, "ImageNotPulled", self._node.ray.notice(image))
        for difference in unavailable.differences(self._pod):
            self._node.recorder.record(self._pod, WARNING, "NotAvailable", difference)


def _for_owner_only(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
