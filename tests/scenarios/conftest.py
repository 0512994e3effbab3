"""Some scenarios run twice: with pods decided in the compiled core, and with all decided one by one."""

from __future__ import annotations

import pytest

from kscheduler.scheduler import Options
from tests.support.world import World

# Modules whose scenarios are about decisions, and quick.
IN_BOTH_LANES = ("test_placement", "test_nominations", "test_pod_affinity", "test_other_hands")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if metafunc.module.__name__.rpartition(".")[2] in IN_BOTH_LANES:
        metafunc.parametrize("lane", ["compiled lane", "general lane"], indirect=True)


@pytest.fixture(autouse=True)
def lane(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """How worlds decide whose scenario does not say so."""
    chosen = getattr(request, "param", "compiled lane")
    monkeypatch.setattr(World, "default_options", Options(compiled_lane=chosen == "compiled lane"))
