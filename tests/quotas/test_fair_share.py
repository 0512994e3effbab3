"""Fair shares are those of KAI-Scheduler's division: its published cases, and what must hold of any."""

from __future__ import annotations

from fractions import Fraction
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kscheduler.quotas.fair_share import divide, divide_surplus, set_fair_shares
from kscheduler.quotas.queues import Queue, Share
from tests.quotas.kai_vectors import DIVISIONS, SURPLUS, Asks, Division
from tests.quotas.trees import GPU, gpus, siblings


def queue_of(number: int, asks: Asks) -> Queue:
    share = Share(
        deserved=gpus(asks.deserved),
        limit=None if asks.limit is None else gpus(asks.limit),
        weight=Fraction(asks.weight),
        request=gpus(asks.request),
        fair=gpus(asks.fair),
    )
    return Queue(str(number), None, asks.priority, "", {GPU: share})


def shares_of(queues: list[Queue]) -> dict[Queue, Share]:
    return {queue: queue.shares[GPU] for queue in queues}


def check(case: Division, left: int, queues: list[Queue]) -> None:
    assert left == gpus(case.left)
    for queue, expected in zip(queues, case.shares, strict=True):
        assert expected is None or queue.shares[GPU].fair == gpus(expected), queue.name


@pytest.mark.parametrize("case", DIVISIONS, ids=lambda case: case.name)
def test_divisions_are_kais(case: Division) -> None:
    queues = [queue_of(number, asks) for number, asks in enumerate(case.queues)]
    check(case, divide(gpus(case.total), shares_of(queues), grain=1000), queues)


@pytest.mark.parametrize("case", SURPLUS, ids=lambda case: case.name)
def test_divisions_of_the_surplus_are_kais(case: Division) -> None:
    queues = [queue_of(number, asks) for number, asks in enumerate(case.queues)]
    check(case, divide_surplus(gpus(case.total), shares_of(queues), grain=1000), queues)


def test_children_divide_their_parents_fair_share() -> None:
    top = Queue("top", shares={GPU: Share(deserved=10, request=30)})
    other = Queue("other", shares={GPU: Share(deserved=10, request=10)})
    low = [
        Queue(name, top, shares={GPU: Share(deserved=2, weight=weight, request=30)})
        for name, weight in (("a", 1), ("b", 3))
    ]
    set_fair_shares([*low, other, top], {GPU: 32})
    assert top.shares[GPU].fair == 22
    assert [queue.shares[GPU].fair for queue in low] == [7, 15]  # 2 each, and 18 by weight: 4.5 and 13.5


def test_past_usage_moves_the_surplus_to_those_that_used_less() -> None:
    queues = [Queue(name, shares={GPU: Share(weight=1, request=100)}) for name in ("a", "b")]
    queues[0].shares[GPU].usage = Fraction(1, 4)
    assert divide(100, shares_of(queues)) == 0  # 1/2 + (1/2 - 1/4) and 1/2 + 1/2: 3 to 4
    assert [queue.shares[GPU].fair for queue in queues] == [43, 57]
    queues[0].shares[GPU].usage = Fraction(2)
    divide(100, shares_of(queues))
    assert [queue.shares[GPU].fair for queue in queues] == [0, 100]
    divide(100, shares_of(queues), k=0)
    assert [queue.shares[GPU].fair for queue in queues] == [50, 50]


def test_a_grain_is_given_whole_as_long_as_there_is_one() -> None:
    queues = [Queue(name, shares={GPU: Share(weight=1, request=10_000)}) for name in ("a", "b")]
    set_fair_shares(queues, {GPU: 3_500}, grains={GPU: 1000})
    assert [queue.shares[GPU].fair for queue in queues] == [2000, 1500]


# --- what must hold of any division ---


@given(siblings(), st.integers(0, 200))
def test_nothing_is_lost_and_nobody_is_given_what_nobody_has(queues: list[Queue], total: int) -> None:
    left = divide(total, shares_of(queues))
    promised = sum(
        min(total if share.deserved is None else share.deserved, share.requestable)
        for share in shares_of(queues).values()
    )
    given_away = sum(share.fair for share in shares_of(queues).values())
    assert left >= 0
    assert given_away == promised if promised >= total else given_away + left == total


@given(siblings(), st.integers(0, 200))
def test_each_gets_what_it_deserves_and_none_more_than_it_asks_for(queues: list[Queue], total: int) -> None:
    divide(total, shares_of(queues))
    for share in shares_of(queues).values():
        assert min(total if share.deserved is None else share.deserved, share.requestable) <= share.fair
        assert share.fair <= share.requestable


@given(siblings(), st.integers(0, 200))
def test_a_lower_priority_gets_surplus_once_the_higher_ones_want_no_more(queues: list[Queue], total: int) -> None:
    divide(total, shares_of(queues))
    for queue in queues:
        share = queue.shares[GPU]
        promised = min(total if share.deserved is None else share.deserved, share.requestable)
        if share.fair > promised:
            for other in queues:
                theirs = other.shares[GPU]
                assert other.priority <= queue.priority or not theirs.weight or theirs.fair == theirs.requestable


@given(siblings(), st.integers(0, 200))
def test_who_wants_more_envies_nobody_of_its_priority_more_than_rounding_explains(
    queues: list[Queue], total: int
) -> None:
    """By weight, no other has got more of the surplus than with one unit less, and one unit more for itself."""
    divide(total, shares_of(queues))
    surplus = {
        queue: share.fair - min(total if share.deserved is None else share.deserved, share.requestable)
        for queue, share in shares_of(queues).items()
    }
    for queue in queues:
        share = queue.shares[GPU]
        if not share.weight or share.fair == share.requestable:
            continue
        for other in queues:
            theirs = other.shares[GPU]
            if other.priority == queue.priority and theirs.weight:
                assert Fraction(surplus[other] - 1) / theirs.weight <= Fraction(surplus[queue] + 1) / share.weight


@given(siblings(), st.integers(0, 200), st.randoms(use_true_random=False))
def test_the_order_in_which_queues_are_listed_does_not_matter(queues: list[Queue], total: int, random: Random) -> None:
    divide(total, shares_of(queues))
    before = {queue.name: queue.shares[GPU].fair for queue in queues}
    random.shuffle(queues)
    divide(total, shares_of(queues))
    assert {queue.name: queue.shares[GPU].fair for queue in queues} == before


@given(siblings(), st.integers(0, 400))
def test_where_all_get_what_they_ask_for_the_short_way_is_the_long_one(queues: list[Queue], total: int) -> None:
    shares = shares_of(queues)
    left = divide(total, shares)
    found = [share.fair for share in shares.values()]
    rest = total
    for share in shares.values():
        share.fair = min(total if share.deserved is None else share.deserved, share.requestable)
        rest -= share.fair
    assert left == (divide_surplus(rest, shares) if rest > 0 else 0)
    assert found == [share.fair for share in shares.values()]
