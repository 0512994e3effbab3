"""How a program that failed says so."""

from __future__ import annotations

import pytest

from kscheduler.command.exit_codes import MOST, report
from kscheduler.errors import ConfigError, KSchedulerError


@pytest.mark.parametrize(("error", "code"), [(ConfigError("a\n  b"), 2), (KSchedulerError("a b"), 1)])
def test_a_fault_is_one_line_and_an_exit_code(error: Exception, code: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert report(error) == code
    assert capsys.readouterr().err == "kscheduler: error: a b\n"


def test_a_terminal_obeys_nothing_that_an_error_quotes(capsys: pytest.CaptureFixture[str]) -> None:
    report(ConfigError("\x1b[31mred\x00\x9b\u202egnp.exe: Zürich"))
    assert capsys.readouterr().err == "kscheduler: error: \\x1b[31mred\\x00\\x9b\\u202egnp.exe: Zürich\n"


def test_an_error_that_nobody_could_read_is_cut(capsys: pytest.CaptureFixture[str]) -> None:
    report(ConfigError("x" * 100_000))
    assert capsys.readouterr().err == f"kscheduler: error: {'x' * MOST}... (100,000 characters)\n"
