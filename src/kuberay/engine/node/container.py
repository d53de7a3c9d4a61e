"""One attempt of one container: how it is started, looked after and stopped."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kuberay.build.start_command import is_gpu
from kuberay.engine.node import commands, environment, machine, probes, volumes
from kuberay.engine.node.remote import Command

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kuberay.engine.node.environment import Facts, References
    from kuberay.engine.node.images import RayEnvironment
    from kuberay.engine.node.logs import LogWriter
    from kuberay.engine.node.pod import Object
    from kuberay.engine.node.remote import Helper, Process
    from kuberay.engine.node.volumes import PodFolder, Volume

# A killed process is gone at once; its pipe may be held a moment longer.
_LOG_SECONDS = 2.0
_KILL_SECONDS = 10.0
# For a container that asks for no GPU on a machine that has some, as if a device plugin had given it none.
_NO_GPU = {"CUDA_VISIBLE_DEVICES": "", "NVIDIA_VISIBLE_DEVICES": "void"}


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a Pod gives each of its containers."""

    sandbox: str
    hostname: str
    folder: PodFolder
    volumes: dict[str, Volume]
    files: dict[str, Path]
    """Files of the Pod, by the path a container sees them at."""
    facts: Facts


@dataclass(slots=True)
class LiveContainer:
    """A container that was started; it may have ended already. Implements `probes.Target`."""

    spec: Mapping[str, Any]
    process: Process
    command: Command
    pod_ip: str
    log: LogWriter
    startup_passed: asyncio.Event = field(default_factory=asyncio.Event)
    settled: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when it is ready or has ended."""
    _hurry: asyncio.Event = field(default_factory=asyncio.Event)

    def beside(self, argv: Sequence[str]) -> Command:
        """A command that runs beside the container's own: the same environment, the same folder."""
        return replace(self.command, argv=argv)

    async def stop(self, helper: Helper, grace: float) -> str:
        """End it as Kubernetes promises: hook, SIGTERM, time to finish, SIGKILL. Returns what went wrong on the way.

        The time the hook takes counts; a grace of zero leaves out everything but the last.
        """
        problem = ""
        ended = asyncio.ensure_future(self.process.wait())
        hurry = asyncio.ensure_future(self._hurry.wait())
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(grace):
                    hook = (self.spec.get("lifecycle") or {}).get("preStop")
                    if hook and grace > 0:
                        problem = await run_hook(helper, self, hook, grace)
                    await self.process.send_signal(signal.SIGTERM)
                    await asyncio.wait([ended, hurry], return_when=asyncio.FIRST_COMPLETED)
            await self.process.kill()
            await asyncio.wait([ended], timeout=_KILL_SECONDS)
        finally:
            hurry.cancel()
            ended.cancel()
        return problem

    def hurry(self) -> None:
        """Cut a stop under way short."""
        self._hurry.set()

    async def finish_log(self) -> None:
        """Have everything it printed on disk."""
        await self.log.wait_done(_LOG_SECONDS)


async def run_hook(helper: Helper, live: LiveContainer, hook: Mapping[str, Any], timeout: float) -> str:
    """Run a lifecycle hook; returns what went wrong, or nothing."""
    if "sleep" in hook:
        await asyncio.sleep(hook["sleep"].get("seconds") or 0)
        return ""
    if "exec" in hook:
        command = live.beside(hook["exec"].get("command") or [])
        ended, output = await commands.run(helper, live.process, command, timeout=timeout)
        if ended is not None and ended.status == 0:
            return ""
        return output or f"exited with {ended.status if ended else 'nothing'}"
    found = await probes.look(helper, live, probes.Probe("Hook", hook, timeout=timeout))
    return "" if found.succeeded else found.message


async def start(
    helper: Helper,
    ray: RayEnvironment,
    pod: Object,
    spec: Object,
    attempt: int,
    around: Surroundings,
    references: References,
    log: LogWriter,
) -> LiveContainer:
    """Start a container's command. The log is closed again when that fails.

    :raises ConfigError: something it refers to is missing.
    :raises VolumeError: it mounts what the Pod does not have.
    :raises StartFailed: the kernel refused.
    """
    try:
        hidden = [] if _asks_for_gpu(spec) else machine.nvidia_devices()
        command = command_of(ray, pod, spec, around, references)
        if hidden:
            command = replace(command, env={**command.env, **_NO_GPU})
        scratch, stage = await asyncio.to_thread(volumes.make_container_folders, around.folder, spec["name"], attempt)
        own = {**around.files, "/tmp": scratch, "/dev/shm": around.folder.shared_memory}
        own |= {str(path): path for path in ray.needed_below(Path("/tmp"))}
        own |= {str(device): Path(os.devnull) for device in hidden}
        mounts = volumes.mounts(spec, around.volumes, own, command.env)
        null = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        try:
            process = await helper.start_container(
                around.sandbox, command, stage=str(stage), mounts=mounts, stdio=(null, log.pipe, log.pipe)
            )
        finally:
            os.close(null)
    except BaseException:
        log.finish()
        raise
    log.close_pipe()
    return LiveContainer(spec, process, command, around.facts.pod_ip, log)


def _asks_for_gpu(spec: Object) -> bool:
    resources = spec.get("resources") or {}
    return any(is_gpu(name) for kind in ("limits", "requests") for name in resources.get(kind) or ())


def command_of(ray: RayEnvironment, pod: Object, spec: Object, around: Surroundings, references: References) -> Command:
    """The command line, environment and folder of a container."""
    given = environment.variables(pod, spec, around.facts, references)
    env = {**ray.base_variables(around.hostname), **given}
    env["PATH"] = ray.search_path(given.get("PATH"))
    return Command(environment.command_line(spec, env), env, spec.get("workingDir") or "/")
