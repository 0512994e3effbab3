"""Every test that takes `fast` runs twice: on the plain Python kernels and on the compiled ones."""

from __future__ import annotations

from types import ModuleType

import pytest

from kscheduler.testing.kernels import load_compiled, reference
from tests.support.skips import NOT_BUILT, missing_tool


@pytest.fixture(params=["reference", "compiled"], scope="session")
def fast(request: pytest.FixtureRequest) -> ModuleType:
    if request.param == "reference":
        return reference
    compiled = load_compiled()
    if compiled is None:
        missing_tool(NOT_BUILT)
    return compiled
