"""The oracle of selectors, one for the tests of a module."""

from __future__ import annotations

import pytest

from kscheduler.testing.controlplane import ensure
from tests.cel.oracle import Oracle


@pytest.fixture(scope="module")
def oracle() -> Oracle:
    return Oracle(ensure(["cel-oracle"]).path("cel-oracle"))
