"""Runs a test on a clock that jumps: waiting for an hour takes no time, and always the same steps."""

from __future__ import annotations

import asyncio
import functools
import inspect
import selectors
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine


class _Jumping(selectors.SelectSelector):
    """Does not wait for a timeout: moves the loop's clock instead."""

    now = 0.0

    def select(self, timeout: float | None = None) -> list[Any]:
        ready = super().select(0)
        if not ready:
            if timeout is None:
                raise RuntimeError("everything waits and nothing will ever happen")
            self.now += timeout
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._jumping = _Jumping()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.now


def virtual_time(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Makes an ordinary test of an async one; within it, `asyncio.get_running_loop().time` is the clock."""

    @functools.wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        with asyncio.Runner(loop_factory=VirtualLoop) as runner:
            runner.run(test(*args, **kwargs))

    # Without this the mark of pytest-asyncio would still see an async function.
    del run.__wrapped__
    run.__signature__ = inspect.signature(test)  # type: ignore[attr-defined]
    return run


def clock() -> float:
    """The time of the running loop; hand it to whatever wants a clock."""
    return asyncio.get_running_loop().time()
