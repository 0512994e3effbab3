"""How long jobs run at least is stated by queues, and agreed on where two tenants part."""

from __future__ import annotations

from kscheduler.quotas.min_runtime import preempt_min_s, reclaim_min_s
from kscheduler.quotas.queues import Queue

TOP = Queue("top", preempt_min_s=10.0, reclaim_min_s=20.0)
MIDDLE = Queue("middle", TOP, reclaim_min_s=30.0)
LEAF = Queue("leaf", MIDDLE, reclaim_min_s=40.0)
SILENT = Queue("silent", MIDDLE)
OTHER = Queue("other", TOP)
FOREIGN = Queue("foreign")


def test_within_a_queue_the_first_statement_on_the_way_up_counts() -> None:
    assert preempt_min_s(LEAF) == 10.0
    assert preempt_min_s(FOREIGN) == 0.0


def test_for_reclaim_the_queue_counts_at_which_the_paths_part_or_one_above_it() -> None:
    assert reclaim_min_s(FOREIGN, LEAF) == 20.0
    assert reclaim_min_s(OTHER, LEAF) == 30.0
    assert reclaim_min_s(SILENT, LEAF) == 40.0
    assert reclaim_min_s(LEAF, SILENT) == 30.0
    assert reclaim_min_s(LEAF, FOREIGN) == 0.0
