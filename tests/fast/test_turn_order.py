"""Turns of queues with shares, and the room that they leave, in both forms of the kernel."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kscheduler.testing.kernels import load_compiled, reference
from tests.support.skips import NOT_BUILT, missing_tool

OPEN = (0, 10, 0, -1, 10, False)  # of resource 0: fair share 10, deserves nothing, no limit


def order(fast: ModuleType, *terms: tuple[int, int, int, int, int, bool], parents: tuple[int, ...] = ()) -> Any:
    """One resource; the queues are all at the top unless `parents` says otherwise."""
    count = len(terms)
    made = fast.TurnOrder(parents or (-1,) * count, (100,) * count, tuple(range(count)), [[each] for each in terms], 1)
    for queue in range(count):
        made.set_used(queue, (0,), (0,))
    return made


def turns(made: Any, jobs: int) -> list[int]:
    found: list[int] = []
    queue = made.first()
    while queue >= 0 and len(found) < jobs:
        found.append(queue)
        queue = made.take(queue, (1,))
    return found


def test_equal_queues_alternate_and_the_one_that_uses_more_waits(fast: ModuleType) -> None:
    made = order(fast, OPEN, OPEN)
    for queue in (0, 1):
        made.set_job(queue, (1,))
    assert turns(made, 4) == [0, 1, 0, 1]
    made.end()
    made.set_used(0, (3,), (0,))
    assert turns(made, 5) == [1, 1, 1, 0, 1]


def test_what_was_taken_counts_until_the_end_only_and_jobs_stay(fast: ModuleType) -> None:
    made = order(fast, OPEN, OPEN)
    for queue in (0, 1):
        made.set_job(queue, (1,))
    assert turns(made, 1) == [0]
    assert made.first() == 1
    made.end()
    assert made.first() == 0
    assert made.take(0, None) == 1
    assert made.take(1, None) == -1
    with pytest.raises(ValueError, match="has no job"):
        made.take(1, None)


def test_jobs_that_ask_for_as_much_are_taken_together_until_one_is_not_known(fast: ModuleType) -> None:
    made = order(fast, OPEN, OPEN)
    made.set_job(0, (1,), 2)
    made.set_job(1, (1,), 9)
    assert made.take_many(3) == ([0, 1, 0], -1)
    made.end()
    assert made.take_many(9) == ([0], 0), "that was the last of them"
    assert made.take_many(2) == ([1, 1], -1), "the other one has no job until it is stated"
    made.set_job(0, (1,))
    made.end()
    assert made.take_many(9) == ([0], 0)
    made.set_job(1, None)
    assert made.take_many(9) == ([], -1)
    with pytest.raises(ValueError, match="alike: expected at least 0, got -1"):
        made.set_job(0, (1,), -1)


def test_what_is_placed_stays_counted(fast: ModuleType) -> None:
    made = order(fast, OPEN, OPEN, OPEN, parents=(-1, -1, 0))
    for queue in (1, 2):
        made.set_job(queue, (1,))
    made.charge(2, (1,), True, 2)
    made.end()
    assert turns(made, 4) == [1, 1, 2, 1]
    made.end()
    made.charge(2, (1,), True, -2)
    assert made.first() == 2


def test_a_limit_on_the_path_ends_what_is_admitted(fast: ModuleType) -> None:
    limited = (0, 10, 0, 3, 10, False)
    made = order(fast, limited, OPEN, OPEN, parents=(-1, 0, 0))
    assert made.admit(1, (1,), True, 2)
    assert not made.admit(2, (1,), True, 2)
    assert made.admit(2, (1,), True, 1)
    made.end()
    assert made.admit(2, (1,), True, 3)


def test_jobs_that_are_not_preemptible_stay_within_what_is_deserved(fast: ModuleType) -> None:
    made = order(fast, (0, 10, 2, -1, 10, False))
    made.set_used(0, (5,), (1,))
    assert not made.admit(0, (1,), False, 2)
    assert made.admit(0, (1,), True, 9)
    assert made.admit(0, (1,), False, 1)
    assert not made.admit(0, (1,), False, 1)
    assert made.admit(0, (0,), False, 1), "what asks for nothing is not compared"


def test_amounts_beyond_the_greatest_count_as_that(fast: ModuleType) -> None:
    made = order(fast, (0, 1, 0, 2**61, 1, False))
    assert not made.admit(0, (2**100,), True, 1)
    made.charge(0, (2**100,), True, 200)
    assert not made.admit(0, (1,), True, 1)


def test_shares_are_the_nearest_numbers_also_of_amounts_that_a_double_cannot_hold(fast: ModuleType) -> None:
    most = 3 * 2**58 + 3
    terms = [(0, 0, 0, -1, most, False)]
    assert fast.rank_queue(terms, (2**58 + 1,), (0,)) == (True, True, False, 1 / 3, 1 / 3)
    assert fast.rank_queue([(0, 0, 0, -1, 0, True)], (2**58 + 1,), (0,))[-1] == float((2**58 + 1) * 1000)


@pytest.mark.parametrize(
    ("parents", "terms"), [((0,), [[]]), ((-1,), [[(1, 0, 0, -1, 0, False)]]), ((-1, -1), [[]]), ((-2,), [[]])]
)
def test_a_malformed_tree_is_refused(fast: ModuleType, parents: tuple[int, ...], terms: list[Any]) -> None:
    with pytest.raises((ValueError, IndexError)):
        fast.TurnOrder(parents, (0,) * len(terms), (0,) * len(terms), terms, 1)


def test_an_index_or_a_vector_that_does_not_fit_is_refused(fast: ModuleType) -> None:
    made = order(fast, OPEN)
    for method, arguments in (
        (made.set_used, (1, (0,), (0,))),
        (made.set_job, (-1, (0,))),
        (made.charge, (7, (0,), True, 1)),
        (made.admit, (1, (0,), True, 1)),
        (made.take, (1, (0,))),
    ):
        with pytest.raises(IndexError):
            method(*arguments)
    with pytest.raises(ValueError, match="expected amounts of 1 resources, got 2"):
        made.set_job(0, (0, 0))


# --- both forms ---

amounts = st.one_of(st.integers(0, 12), st.sampled_from([2**53 - 1, 2**53 + 1, 2**62, 2**70]))
bounds = st.one_of(st.just(-1), amounts)
vectors = st.tuples(amounts, amounts)


@settings(deadline=None)
@given(st.data())
def test_both_forms_decide_equally(data: st.DataObject) -> None:
    compiled = load_compiled()
    if compiled is None:
        missing_tool(NOT_BUILT)
    count = data.draw(st.integers(1, 9))
    parents = [data.draw(st.integers(-1, queue - 1)) for queue in range(count)]
    priorities = data.draw(st.lists(st.integers(0, 1), min_size=count, max_size=count))
    numbers = data.draw(st.permutations(range(count)))
    term = st.tuples(amounts, bounds, bounds, amounts, st.booleans())
    terms = [
        [(resource, *data.draw(term)) for resource in range(2) if data.draw(st.integers(0, 4))] for _ in range(count)
    ]
    forms = [each.TurnOrder(parents, priorities, numbers, terms, 2) for each in (reference, compiled)]
    leaves = [queue for queue in range(count) if queue not in parents]
    steps = ["used", "job", "job", "jobs", "jobs", "take", "take", "many", "many", "charge", "admit", "end"]
    for _ in range(data.draw(st.integers(1, 25))):
        step = data.draw(st.sampled_from(steps))
        queue, leaf = data.draw(st.integers(0, count - 1)), data.draw(st.sampled_from(leaves))
        vector, is_preemptible = data.draw(vectors), data.draw(st.booleans())
        alike, found = data.draw(st.integers(0, 4)), []
        for form in forms:
            if step == "used":
                form.end()
                form.set_used(queue, vector, vector)
            elif step == "job":
                form.set_job(leaf, vector if is_preemptible else None)
            elif step == "jobs":
                form.set_job(leaf, vector, alike)
            elif step == "many":
                taken, last = form.take_many(2 * alike)
                found.append((tuple(taken), last))
            elif step == "take" and (first := form.first()) >= 0:
                found.append(form.take(first, vector if is_preemptible else None))
            elif step == "charge":
                form.charge(leaf, vector, is_preemptible, 3)
            elif step == "admit":
                found.append(form.admit(leaf, vector, is_preemptible, 2))
            elif step == "end":
                form.end()
        assert len(set(found)) <= 1, (step, found)
        assert forms[0].first() == forms[1].first()
