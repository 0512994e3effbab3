"""A plugin of pytest that says when each file of tests begins and how long it took, instead of a dot for each test.

    python -m pytest -p tests.support.progress

For runs that take long and find seldom something: a reader sees what runs, and what the time went to.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable

import pytest


class Progress:
    """Hooks of pytest; in runs with pytest-xdist they are called in the process that hands out the tests."""

    def __init__(self, terminal: pytest.TerminalReporter) -> None:
        self._terminal = terminal
        self._left: Counter[str] = Counter()  # file -> tests that have not ended
        self._total: Counter[str] = Counter()
        self._failed: Counter[str] = Counter()
        self._began_s: dict[str, float] = {}

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self._collected(item.nodeid for item in session.items)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: list[str]) -> None:
        self._collected(ids)

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        file = _file(nodeid)
        if file not in self._began_s:
            self._began_s[file] = time.monotonic()
            self._say(f"{file}: {self._total[file]} tests begin")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._failed[_file(report.nodeid)] += report.failed

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        file = _file(nodeid)
        self._left[file] -= 1
        if self._left[file] == 0:
            failed = f", {self._failed[file]} failed" if self._failed[file] else ""
            self._say(f"{file}: {self._total[file]} tests in {time.monotonic() - self._began_s[file]:.1f} s{failed}")

    def pytest_report_teststatus(self, report: pytest.TestReport) -> tuple[str, str, str] | None:
        """No letter: it would stand in the midst of a line."""
        if hasattr(report, "wasxfail") or report.skipped or (report.passed and report.when != "call"):
            return None
        return report.outcome if report.when == "call" else "error", "", ""

    def _collected(self, nodeids: Iterable[str]) -> None:
        """Each process collects the same tests."""
        if not self._total:
            self._total.update(map(_file, nodeids))
            self._left.update(self._total)

    def _say(self, line: str) -> None:
        self._terminal.ensure_newline()
        self._terminal.write_line(f"{time.strftime('%H:%M:%S')} {line}")
        self._terminal.flush()


@pytest.hookimpl(trylast=True)  # after that which makes the reporter
def pytest_configure(config: pytest.Config) -> None:
    terminal = config.pluginmanager.getplugin("terminalreporter")
    if terminal is not None and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Progress(terminal))


def _file(nodeid: str) -> str:
    return nodeid.partition("::")[0]
