"""What tests that count calls have in common."""

from __future__ import annotations

import math

import pytest

from perf.counted import TIME_LIMITS


@pytest.fixture
def batches_of_one_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no batch and no turn of the loop end because the machine is slow: smaller ones cost a pod more calls."""
    for module, name in TIME_LIMITS:
        monkeypatch.setattr(module, name, math.inf)
