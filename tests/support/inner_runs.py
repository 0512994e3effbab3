"""Shows at the end of a run of pytest what a test that passed reports about a run of pytest within it.

A test reports it by `show_at_end`. It travels with the test's report, so from the processes of pytest-xdist, too.
"""

from __future__ import annotations

import re

import pytest

_PROPERTY = "report of an inner run"
# pytest-rerunfailures' section: each test that was run twice, with its first failure.
_TWICE = re.compile(r"^=+ rerun test summary info =+\n(.*?)(?=^=+ .* =+$|\Z)", re.MULTILINE | re.DOTALL)


def ran_twice(output: str) -> str:
    """Return what the output of a run of pytest says of the tests that it ran twice; "" if there were none."""
    found = _TWICE.search(output)
    return found[1].rstrip() if found else ""


def show_at_end(request: pytest.FixtureRequest, text: str) -> None:
    """Have the end of the outer run show this text below the test's name."""
    request.node.user_properties.append((_PROPERTY, text))


class InnerRuns:
    """Hooks of pytest, to be registered as a plugin."""

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        reports = (report for reports in terminalreporter.stats.values() for report in reports)
        shown = {
            (report.nodeid, str(text))
            for report in reports
            if isinstance(report, pytest.TestReport)
            for name, text in report.user_properties
            if name == _PROPERTY
        }
        for name, text in sorted(shown):
            terminalreporter.section(f"ran twice within {name}")
            terminalreporter.write_line(text)
