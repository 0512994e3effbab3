from __future__ import annotations

from kscheduler.framework.plugins.queuesort import PrioritySort


def test_higher_priority_comes_first_and_then_who_was_queued_longer() -> None:
    pods = {"old": (0, 1.0), "new": (0, 2.0), "urgent": (5, 9.0), "lowly": (-5, 0.0)}
    assert sorted(pods, key=lambda name: PrioritySort().sort_key(*pods[name])) == ["urgent", "old", "new", "lowly"]
