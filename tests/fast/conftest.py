"""Every test that takes `fast` runs twice: on the plain Python kernels and on the compiled ones."""

from __future__ import annotations

from types import ModuleType

import pytest

from tests.controlplane.conftest import unavailable
from tests.fast.implementations import load_compiled, reference


@pytest.fixture(params=["reference", "compiled"], scope="session")
def fast(request: pytest.FixtureRequest) -> ModuleType:
    if request.param == "reference":
        return reference
    compiled = load_compiled()
    if compiled is None:
        unavailable("the extensions are not built: python setup.py build_ext --inplace")
    return compiled
