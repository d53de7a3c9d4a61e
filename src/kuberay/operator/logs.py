"""How the operator's log is written: one JSON object a line, or a line for people; to standard output and to a file.

Field names are those of KubeRay's log (`level`, `ts`, `logger`, `msg`, `reconcileID`, `namespace`, `name`, the kind,
`stacktrace`), and so are the levels, so that what collects it goes on working. What libraries log through `logging`
comes out the same way.
"""

from __future__ import annotations

import logging
import sys
import time
from contextlib import suppress
from enum import StrEnum
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TextIO

import orjson
import structlog

if TYPE_CHECKING:
    from collections.abc import Callable, MutableMapping

    from structlog.typing import Processor

_LARGEST = 500 * 2**20
_FILES = 10
_OLDEST = 30 * 86400.0
_KINDS = {"raycluster": "RayCluster", "networkpolicy": "RayCluster"}
"""Which kind a controller works on; its objects are logged under that name."""
_LEVELS = {"warning": "warn", "critical": "error"}
"""Levels that KubeRay's log has another name for."""


class LogFormat(StrEnum):
    """Who reads the log."""

    JSON = "json"
    CONSOLE = "console"


class Sink(Protocol):
    """Somewhere that lines go."""

    def write(self, line: str, /) -> object: ...

    def flush(self) -> object: ...


def configure(
    format: LogFormat = LogFormat.JSON,
    *,
    level: int = logging.INFO,
    stream: TextIO | None = None,
    file: str = "",
    file_format: LogFormat = LogFormat.JSON,
) -> Callable[[], None]:
    """Set up the log of this process; returns what closes the file, for when nothing will be logged any more.

    :param file: a file to log into as well, from level info on.
    :raises OSError: the file cannot be written.
    """
    stream = stream if stream is not None else sys.stdout
    outputs = [_Output(stream, _renderer(format, colors=stream.isatty()), level)]
    rotated = RotatedFile(file) if file else None
    if rotated is not None:
        outputs.append(_Output(rotated, _renderer(file_format, colors=False), logging.INFO))
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True, key="ts"),
            structlog.processors.format_exc_info,
            _in_kuberays_words,
            _whole,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(min(level, logging.INFO) if file else level),
        logger_factory=lambda *names: _Logger(names[0] if names else "", outputs),
        cache_logger_on_first_use=True,
    )
    logging.basicConfig(level=max(level, logging.WARNING), handlers=[_FromLibraries()], force=True)
    return rotated.close if rotated is not None else lambda: None


class RotatedFile(RotatingFileHandler):
    """A file that is put aside when it grows too large; a few old ones are kept, and not for ever.

    A line that cannot be written, because the disk is full say, is lost and told of on standard error.
    """

    def __init__(
        self, path: str, *, largest: int = _LARGEST, files: int = _FILES, clock: Callable[[], float] = time.time
    ) -> None:
        self._clock = clock
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        super().__init__(path, maxBytes=largest, backupCount=files, encoding="utf-8")
        self.terminator = ""
        self._forget()

    def write(self, line: str) -> None:
        """Add a line; one thread after the other, since it may be time for another file."""
        self.handle(logging.LogRecord("", logging.INFO, "", 0, line, None, None))

    def doRollover(self) -> None:
        super().doRollover()
        self._forget()

    def _forget(self) -> None:
        """Remove old files that are too old: those that were put aside here, and no others that are called alike."""
        for number in range(1, self.backupCount + 1):
            old = Path(f"{self.baseFilename}.{number}")
            if old.is_file() and self._clock() - old.stat().st_mtime > _OLDEST:
                old.unlink()


class _Output:
    """One of the places that events go. What it cannot take is lost: no work ends because nobody can read of it."""

    def __init__(self, sink: Sink, render: Processor, level: int) -> None:
        self._sink = sink
        self._render = render
        self._level = level

    def write(self, level: int, event: MutableMapping[str, Any]) -> None:
        if level >= self._level:
            try:
                self._sink.write(f"{self._render(None, '', dict(event))!s}\n")
                self._sink.flush()
            except (OSError, ValueError) as error:
                with suppress(OSError, ValueError):
                    sys.stderr.write(f"a line of the log is lost: {error}\n")


class _Logger:
    """What structlog hands finished events to."""

    def __init__(self, name: str, outputs: list[_Output]) -> None:
        self.name = name
        self._outputs = outputs

    def _at(self, level: int, event: MutableMapping[str, Any]) -> None:
        for output in self._outputs:
            output.write(level, event)

    def debug(self, event: MutableMapping[str, Any]) -> None:
        self._at(logging.DEBUG, event)

    def info(self, event: MutableMapping[str, Any]) -> None:
        self._at(logging.INFO, event)

    def warning(self, event: MutableMapping[str, Any]) -> None:
        self._at(logging.WARNING, event)

    def error(self, event: MutableMapping[str, Any]) -> None:
        self._at(logging.ERROR, event)

    critical = exception = error


class _FromLibraries(logging.Handler):
    """Passes on what is logged in the standard way."""

    def emit(self, record: logging.LogRecord) -> None:
        log = structlog.get_logger(record.name)
        log.log(record.levelno, record.getMessage(), exc_info=record.exc_info)


def _in_kuberays_words(logger: Any, _: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Name the object and the attempt as controller-runtime does."""
    if logger.name:
        event["logger"] = logger.name
    key = event.pop("object", None)
    if isinstance(key, str):
        namespace, _, name = key.rpartition("/")
        if "name" in event:
            event["target"] = event["name"]  # of what is made or removed; `name` is whom it is for
        event["namespace"], event["name"] = namespace, name
        kind = _KINDS.get(event.get("controller", ""))
        if kind is not None:
            event[kind] = {"name": name, "namespace": namespace}
    if (attempt := event.pop("reconcile_id", None)) is not None:
        event["reconcileID"] = attempt
    return event


def _whole(_: Any, __: str, event: MutableMapping[str, Any]) -> tuple[tuple[MutableMapping[str, Any]], dict[str, Any]]:
    """Hand over the event as it is: each output renders it in its own way."""
    return (event,), {}


def _renderer(format: LogFormat, *, colors: bool) -> Processor:
    if format is LogFormat.CONSOLE:
        return structlog.dev.ConsoleRenderer(colors=colors, timestamp_key="ts")
    return _json


def _json(_: Any, __: str, event: Any) -> str:
    level = event.pop("level", "")
    event = {"level": _LEVELS.get(level, level), "ts": event.pop("ts", ""), "msg": event.pop("event", ""), **event}
    if "exception" in event:
        event["stacktrace"] = event.pop("exception")
    return orjson.dumps(event, default=str, option=orjson.OPT_NON_STR_KEYS).decode()
