"""How the operator's log is written: one JSON object a line, or a line for people.

Field names are those of KubeRay's log (`level`, `ts`, `msg`), so that what collects it goes on working.
"""

from __future__ import annotations

import logging
import sys
from enum import StrEnum
from typing import TYPE_CHECKING, Any, TextIO

import orjson
import structlog

if TYPE_CHECKING:
    from structlog.typing import Processor


class LogFormat(StrEnum):
    """Who reads the log."""

    JSON = "json"
    CONSOLE = "console"


def configure(format: LogFormat = LogFormat.JSON, *, level: int = logging.INFO, stream: TextIO | None = None) -> None:
    """Set up the log of this process. Libraries that use the standard `logging` are quiet below warnings."""
    stream = stream if stream is not None else sys.stdout
    processors: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="ts"),
        structlog.processors.format_exc_info,
    ]
    if format is LogFormat.JSON:
        processors += [structlog.processors.EventRenamer("msg"), _json]
    else:
        processors += [structlog.dev.ConsoleRenderer(colors=stream.isatty(), timestamp_key="ts")]
    structlog.configure(
        processors=processors,
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(stream),
        cache_logger_on_first_use=True,
    )
    logging.basicConfig(level=max(level, logging.WARNING), stream=stream, format="%(message)s", force=True)


def _json(_: Any, __: str, event: Any) -> str:
    return orjson.dumps(event, default=str, option=orjson.OPT_NON_STR_KEYS).decode()
