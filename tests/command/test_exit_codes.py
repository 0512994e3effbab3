"""How a program that failed says so."""

from __future__ import annotations

import contextlib
import os

import pytest

from kscheduler.command.exit_codes import MOST, report
from kscheduler.errors import ConfigError, KSchedulerError


@pytest.mark.parametrize(("error", "code"), [(ConfigError("a\n  b"), 2), (KSchedulerError("a b"), 1)])
def test_a_fault_is_one_line_and_an_exit_code(error: Exception, code: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert report(error) == code
    assert capsys.readouterr().err == "kscheduler: error: a b\n"


def test_an_error_without_a_text_is_named_by_its_kind(capsys: pytest.CaptureFixture[str]) -> None:
    assert report(TimeoutError()) == 1
    assert capsys.readouterr().err == "kscheduler: error: TimeoutError\n"


def test_what_a_terminal_would_obey_is_shown_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    report(ConfigError("guest printed \x1b]0;title\x07\x1b[2K\u202e and ä"))
    assert capsys.readouterr().err == (
        "kscheduler: error: guest printed \\u001b]0;title\\u0007\\u001b[2K\\u202e and ä\n"
    )


def test_an_error_that_nobody_could_read_is_cut(capsys: pytest.CaptureFixture[str]) -> None:
    report(ConfigError("x" * 100_000))
    assert capsys.readouterr().err == f"kscheduler: error: {'x' * MOST}... (100,000 characters)\n"


def test_a_pipe_that_nobody_reads_does_not_hold_up_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(writing, b"x" * 4096)
    os.set_blocking(writing, True)
    with open(writing, "w") as full:
        monkeypatch.setattr("sys.stderr", full)
        assert report(KSchedulerError("the lease is lost"), longest_wait_s=0.01) == 1
        monkeypatch.undo()
    os.close(reading)


def test_a_pipe_that_is_read_gets_the_line(monkeypatch: pytest.MonkeyPatch) -> None:
    reading, writing = os.pipe()
    with open(writing, "w") as stream:
        monkeypatch.setattr("sys.stderr", stream)
        report(KSchedulerError("the lease is lost"), longest_wait_s=0.01)
        monkeypatch.undo()
    with open(reading, "rb") as read:
        assert read.read() == b"kscheduler: error: the lease is lost\n"


def test_a_pipe_that_nobody_holds_any_more_is_no_further_error(monkeypatch: pytest.MonkeyPatch) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with open(writing, "w") as stream:
        monkeypatch.setattr("sys.stderr", stream)
        assert report(ConfigError("a"), longest_wait_s=0.01) == 2
        monkeypatch.undo()
