"""One Pod on this node: brings its containers to life, keeps them alive, and takes them down.

The decisions are `pod.decide`'s and the words are `status.of_pod`'s; here is what it takes to act on them. One task
per Pod; whatever happens (the object changes, a container ends, a probe changes its mind) wakes it up, and it looks
at everything again.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import structlog

from kuberay.engine.node import container as containers
from kuberay.engine.node import pod as pods
from kuberay.engine.node import probes, status
from kuberay.engine.node.environment import ConfigError
from kuberay.engine.node.errors import HelperGone, StartFailed
from kuberay.engine.node.events import NORMAL, WARNING
from kuberay.engine.node.logs import PodLogs
from kuberay.engine.node.pod import Container, Running, Terminated
from kuberay.engine.node.reporter import Reporter
from kuberay.engine.node.sandbox import PodSandbox, SandboxFailed
from kuberay.engine.node.volumes import VolumeError
from kuberay.kube.errors import Conflict, KubeError, NotFound

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from kuberay.engine.node.container import LiveContainer
    from kuberay.engine.node.context import NodeContext
    from kuberay.engine.node.pod import Object
    from kuberay.engine.node.probes import Probe

log = structlog.get_logger(__name__)

_RETRY_SECONDS = 2.0
# How long a starting container keeps others from starting: the first seconds of a Ray process are all processor time.
_SETTLE_SECONDS = 8.0
_DEFAULT_GRACE = 30.0
_START_ERROR = 128


class PodRunner:
    """Runs one Pod, from the moment it is bound to this node until its object is gone."""

    def __init__(self, node: NodeContext, pod: Object) -> None:
        self._node = node
        self.pod = pod
        self.histories: dict[str, Container] = status.restored(pod, node.now())
        self.sandbox = PodSandbox(node, pod)
        self.logs = PodLogs(self.sandbox.folder.logs)
        self._specs = pods.specs(pod)
        self._live: dict[str, LiveContainer] = {}
        self._starting: set[str] = set()
        self._blocked: dict[str, float] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._followers: set[asyncio.Task[None]] = set()
        self._wake = asyncio.Event()
        self._told = asyncio.Event()
        self._reporter = Reporter(node, pod)
        self._was_over = (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")
        self.is_gone = False
        self._log = log.bind(pod=self.sandbox.key)

    # What others tell it.

    def update(self, pod: Object) -> None:
        """The object has changed."""
        self.pod = pod
        self._wake.set()

    def gone(self) -> None:
        """The object is no more: nobody waits for its containers to finish."""
        self.is_gone = True
        self._wake.set()

    async def reported(self) -> None:
        """Wait until the API knows how the Pod really is: what an earlier engine wrote of it is no longer true."""
        await self._told.wait()

    async def run(self) -> None:
        """Run the Pod to its end."""
        try:
            while not self._is_leaving:
                self._wake.clear()
                again = await self._advance()
                if not await self._publish():
                    again = _RETRY_SECONDS
                self._told.set()
                await self._sleep(again)
            await self._leave()
        except HelperGone:
            return
        finally:
            self._told.set()
            await _cancel(self._tasks | self._followers)

    async def shut_down(self, seconds: float) -> None:
        """The engine stops: end the containers in good order, and leave the object as it is.

        :param seconds: the most that a container has to finish; the Pod's own grace period may be shorter.
        """
        await _cancel(self._tasks | self._followers)
        grace = min(seconds, self._grace())
        stops = [live.stop(self._node.helper, grace) for live in self._live.values()]
        with contextlib.suppress(HelperGone, TimeoutError):
            await asyncio.gather(*stops)
        for live in self._live.values():
            live.log.finish()

    # Bringing it forward.

    @property
    def _is_leaving(self) -> bool:
        return self.is_gone or bool(self.pod["metadata"].get("deletionTimestamp"))

    async def _advance(self) -> float | None:
        """Take the next steps; returns after how many seconds to look again."""
        if self._was_over:
            return None
        if pods.is_over(self.pod, self.histories):
            await self.sandbox.remove()
            return None
        now = self._node.now()
        plan = pods.decide(self.pod, self.histories, now)
        waits = [(plan.look_again_at - now).total_seconds()] if plan.look_again_at else []
        waiting = [start.container for start in plan.starts if start.container not in self._starting]
        due = [name for name in waiting if self._blocked_for(name) <= 0]
        if due and await self._has_sandbox(due):
            for name in due:
                self._starting.add(name)
                self._spawn(self._start(name), self._tasks)
        waits += [wait for name in waiting if (wait := self._blocked_for(name)) > 0]
        return min(waits, default=None)

    async def _has_sandbox(self, due: list[str]) -> bool:
        try:
            await self.sandbox.create()
        except SandboxFailed as problem:
            self._node.recorder.record(self.pod, WARNING, problem.reason, str(problem))
            for name in due:
                self._block(name, "ContainerCreating", str(problem))
            return False
        return True

    async def _start(self, name: str) -> None:
        """Start a container when its turn comes, and keep the turn until it has settled."""
        is_init = any(spec["name"] == name for spec in pods.init_specs(self.pod))
        async with contextlib.AsyncExitStack() as turn:
            if not is_init:  # an init container often waits for a Pod that has not had its turn
                await turn.enter_async_context(self._node.turns)
            try:
                live = await self._try_start(name)
            finally:
                self._starting.discard(name)
            self._wake.set()
            if live and not is_init:
                await self._settle(live)

    async def _try_start(self, name: str) -> LiveContainer | None:
        spec, image = self._specs[name], self._specs[name].get("image", "")
        problem = self._node.ray.problem(image)
        if problem:
            self._fail_config(name, "ErrImageNeverPull", problem)
            return None
        attempt = self.histories[name].next_attempt
        try:
            references = await self._node.references(self.pod)
            live = await containers.start(
                self._node.helper,
                self._node.ray,
                self.pod,
                spec,
                attempt,
                self.sandbox.surroundings(),
                references,
                self.logs.writer(name, attempt, self._node.now),
            )
        except (ConfigError, VolumeError) as found:
            self._fail_config(name, "CreateContainerConfigError", str(found))
            return None
        except KubeError as found:
            self._block(name, "ContainerCreating", str(found))
            return None
        except StartFailed as found:
            self._fail_start(name, str(found))
            return None
        self._live[name] = live
        started = self._node.now()
        self._node.recorder.record(self.pod, NORMAL, "Started", f"Started container {name}", container=name)
        self._spawn(self._follow(name, live), self._followers)
        # It counts as running when its hook has ended well: nobody is sent to a container that is about to be killed.
        if await self._run_post_start(name, live) and self._live.get(name) is live:
            self._change(name, lambda history: history.running(started))
            self._begin_probes(name, live)
        return live

    def _block(self, name: str, reason: str, message: str) -> None:
        """Something outside the container keeps it from starting; it is tried again in a while."""
        self._blocked[name] = asyncio.get_running_loop().time() + _RETRY_SECONDS
        self._change(name, lambda history: history.blocked(reason, message))

    def _blocked_for(self, name: str) -> float:
        return self._blocked.get(name, 0) - asyncio.get_running_loop().time()

    def _fail_config(self, name: str, reason: str, message: str) -> None:
        self._node.recorder.record(self.pod, WARNING, "Failed", f"Error: {message}", container=name)
        self._block(name, reason, message)

    def _fail_start(self, name: str, message: str) -> None:
        ended = Terminated(_START_ERROR, "StartError", self._node.now(), message=message)
        self._node.recorder.record(self.pod, WARNING, "Failed", f"Error: {message}", container=name)
        self._change(name, lambda history: history.ended(ended))

    async def _run_post_start(self, name: str, live: LiveContainer) -> bool:
        """Run the hook, if there is one; a container whose hook fails is ended, and its restart policy decides."""
        hook = (live.spec.get("lifecycle") or {}).get("postStart")
        if not hook:
            return True
        problem = await containers.run_hook(self._node.helper, live, hook, self._grace())
        if problem:
            self._node.recorder.record(self.pod, WARNING, "FailedPostStartHook", problem, container=name)
            await live.stop(self._node.helper, self._grace())
        return not problem

    async def _settle(self, live: LiveContainer) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_SETTLE_SECONDS):
                await live.settled.wait()

    # Watching over it.

    async def _follow(self, name: str, live: LiveContainer) -> None:
        """Wait for the end of a container and write it into its history."""
        ended = await live.process.wait()
        live.settled.set()
        await live.finish_log()
        if self._live.get(name) is live:
            del self._live[name]
        history = self.histories[name]
        started = history.state.started_at if isinstance(history.state, Running) else None
        reason = "Completed" if ended.status == 0 else "Error"
        how = Terminated(ended.status, reason, self._node.now(), started, signal=ended.signal)
        self._change(name, lambda current: current.ended(how))
        resting = self.histories[name].back_off
        if resting and not self._is_leaving:
            metadata = self.pod["metadata"]
            whose = f"{metadata['name']}_{metadata['namespace']}({metadata['uid']})"
            text = f"Back-off restarting failed container {name} in pod {whose}"
            self._node.recorder.record(self.pod, WARNING, "BackOff", text, container=name)

    def _begin_probes(self, name: str, live: LiveContainer) -> None:
        found = probes.of_container(live.spec)
        if probes.STARTUP not in found:
            self._pass_startup(name, live)
        for probe in found.values():
            if "grpc" in probe.handler:
                text = f"{probe.kind} probe by gRPC is not available here: only the connection is tried"
                self._node.recorder.record(self.pod, WARNING, "ProbeWarning", text, container=name)
            self._spawn(self._probe(name, live, probe), self._tasks)

    async def _probe(self, name: str, live: LiveContainer, probe: Probe) -> None:
        if probe.kind != probes.STARTUP:
            await live.startup_passed.wait()
        began = asyncio.get_running_loop().time()
        tally = probes.Tally()
        await asyncio.sleep(probes.first_look(probe))
        while self._live.get(name) is live:
            look = await probes.look(self._node.helper, live, probe)
            if self._live.get(name) is not live:
                return
            tally = probes.count(probe, tally, succeeded=look.succeeded)
            running_for = asyncio.get_running_loop().time() - began
            if not look.succeeded and probes.is_worth_mentioning(probe, running_for):
                text = f"{probe.kind} probe failed: {look.message}"
                self._node.recorder.record(self.pod, WARNING, "Unhealthy", text, container=name)
            if probe.kind == probes.READINESS:
                self._become_ready(name, tally.passing is True)
            elif tally.passing is False:
                await self._kill_unhealthy(name, live, probe)
                return
            elif probe.kind == probes.STARTUP and tally.passing:
                self._pass_startup(name, live)
                return
            await asyncio.sleep(probes.next_look(probe, tally))

    def _pass_startup(self, name: str, live: LiveContainer) -> None:
        ready = not live.spec.get("readinessProbe")
        self._change(name, lambda history: replace(history, started=True, ready=ready))
        live.startup_passed.set()

    def _become_ready(self, name: str, ready: bool) -> None:
        self._change(name, lambda history: replace(history, ready=ready))

    async def _kill_unhealthy(self, name: str, live: LiveContainer, probe: Probe) -> None:
        text = f"Container {name} failed {probe.kind.lower()} probe, will be restarted"
        self._node.recorder.record(self.pod, NORMAL, "Killing", text, container=name)
        self._become_ready(name, False)
        await live.stop(self._node.helper, float(probe.handler.get("terminationGracePeriodSeconds") or self._grace()))

    # Taking it down.

    async def _leave(self) -> None:
        """End the containers, free what the Pod had, and let its object go."""
        await _cancel(self._tasks)
        stops = [asyncio.ensure_future(self._stop(name, live)) for name, live in list(self._live.items())]
        while any(not stop.done() for stop in stops):
            if self.is_gone or self._grace() == 0:
                for live in list(self._live.values()):
                    live.hurry()
            self._wake.clear()
            waking = asyncio.ensure_future(self._wake.wait())
            await asyncio.wait([*stops, waking], return_when=asyncio.FIRST_COMPLETED)
            waking.cancel()
        for stop in stops:
            stop.result()
        await asyncio.gather(*self._followers, return_exceptions=True)
        await self.sandbox.remove()
        await self._let_go()
        await self.sandbox.delete_folder()

    async def _stop(self, name: str, live: LiveContainer) -> None:
        self._node.recorder.record(self.pod, NORMAL, "Killing", f"Stopping container {name}", container=name)
        problem = await live.stop(self._node.helper, 0 if self.is_gone else self._grace())
        if problem:
            self._node.recorder.record(self.pod, WARNING, "FailedPreStopHook", problem, container=name)

    async def _let_go(self) -> None:
        """Write how it ended, and remove the object; as often as it takes."""
        while not (await self._publish() and await self._delete()):
            await self._sleep(_RETRY_SECONDS)

    async def _delete(self) -> bool:
        if self.is_gone:
            return True
        try:
            await self._reporter.delete(self.pod)
        except (NotFound, Conflict):
            return True
        except KubeError as problem:
            self._log.warning("pod not removed yet", why=str(problem))
            return False
        return True

    def _grace(self) -> float:
        """The seconds a container has to finish."""
        leaving = self.pod["metadata"].get("deletionGracePeriodSeconds")
        if self.pod["metadata"].get("deletionTimestamp") and leaving is not None:
            return float(leaving)
        configured = self.pod["spec"].get("terminationGracePeriodSeconds")
        return _DEFAULT_GRACE if configured is None else float(configured)

    # Telling about it.

    async def _publish(self) -> bool:
        """Write the status if it says something new; whether it could be written."""
        if self._was_over or self.is_gone:
            return True
        try:
            await self._reporter.publish(self.pod, self.histories, self.sandbox.address, leaving=self._is_leaving)
        except (NotFound, Conflict):
            self.gone()
        except KubeError as problem:
            self._log.warning("status not written yet", why=str(problem))
            return False
        return True

    # Its own machinery.

    def _change(self, name: str, change: Callable[[Container], Container]) -> None:
        before = self.histories[name]
        self.histories[name] = after = change(before)
        if after == before:
            return
        if after.ready and name in self._live:
            self._live[name].settled.set()
        self._wake.set()

    def _spawn(self, work: Coroutine[Any, Any, None], owner: set[asyncio.Task[None]]) -> None:
        task = asyncio.create_task(work)
        owner.add(task)
        task.add_done_callback(owner.discard)
        task.add_done_callback(self._finished)

    def _finished(self, task: asyncio.Task[None]) -> None:
        problem = None if task.cancelled() else task.exception()
        if problem and not isinstance(problem, HelperGone):
            self._log.error("part of a pod failed", exc_info=problem)

    async def _sleep(self, seconds: float | None) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._wake.wait()


async def _cancel(tasks: set[asyncio.Task[None]]) -> None:
    cancelled = list(tasks)
    for task in cancelled:
        task.cancel()
    await asyncio.gather(*cancelled, return_exceptions=True)
