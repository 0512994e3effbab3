"""A short fault campaign: eighty faults of all kinds against a leader-elected pair, and an outside judge.

How long pauses last depends on the machine and decides nothing here; `make campaign` holds them to their limits.
"""

from __future__ import annotations

import sys

import pytest

from kscheduler.testing.controlplane import Binaries
from tests.campaign.campaign import run

pytestmark = pytest.mark.slow

SEED = 15
SECONDS = 60.0
PER_MINUTE = 80.0


def test_no_pod_is_lost_bound_twice_or_put_onto_a_full_node(
    binaries: Binaries, capsys: pytest.CaptureFixture[str]
) -> None:
    report = run(SEED, SECONDS, PER_MINUTE, binaries=binaries)
    with capsys.disabled():
        print(f"\n{report.table()}", file=sys.stderr)  # what a process of pytest-xdist prints to stdout is lost
    assert len(report.faults) == SECONDS / 60 * PER_MINUTE
    assert report.bound > 0
    assert report.violations == []
