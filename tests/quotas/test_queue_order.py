"""Queues get their turn in KAI-Scheduler's order."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kscheduler.quotas.fair_share import divide
from kscheduler.quotas.queue_order import Candidate, compare, in_order
from kscheduler.quotas.queues import Queue, Share
from tests.quotas.kai_vectors import TURNS, Turn
from tests.quotas.trees import GPU, gpus, siblings


def candidate(name: str, stated: tuple[int, float, float, float, float]) -> Candidate:
    priority, deserved, fair, allocated, job = stated
    share = Share(deserved=gpus(deserved), fair=gpus(fair), allocated=gpus(allocated))
    shares = {"cpu": Share(limit=0), "memory": Share(limit=0), GPU: share}
    return Candidate(Queue(name, priority=priority, shares=shares), {GPU: gpus(job)})


@pytest.mark.parametrize("case", TURNS, ids=lambda case: case.name)
def test_turns_are_kais(case: Turn) -> None:
    left, right = candidate("left", case.left), candidate("right", case.right)
    found = in_order([right, left], {GPU: gpus(100)})
    assert found[0].queue.name == case.first
    assert (compare(left, right, {}) < 0) is (case.first == "left")


def test_a_queue_above_its_fair_share_in_every_resource_comes_last() -> None:
    over, other = candidate("a", (9, 0, 1, 2, 0)), candidate("b", (0, 0, 1, 1, 0))
    for each in over.queue.shares.values():
        each.allocated = each.fair + 1
    assert compare(over, other, {}) > 0


def test_a_queue_that_may_use_nothing_of_what_it_would_use_comes_later() -> None:
    nothing, little = candidate("a", (0, 0, 0, 0, 1)), candidate("b", (0, 0, 1, 0, 5))
    assert compare(nothing, little, {}) > 0


def test_an_unlimited_queue_is_measured_by_the_whole_cluster() -> None:
    open_ended = Candidate(Queue("a", shares={GPU: Share(deserved=None, allocated=10)}), {})
    half = Candidate(Queue("b", shares={GPU: Share(deserved=30, allocated=20)}), {})
    assert compare(open_ended, half, {GPU: 100}) < 0
    assert compare(open_ended, half, {GPU: 12}) > 0


def test_the_smaller_claim_and_then_the_older_queue_comes_first() -> None:
    small = Candidate(Queue("b", shares={GPU: Share(deserved=10)}), {})
    large = Candidate(Queue("a", shares={GPU: Share(deserved=20)}), {})
    endless = Candidate(Queue("c", shares={GPU: Share(deserved=None)}), {})
    assert [each.queue.name for each in in_order([endless, large, small], {GPU: 50})] == ["b", "a", "c"]
    older = Candidate(Queue("z", created="2025-01-01T00:00:00Z", shares={GPU: Share(deserved=10)}), {})
    younger = Candidate(Queue("b", created="2026-01-01T00:00:00Z", shares={GPU: Share(deserved=10)}), {})
    assert compare(older, younger, {}) < 0
    assert compare(older, older, {}) == 0


@given(siblings(), st.integers(0, 100), st.data())
def test_the_order_is_one_whatever_the_queues_and_their_jobs(
    queues: list[Queue], total: int, data: st.DataObject
) -> None:
    divide(total, {queue: queue.shares[GPU] for queue in queues})
    candidates = []
    for queue in queues:
        queue.shares[GPU].allocated = data.draw(st.integers(0, 60))
        candidates.append(Candidate(queue, {GPU: data.draw(st.integers(0, 10))}))
    ordered = in_order(candidates, {GPU: total})
    for position, earlier in enumerate(ordered):
        for later in ordered[position + 1 :]:
            assert compare(earlier, later, {GPU: total}) < 0
            assert compare(later, earlier, {GPU: total}) > 0
