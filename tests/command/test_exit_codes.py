"""How a program that failed says so."""

from __future__ import annotations

import pytest

from kscheduler.command.exit_codes import report
from kscheduler.errors import ConfigError, KSchedulerError


@pytest.mark.parametrize(("error", "code"), [(ConfigError("a\n  b"), 2), (KSchedulerError("a b"), 1)])
def test_a_fault_is_one_line_and_an_exit_code(error: Exception, code: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert report(error) == code
    assert capsys.readouterr().err == "kscheduler: error: a b\n"
