"""Runs of workloads end with all that they have started."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest


def children() -> set[int]:
    """The processes that this one has started and that are not over."""
    found: set[int] = set()
    for file in Path("/proc/self/task").glob("*/children"):
        with contextlib.suppress(FileNotFoundError):  # a thread that has just ended
            found.update(map(int, file.read_text().split()))
    return found


@pytest.fixture
def nothing_left() -> Iterator[None]:
    """Fail a test that leaves a process behind."""
    before = children()
    yield
    assert children() <= before
