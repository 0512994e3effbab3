"""What tests of several folders need."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from kscheduler.observability import logs
from tests.support.few_cases import FewCases
from tests.support.inner_runs import InnerRuns
from tests.support.order import LongestFirst
from tests.support.releases import SharedByReleases
from tests.support.seeds import load_hypothesis_profile
from tests.support.skips import SkipRule

load_hypothesis_profile()


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(SkipRule(), "skip-rule")
    config.pluginmanager.register(LongestFirst(), "longest-first")
    config.pluginmanager.register(SharedByReleases(), "shared-by-releases")
    config.pluginmanager.register(FewCases(), "few-cases")
    config.pluginmanager.register(InnerRuns(), "inner-runs")


@pytest.fixture
def logging_restored() -> Iterator[None]:
    """Commands set up logging for the whole process, which here is the tests'."""
    root, own = logging.getLogger(), logging.getLogger(logs.ROOT)
    before = (list(root.handlers), root.level, own.level)
    yield
    root.handlers[:], root.level = before[0], before[1]
    own.setLevel(before[2])


@pytest.fixture(autouse=True)
def level_restored() -> Iterator[None]:
    """A command that a test ran without `logging_restored` must not silence the logs that the next test reads."""
    own = logging.getLogger(logs.ROOT)
    before = own.level
    yield
    if own.level != before:
        own.setLevel(before)
