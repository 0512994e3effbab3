"""What tests that count calls have in common."""

from __future__ import annotations

import math

import pytest

from kscheduler import scheduler
from kscheduler.client import adaptive_limit, informer
from kscheduler.cycle import schedule_batch


@pytest.fixture
def batches_of_one_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no batch and no turn of the loop end because the machine is slow: smaller ones cost a pod more calls."""
    for module, name in (
        (informer, "SLICE_S"),
        (scheduler, "SLICE_S"),
        (schedule_batch, "LONG_S"),
        (adaptive_limit, "NEAR_S"),
    ):
        monkeypatch.setattr(module, name, math.inf)
