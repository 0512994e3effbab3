"""The oracle, one for the tests of a module with each release of Kubernetes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kscheduler.testing.controlplane import ensure
from tests.parity.oracle import Oracle
from tests.support.releases import releases_to_test


@pytest.fixture(scope="module", params=releases_to_test())
def release(request: pytest.FixtureRequest) -> str:
    """The release of Kubernetes to be compared with; a test that asks for it or the oracle runs with each."""
    chosen: str = request.param
    return chosen


@pytest.fixture(scope="module")
def oracle(release: str) -> Iterator[Oracle]:
    running = Oracle(ensure(["oracle"], release).path("oracle"))
    yield running
    running.close()
