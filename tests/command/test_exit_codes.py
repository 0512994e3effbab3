"""How a program that failed says so."""

from __future__ import annotations

import pytest

from kscheduler.command.exit_codes import MOST, report
from kscheduler.errors import ConfigError, KSchedulerError


@pytest.mark.parametrize(("error", "code"), [(ConfigError("a\n  b"), 2), (KSchedulerError("a b"), 1)])
def test_a_fault_is_one_line_and_an_exit_code(error: Exception, code: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert report(error) == code
    assert capsys.readouterr().err == "kscheduler: error: a b\n"


def test_what_a_terminal_would_obey_is_shown_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    report(ConfigError("guest printed \x1b]0;title\x07\x1b[2K\u202e and ä"))
    assert capsys.readouterr().err == (
        "kscheduler: error: guest printed \\u001b]0;title\\u0007\\u001b[2K\\u202e and ä\n"
    )


def test_an_error_that_nobody_could_read_is_cut(capsys: pytest.CaptureFixture[str]) -> None:
    report(ConfigError("x" * 100_000))
    assert capsys.readouterr().err == f"kscheduler: error: {'x' * MOST}... (100,000 characters)\n"
