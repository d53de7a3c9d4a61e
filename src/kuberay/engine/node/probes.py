"""Probes: when to look, what a look says, and what a row of looks means.

One rule differs from a kubelet's: until a container is ready for the first time, readiness is looked at every
second from its start, whatever `initialDelaySeconds` and `periodSeconds` say. On one machine nobody is served by
waiting: a Pod is ready when it is ready. Failures before `initialDelaySeconds` are not even mentioned.
"""

from __future__ import annotations

import asyncio
import ssl
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

from kuberay.engine.node import commands

if TYPE_CHECKING:
    import socket
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from kuberay.engine.node.remote import Command, Helper, Process

LIVENESS, READINESS, STARTUP = "Liveness", "Readiness", "Startup"
_EAGER_SECONDS = 1.0
_MOST_HEADER = 64 << 10


@dataclass(frozen=True, slots=True)
class Probe:
    """A probe as its container's spec gives it, with Kubernetes' defaults."""

    kind: str
    handler: Mapping[str, Any]
    initial_delay: float = 0
    period: float = 10
    timeout: float = 1
    success_threshold: int = 1
    failure_threshold: int = 3

    @classmethod
    def from_spec(cls, kind: str, spec: Mapping[str, Any]) -> Probe:
        return cls(
            kind=kind,
            handler=spec,
            initial_delay=spec.get("initialDelaySeconds") or 0,
            period=spec.get("periodSeconds") or 10,
            timeout=spec.get("timeoutSeconds") or 1,
            success_threshold=spec.get("successThreshold") or 1,
            failure_threshold=spec.get("failureThreshold") or 3,
        )


def of_container(container: Mapping[str, Any]) -> dict[str, Probe]:
    """A container's probes by kind."""
    fields = {STARTUP: "startupProbe", LIVENESS: "livenessProbe", READINESS: "readinessProbe"}
    return {kind: Probe.from_spec(kind, container[name]) for kind, name in fields.items() if container.get(name)}


@dataclass(frozen=True, slots=True)
class Tally:
    """What a row of looks has come to. `passing` is `None` until a threshold was reached."""

    passing: bool | None = None
    successes: int = 0
    failures: int = 0


def count(probe: Probe, tally: Tally, *, succeeded: bool) -> Tally:
    """Take one more look into account."""
    if succeeded:
        tally = replace(tally, successes=tally.successes + 1, failures=0)
        return replace(tally, passing=True) if tally.successes >= probe.success_threshold else tally
    tally = replace(tally, successes=0, failures=tally.failures + 1)
    return replace(tally, passing=False) if tally.failures >= probe.failure_threshold else tally


def first_look(probe: Probe) -> float:
    """Seconds from the moment the probe may begin to its first look."""
    return 0 if probe.kind == READINESS else probe.initial_delay


def next_look(probe: Probe, tally: Tally) -> float:
    """Seconds to the next look."""
    return probe.period if probe.kind != READINESS or tally.passing else min(_EAGER_SECONDS, probe.period)


def is_worth_mentioning(probe: Probe, running_for: float) -> bool:
    """Whether a failure is news: before the initial delay has passed everybody expects it."""
    return running_for >= probe.initial_delay


@dataclass(frozen=True, slots=True)
class Look:
    """The answer of one look."""

    succeeded: bool
    message: str = ""


class Target(Protocol):
    """The container that is looked at."""

    process: Process
    spec: Mapping[str, Any]
    pod_ip: str

    def beside(self, argv: Sequence[str]) -> Command: ...


async def look(helper: Helper, target: Target, probe: Probe) -> Look:
    """Look once; whatever goes wrong is an answer, too."""
    handler = probe.handler
    try:
        if "exec" in handler:
            return await _look_by_command(helper, target, probe)
        async with asyncio.timeout(probe.timeout):
            if "httpGet" in handler:
                return await _look_by_http(helper.connect, target, handler["httpGet"])
            port = (handler.get("tcpSocket") or handler.get("grpc") or {}).get("port")
            address = (handler.get("tcpSocket") or {}).get("host") or target.pod_ip
            (await helper.connect(address, port_number(target.spec, port))).close()
            return Look(True)
    except TimeoutError:
        return Look(False, f"no answer in time (timeoutSeconds is {probe.timeout:g})")
    except (OSError, ValueError) as problem:
        return Look(False, str(problem))


def port_number(container: Mapping[str, Any], port: int | str | None) -> int:
    """A port by number or by the name the container gives it."""
    if isinstance(port, int):
        return port
    if port and port.isdigit():
        return int(port)
    for declared in container.get("ports") or ():
        if declared.get("name") == port:
            return int(declared["containerPort"])
    raise ValueError(f"couldn't find port: {port!r}")


async def _look_by_command(helper: Helper, target: Target, probe: Probe) -> Look:
    command = target.beside(probe.handler["exec"].get("command") or [])
    ended, output = await commands.run(helper, target.process, command, timeout=probe.timeout)
    return Look(ended is not None and ended.status == 0, output)


async def _look_by_http(
    connect: Callable[[str, int], Awaitable[socket.socket]], target: Target, request: Mapping[str, Any]
) -> Look:
    port = port_number(target.spec, request.get("port"))
    path = "/" + (request.get("path") or "").removeprefix("/")
    headers = {
        "Host": f"{target.pod_ip}:{port}",
        "User-Agent": "kube-probe/1.32",
        "Accept": "*/*",
        "Connection": "close",
    }
    headers |= {header["name"]: header["value"] for header in request.get("httpHeaders") or ()}
    sock = await connect(request.get("host") or target.pod_ip, port)
    secure = request.get("scheme") == "HTTPS"
    reader, writer = await asyncio.open_connection(
        sock=sock, limit=_MOST_HEADER, ssl=_unverified() if secure else None, server_hostname="" if secure else None
    )
    try:
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        writer.write(f"GET {path} HTTP/1.1\r\n{lines}\r\n".encode())
        answer = (await reader.readline()).split()
    finally:
        writer.close()
    if len(answer) < 2 or not answer[1].isdigit():
        return Look(False, "the answer is not HTTP")
    code = int(answer[1])
    return Look(200 <= code < 400, f"HTTP probe failed with statuscode: {code}")


def _unverified() -> ssl.SSLContext:
    """A probe asks whether the server answers, not who it is; a kubelet does not verify either."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context
