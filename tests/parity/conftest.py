"""The oracle, one for the tests of a module."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.controlplane.conftest import unavailable
from tests.controlplane.harness import MissingTool, ensure
from tests.parity.oracle import Oracle


@pytest.fixture(scope="module")
def oracle() -> Iterator[Oracle]:
    try:
        binary = ensure(["oracle"]).path("oracle")
    except MissingTool as error:
        unavailable(str(error))
    running = Oracle(binary)
    yield running
    running.close()
