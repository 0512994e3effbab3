"""The oracle, one for the tests of a module."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kscheduler.testing.controlplane import ensure
from tests.parity.oracle import Oracle


@pytest.fixture(scope="module")
def oracle() -> Iterator[Oracle]:
    running = Oracle(ensure(["oracle"]).path("oracle"))
    yield running
    running.close()
