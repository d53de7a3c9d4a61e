"""Keeping the process small and its garbage collector idle.

What an operator holds are caches, which the collector need not look at, and what it needs beside them comes and goes
with each request. The C library keeps freed memory between pieces that stay; asked for, it gives whole pages back.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_EVERY = 5.0
_WORTH_IT = 0.2
"""Seconds of CPU: who has worked less than that has nothing to give back."""


def spare_the_collector() -> None:
    """Let the collector forget what will stay for ever, and look at the rest less often."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 50)


async def keep_small(
    give_back: Callable[[], object] | None = None, *, worked: Callable[[], float] = time.process_time
) -> None:
    """Give freed memory back to the system now and then, when there was work; until cancelled.

    :param give_back: by default what the C library offers, if it does.
    :param worked: seconds of CPU that the process has used.
    """
    give_back = give_back or _trim()
    before = 0.0
    while give_back is not None:
        now = worked()
        if now - before >= _WORTH_IT:
            give_back()
            before = worked()
        await asyncio.sleep(_EVERY)


def _trim() -> Callable[[], object] | None:
    """Of glibc; other libraries have no such thing, or need none."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    return None if trim is None else lambda: trim(0)
