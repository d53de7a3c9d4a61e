"""A real Kubernetes control plane on loopback, for tests and benchmarks.

`make kubernetes` builds the programs; `KUBEBUILDER_ASSETS` may name another folder that holds them. Nothing here is
a mock: it is etcd, kube-apiserver and, where asked for, kube-controller-manager, each in a folder of its own.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import yaml
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from kuberay.engine.node import syscalls

if TYPE_CHECKING:
    from collections.abc import Iterator

VERSION = "1.36.3"
TOKEN = "control-plane-of-the-tests"
CONTROLLERS = (
    "job-controller,garbage-collector-controller,namespace-controller,resourcequota-controller,endpoints-controller,"
    "endpointslice-controller,deployment-controller,replicaset-controller,ttl-after-finished-controller,"
    "serviceaccount-controller,persistentvolumeclaim-protection-controller"
)


class ProgramsMissing(Exception):
    """The control plane has not been built on this machine."""


def programs() -> Path:
    """The folder with the four programs.

    :raises ProgramsMissing: says which are missing and how to get them.
    """
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = Path(os.environ.get("KUBEBUILDER_ASSETS") or cache / "kuberay" / f"kubernetes-v{VERSION}")
    wanted = ("etcd", "kube-apiserver", "kube-controller-manager", "kubectl")
    missing = [name for name in wanted if not os.access(folder / name, os.X_OK)]
    if missing:
        raise ProgramsMissing(f"no {', '.join(missing)} in {folder}: run `make kubernetes` (needs Go)")
    return folder


@dataclass(frozen=True, slots=True)
class ControlPlane:
    """A running control plane and how to reach it."""

    url: str
    token: str
    ca_file: Path
    kubeconfig: Path
    kubectl: Path
    etcd_url: str = ""
    server_pid: int = 0
    """The process of kube-apiserver."""


@contextlib.contextmanager
def control_plane(folder: Path, *, controllers: bool = False, flags: tuple[str, ...] = ()) -> Iterator[ControlPlane]:
    """Start etcd and kube-apiserver (and the controllers that Ray clusters meet), stop them on leaving.

    :param folder: an empty folder for data, certificates and logs.
    :param controllers: also run kube-controller-manager: garbage collection, Jobs, namespaces, quotas.
    :param flags: further flags of kube-apiserver.
    """
    binaries = programs()
    etcd_port, peer_port, api_port, manager_port = _free_ports(4)
    key = folder / "service-accounts.key"
    key.write_bytes(_rsa_key())
    (folder / "tokens.csv").write_text(f'{TOKEN},admin,admin,"system:masters"\n')
    certificates = folder / "certificates"
    plane = ControlPlane(
        url=f"https://127.0.0.1:{api_port}",
        token=TOKEN,
        ca_file=certificates / "apiserver.crt",
        kubeconfig=folder / "kubeconfig",
        kubectl=binaries / "kubectl",
        etcd_url=f"http://127.0.0.1:{etcd_port}",
    )
    with contextlib.ExitStack() as stack:
        stack.enter_context(
            _running(
                folder / "etcd.log",
                binaries / "etcd",
                f"--data-dir={folder / 'etcd'}",
                f"--listen-client-urls=http://127.0.0.1:{etcd_port}",
                f"--advertise-client-urls=http://127.0.0.1:{etcd_port}",
                f"--listen-peer-urls=http://127.0.0.1:{peer_port}",
                f"--initial-advertise-peer-urls=http://127.0.0.1:{peer_port}",
                f"--initial-cluster=default=http://127.0.0.1:{peer_port}",
                "--unsafe-no-fsync",
            )
        )
        server = stack.enter_context(
            _running(
                folder / "kube-apiserver.log",
                binaries / "kube-apiserver",
                f"--etcd-servers=http://127.0.0.1:{etcd_port}",
                f"--secure-port={api_port}",
                "--bind-address=127.0.0.1",
                f"--cert-dir={certificates}",
                f"--token-auth-file={folder / 'tokens.csv'}",
                "--authorization-mode=RBAC",
                "--service-account-issuer=https://kubernetes.default.svc",
                f"--service-account-key-file={key}",
                f"--service-account-signing-key-file={key}",
                "--service-cluster-ip-range=10.96.0.0/16",
                "--disable-admission-plugins=ServiceAccount",
                "--max-requests-inflight=2000",
                "--max-mutating-requests-inflight=1000",
                *flags,
            )
        )
        _wait_until_ready(plane, server, folder / "kube-apiserver.log")
        plane.kubeconfig.write_text(yaml.safe_dump(_kubeconfig(plane)))
        if controllers:
            stack.enter_context(
                _running(
                    folder / "kube-controller-manager.log",
                    binaries / "kube-controller-manager",
                    f"--kubeconfig={plane.kubeconfig}",
                    "--leader-elect=false",
                    f"--secure-port={manager_port}",
                    "--bind-address=127.0.0.1",
                    f"--cert-dir={folder / 'manager'}",
                    f"--service-account-private-key-file={key}",
                    "--use-service-account-credentials=false",
                    f"--controllers={CONTROLLERS}",
                    "--kube-api-qps=2000",
                    "--kube-api-burst=2000",
                )
            )
        yield replace(plane, server_pid=server.pid)


def _kubeconfig(plane: ControlPlane) -> dict[str, object]:
    cluster = {"server": plane.url, "certificate-authority": str(plane.ca_file)}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "tests",
        "clusters": [{"name": "tests", "cluster": cluster}],
        "users": [{"name": "admin", "user": {"token": plane.token}}],
        "contexts": [{"name": "tests", "context": {"cluster": "tests", "user": "admin"}}],
    }


@contextlib.contextmanager
def _running(log: Path, program: Path, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    with log.open("wb") as output:
        # It dies with us even when we are killed: a test run that is cut off leaves nothing behind.
        process = subprocess.Popen(
            [str(program), *arguments],
            stdout=output,
            stderr=output,
            start_new_session=True,
            preexec_fn=syscalls.die_with_parent,
        )
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait_until_ready(plane: ControlPlane, server: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if server.poll() is not None:
            raise RuntimeError(f"kube-apiserver ended with {server.returncode}:\n{log.read_text()[-2000:]}")
        if plane.ca_file.exists():
            with contextlib.suppress(OSError, urllib.error.URLError):
                request = urllib.request.Request(
                    f"{plane.url}/readyz", headers={"Authorization": f"Bearer {plane.token}"}
                )
                tls = ssl.create_default_context(cafile=str(plane.ca_file))
                with urllib.request.urlopen(request, timeout=2, context=tls) as answer:
                    if answer.status == 200:
                        return
        time.sleep(0.1)
    raise RuntimeError(f"kube-apiserver was not ready after 60 s:\n{log.read_text()[-2000:]}")


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def _rsa_key() -> bytes:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )


def kubectl() -> Path:
    """The kubectl of `$KUBECTL`, the one built with the control plane, or the one on PATH.

    :raises ProgramsMissing: there is none.
    """
    if "KUBECTL" in os.environ:
        return Path(os.environ["KUBECTL"])
    try:
        return programs() / "kubectl"
    except ProgramsMissing:
        found = shutil.which("kubectl")
        if found:
            return Path(found)
        raise
