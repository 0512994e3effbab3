"""Waiting for pods."""

from __future__ import annotations

import pytest

from kscheduler.testing.controlplane import HarnessError
from perf.workloads.pod_log import PodLog


def check() -> None:
    raise HarnessError("it is gone")


def test_first_time_counts() -> None:
    log = PodLog()
    log.note("n/a", 1.0, False)
    log.note("n/a", 2.0, False)
    log.note("n/a", 3.0, True)
    log.note("n/a", 4.0, True)
    assert (log.created_s("n/a"), log.bound_s("n/a")) == (1.0, 3.0)


def test_pods_that_are_missing_when_time_is_over_are_counted_and_named() -> None:
    log = PodLog()
    log.note("n/a", 1.0, True)
    with pytest.raises(HarnessError, match="1 of 2 pods were bound within 0 s; n/b was not"):
        log.wait_bound(["n/a", "n/b"], 0.0, check)
