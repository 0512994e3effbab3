"""Gates and reclaim are KAI-Scheduler's: its published cases, and that reclaiming comes to an end."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kscheduler.quotas.fair_share import set_fair_shares
from kscheduler.quotas.queues import Queue, Share
from kscheduler.quotas.reclaim import Refusal, can_reclaim, may_take_from, why_refused
from tests.quotas.kai_vectors import ASKINGS, TAKINGS, Asking, Taking
from tests.quotas.trees import GPU, gpus, siblings


@pytest.mark.parametrize("case", ASKINGS, ids=lambda case: case.name)
def test_who_may_reclaim_is_kais(case: Asking) -> None:
    queue = Queue("queue1")
    stated = zip(("cpu", "memory", GPU), case.deserved, case.fair, case.used, case.fixed, strict=True)
    for resource, *amounts in stated:
        deserved, fair, used, fixed = map(gpus, amounts)
        queue.shares[resource] = Share(
            deserved=deserved, limit=0, fair=fair, allocated=used, allocated_non_preemptible=fixed
        )
    request = dict(zip(("cpu", "memory", GPU), map(gpus, case.request), strict=True))
    assert can_reclaim(queue, request, is_preemptible=case.is_preemptible) is case.is_allowed


@pytest.mark.parametrize("case", TAKINGS, ids=lambda case: case.name)
def test_what_may_be_reclaimed_is_kais(case: Taking) -> None:
    queues = {name: Queue(name) for name in case.tree}
    for name, (parent, *amounts) in case.tree.items():
        deserved, fair, used, fixed = map(gpus, amounts)
        queues[name].parent = queues.get(parent)
        queues[name].shares = {
            "cpu": Share(limit=0),
            "memory": Share(limit=0),
            GPU: Share(deserved=deserved, fair=fair, allocated=used, allocated_non_preemptible=fixed),
        }
    victims = {queues[name]: [{GPU: gpus(amount)} for amount in each] for name, each in case.victims.items()}
    found = may_take_from(queues[case.queue], {GPU: gpus(case.request)}, victims, is_preemptible=case.is_preemptible)
    assert found is case.is_allowed


def test_a_resource_that_neither_side_is_about_does_not_matter() -> None:
    tops = [Queue("d1"), Queue("d2")]
    low = [Queue("p1", tops[0]), Queue("p2", tops[1])]
    for queue, deserved, used in zip((*tops, *low), (4, 3, 1, 3), (4, 7, 1, 7), strict=True):
        queue.shares = {"cpu": Share(), GPU: Share(deserved=deserved, fair=deserved, allocated=used)}
    for top, used in zip(tops, (3000, 1000), strict=True):
        top.shares["cpu"] = Share(fair=1000, allocated=used)
    assert may_take_from(low[0], {GPU: 1}, {low[1]: [{GPU: 1}]}, is_preemptible=True)
    assert not may_take_from(low[0], {GPU: 1, "cpu": 1}, {low[1]: [{GPU: 1}]}, is_preemptible=True)


# --- gates ---


def line() -> tuple[Queue, Queue]:
    top = Queue("team", shares={GPU: Share(deserved=8, limit=10, allocated=6, allocated_non_preemptible=6)})
    return top, Queue(
        "train", top, shares={GPU: Share(deserved=8, limit=None, allocated=6, allocated_non_preemptible=0)}
    )


def test_a_job_beyond_a_limit_on_its_path_is_refused() -> None:
    top, queue = line()
    assert why_refused(queue, {GPU: 4}, is_preemptible=True) is None
    found = why_refused(queue, {GPU: 5}, is_preemptible=True)
    assert found is not None
    assert (found.reason, found.queue, found.resource, found.would_use, found.most) == (
        Refusal.OVER_LIMIT,
        top,
        GPU,
        11,
        10,
    )
    assert found.reason.value == "OverLimit"


def test_a_job_that_is_not_preemptible_must_stay_within_what_is_deserved_on_its_whole_path() -> None:
    top, queue = line()
    assert why_refused(queue, {GPU: 2}, is_preemptible=False) is None
    found = why_refused(queue, {GPU: 3}, is_preemptible=False)
    assert found is not None
    assert (found.reason.value, found.queue, found.would_use, found.most) == ("NonPreemptibleOverQuota", top, 9, 8)


def test_what_is_not_requested_is_not_looked_at() -> None:
    top, queue = line()
    top.shares[GPU].allocated = 99
    assert why_refused(queue, {GPU: 0, "memory": 5}, is_preemptible=False) is None


# --- reclaiming comes to an end ---


@st.composite
def crowded_trees(draw: st.DrawFn) -> tuple[int, list[Queue], list[Queue]]:
    """A cluster whose GPUs are all in use, its queues in two levels, and those of the lower one."""
    tops = draw(siblings(most=3))
    leaves = [leaf for top in tops for leaf in draw(siblings(top, most=3, prefix=f"{top.name}-"))]
    total = 0
    for leaf in leaves:
        share = leaf.shares[GPU]
        share.request = draw(st.integers(0, 12))
        share.allocated = draw(st.integers(0, share.requestable))
        total += share.allocated
    for top in tops:
        own = [leaf.shares[GPU] for leaf in leaves if leaf.parent is top]
        top.shares[GPU].request = sum(share.request for share in own)
        top.shares[GPU].allocated = sum(share.allocated for share in own)
    return total, [*tops, *leaves], leaves


@settings(deadline=None)
@given(crowded_trees())
def test_at_unchanged_demand_reclaiming_ends_and_nobody_takes_back_what_was_taken_of_him(
    crowded: tuple[int, list[Queue], list[Queue]],
) -> None:
    total, queues, leaves = crowded
    set_fair_shares(queues, {GPU: total})
    job = {GPU: 1}
    steps = 0
    while (found := next(takings(leaves, job), None)) is not None:
        taker, giver = found
        move(taker, giver)
        assert not may(giver, taker, job), "a reclaimed job reclaims its room back"
        steps += 1
        assert steps <= total * len(leaves), "reclaiming goes on and on"


def takings(leaves: list[Queue], job: dict[str, int]) -> Iterator[tuple[Queue, Queue]]:
    """All pairs of a queue that may reclaim room for one more job, and a queue of which it may."""
    for taker in leaves:
        share = taker.shares[GPU]
        if share.allocated < share.requestable:
            yield from ((taker, giver) for giver in leaves if giver is not taker and may(taker, giver, job))


def may(taker: Queue, giver: Queue, job: dict[str, int]) -> bool:
    return (
        giver.shares[GPU].allocated > 0
        and why_refused(taker, job, is_preemptible=True) is None
        and can_reclaim(taker, job, is_preemptible=True)
        and may_take_from(taker, job, {giver: [job]}, is_preemptible=True)
    )


def move(taker: Queue, giver: Queue) -> None:
    for queue in giver.path():
        queue.shares[GPU].allocated -= 1
    for queue in taker.path():
        queue.shares[GPU].allocated += 1
