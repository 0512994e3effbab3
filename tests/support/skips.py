"""Tests that cannot run on a machine: skipped for a user, with what to install; failed in CI, where all must run.

A tool that is missing is named by `missing_tool`, or by any exception whose class is called MissingTool: the harness of
the control plane raises one, and so do the scripts under plugins/, which are loaded by their path. A test or fixture
lets it pass, and `SkipRule`, a plugin of pytest that conftest.py registers, makes a skip of it. With CI=true
that rule turns *every* skip into a failure, whatever its reason, except those of `ALLOWED_IN_CI`.
"""

from __future__ import annotations

import importlib
import os
import shutil
from collections import Counter
from collections.abc import Generator
from typing import Any, NoReturn

import pytest

# Reasons of skips that are right on CI's machine too, as they begin. Keep this list short.
ALLOWED_IN_CI = (
    "wasmer cannot be built here: ",  # neither Rust 1.95 nor a network for its crates can be installed
    "no CPython ",  # Debian does not have the newest one that is promised, or not any more
    "Debian's mirror no longer has ",  # a version that the image is pinned to: `make image-lock` mends it
)

NOT_BUILT = "the extensions are not built: run `make build`"


def is_ci() -> bool:
    """Whether this is a run in which nothing may be skipped."""
    return os.environ.get("CI", "").lower() in ("1", "true")


def missing_tool(reason: str) -> NoReturn:
    """End the test, or the collection of the module, for want of a tool; `reason` names it and says how to get it."""
    pytest.skip(reason, allow_module_level=True)


def program(name: str, how_to_get_it: str) -> str:
    """The path of a program."""
    found = shutil.which(name)
    if found is None:
        missing_tool(f"{name!r} is not on PATH: {how_to_get_it}")
    return found


def package(name: str, how_to_get_it: str = "run `make build`") -> Any:
    """The module of a Python package, imported."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        missing_tool(f"the Python package {name!r} is not installed: {how_to_get_it}")


class SkipRule:
    """Hooks of pytest, to be registered as a plugin."""

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_setup(self) -> Generator[None, Any, Any]:
        """Fixtures of wider scope raise the same exception for each test that uses them."""
        return (yield from _skip_without_tool())

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self) -> Generator[None, Any, Any]:
        return (yield from _skip_without_tool())

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        _forbid_skip(report)
        return report

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(self) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
        report = yield
        _forbid_skip(report)
        return report

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """A missing tool skips hundreds of tests in dozens of files: it is named once, with their number."""
        reports = terminalreporter.stats.get("skipped", [])
        if not reports:
            return
        terminalreporter.section("skipped tests, by reason")
        for reason, count in Counter(_reason_of(report) for report in reports).most_common():
            terminalreporter.write_line(f"{count:5d}  {reason}")


def _skip_without_tool() -> Generator[None, Any, Any]:
    try:
        return (yield)
    except Exception as error:
        if type(error).__name__ == "MissingTool":
            missing_tool(str(error))
        raise


def _forbid_skip(report: pytest.TestReport | pytest.CollectReport) -> None:
    if report.outcome != "skipped" or hasattr(report, "wasxfail") or not is_ci():
        return
    reason = _reason_of(report)
    if reason.startswith(ALLOWED_IN_CI):
        return
    report.outcome = "failed"
    if isinstance(report, pytest.TestReport):
        report.when = "call"  # or pytest would count an error, which is for tests that are broken
    report.longrepr = f"CI must run this test, which was skipped: {reason}"


def _reason_of(report: pytest.TestReport | pytest.CollectReport) -> str:
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return reason.removeprefix("Skipped: ")
