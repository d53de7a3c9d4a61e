"""The log: KubeRay's field names, two outputs, a file that does not grow for ever."""

from __future__ import annotations

import io
import json
import logging
import os
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
import structlog

from kuberay.operator.logs import LogFormat, RotatedFile, configure

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    handlers, level = list(logging.root.handlers), logging.root.level
    yield
    structlog.reset_defaults()
    logging.root.handlers[:] = handlers
    logging.root.setLevel(level)


def lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


class TestFields:
    def test_a_line_is_an_object_with_kuberays_field_names(self) -> None:
        stream = io.StringIO()
        configure(LogFormat.JSON, stream=stream)
        structlog.get_logger("kuberay").info("created", what="head Pod", why="the cluster has no head Pod")
        [line] = lines(stream)
        assert list(line)[:3] == ["level", "ts", "msg"]
        assert line.pop("ts").endswith("Z")
        assert line == {
            "level": "info",
            "logger": "kuberay",
            "msg": "created",
            "what": "head Pod",
            "why": "the cluster has no head Pod",
        }

    @pytest.mark.parametrize("controller", ["raycluster", "networkpolicy"])
    def test_the_object_of_a_reconcile_is_named_as_controller_runtime_names_it(self, controller: str) -> None:
        stream = io.StringIO()
        configure(stream=stream)
        with structlog.contextvars.bound_contextvars(controller=controller, object="ns/rc", reconcile_id="r-1"):
            structlog.get_logger("k").info("created", name="rc-head")
        [line] = lines(stream)
        assert line["RayCluster"] == {"name": "rc", "namespace": "ns"}
        assert (line["namespace"], line["name"], line["target"]) == ("ns", "rc", "rc-head")
        assert (line["controller"], line["reconcileID"]) == (controller, "r-1")
        assert "object" not in line

    def test_a_failure_brings_its_trace(self) -> None:
        stream = io.StringIO()
        configure(LogFormat.JSON, stream=stream)
        try:
            raise ValueError("no")
        except ValueError:
            structlog.get_logger("kuberay").exception("failed")
        assert "ValueError: no" in lines(stream)[0]["stacktrace"]

    @pytest.mark.parametrize(
        ("level", "expected"), [(logging.WARNING, "warn"), (logging.ERROR, "error"), (logging.CRITICAL, "error")]
    )
    def test_levels_are_called_as_in_kuberays_log(self, level: int, expected: str) -> None:
        stream = io.StringIO()
        configure(stream=stream)
        structlog.get_logger("k").log(level, "careful")
        assert [line["level"] for line in lines(stream)] == [expected]

    def test_a_line_for_people(self) -> None:
        stream = io.StringIO()
        configure(LogFormat.CONSOLE, stream=stream)
        structlog.get_logger("kuberay").info("created", what="head Pod")
        assert "created" in stream.getvalue()
        assert "head Pod" in stream.getvalue()

    def test_what_libraries_log_comes_out_the_same_way(self) -> None:
        stream = io.StringIO()
        configure(stream=stream)
        logging.getLogger("aiohttp.server").error("Error handling %s", "request")
        [line] = lines(stream)
        assert (line["logger"], line["level"], line["msg"]) == ("aiohttp.server", "error", "Error handling request")

    @pytest.mark.parametrize(("level", "expected"), [(logging.DEBUG, ["debug", "info"]), (logging.INFO, ["info"])])
    def test_details_are_logged_when_asked_for(self, level: int, expected: list[str]) -> None:
        stream = io.StringIO()
        configure(level=level, stream=stream)
        log = structlog.get_logger("k")
        log.debug("a")
        log.info("b")
        assert [line["level"] for line in lines(stream)] == expected


class TestFile:
    def test_it_gets_the_same_lines_in_its_own_writing(self, tmp_path: Path) -> None:
        stream, file = io.StringIO(), tmp_path / "logs" / "operator.log"
        close = configure(
            LogFormat.CONSOLE, stream=stream, level=logging.DEBUG, file=str(file), file_format=LogFormat.JSON
        )
        structlog.get_logger("k").debug("a detail")
        structlog.get_logger("k").info("created")
        close()
        assert "a detail" in stream.getvalue()
        assert [json.loads(line)["msg"] for line in file.read_text().splitlines()] == ["created"]

    def test_it_tells_more_than_a_terminal_that_shows_only_errors(self, tmp_path: Path) -> None:
        stream, file = io.StringIO(), tmp_path / "log"
        close = configure(stream=stream, level=logging.ERROR, file=str(file))
        structlog.get_logger("k").info("created")
        close()
        assert stream.getvalue() == ""
        assert "created" in file.read_text()

    def test_several_threads_lose_nothing_when_it_is_put_aside(self, tmp_path: Path) -> None:
        file = RotatedFile(str(tmp_path / "log"), largest=400, files=2000)
        with ThreadPoolExecutor(4) as threads:
            list(threads.map(file.write, (f"line {number:04}\n" for number in range(2000))))
        file.close()
        kept = [line for each in tmp_path.iterdir() for line in each.read_text().splitlines()]
        assert sorted(kept) == [f"line {number:04}" for number in range(2000)]

    def test_it_is_put_aside_before_it_grows_too_large_and_few_old_ones_are_kept(self, tmp_path: Path) -> None:
        file = RotatedFile(str(tmp_path / "log"), largest=20, files=2)
        for number in range(8):
            file.write(f"line {number}...\n")
        file.close()
        assert sorted(each.name for each in tmp_path.iterdir()) == ["log", "log.1", "log.2"]
        assert (tmp_path / "log").read_text() == "line 7...\n"
        assert (tmp_path / "log.1").read_text() == "line 6...\n"

    def test_old_ones_go_after_a_month(self, tmp_path: Path) -> None:
        old = tmp_path / "log.1"
        old.write_text("old\n")
        os.utime(old, (1000.0, 1000.0))
        month = 30 * 86400.0
        RotatedFile(str(tmp_path / "log"), clock=lambda: 1000.0 + month).close()
        assert old.exists()
        RotatedFile(str(tmp_path / "log"), clock=lambda: 1001.0 + month).close()
        assert not old.exists()

    @pytest.mark.parametrize("name", ["log.yaml", "log.1.bak", "log.11", "log.old"])
    def test_what_somebody_else_calls_alike_stays(self, name: str, tmp_path: Path) -> None:
        theirs = tmp_path / name
        theirs.write_text("precious\n")
        os.utime(theirs, (1000.0, 1000.0))
        RotatedFile(str(tmp_path / "log")).close()
        assert theirs.exists()

    def test_a_file_that_cannot_be_written_is_an_error_at_the_start(self, tmp_path: Path) -> None:
        with pytest.raises(OSError, match="Is a directory"):
            configure(stream=io.StringIO(), file=str(tmp_path))


class Broken(io.StringIO):
    """What standard output is when whoever read it has gone."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self._error = error

    def write(self, text: str) -> int:
        raise self._error


class TestOutputThatBreaks:
    @pytest.mark.parametrize("error", [BrokenPipeError("Broken pipe"), ValueError("I/O operation on closed file.")])
    def test_its_lines_are_lost_and_nothing_else(
        self, error: Exception, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        close = configure(stream=Broken(error), file=str(tmp_path / "log"))
        structlog.get_logger("k").info("created")
        close()
        assert json.loads((tmp_path / "log").read_text())["msg"] == "created"
        assert capsys.readouterr().err == f"a line of the log is lost: {error}\n"
