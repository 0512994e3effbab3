"""Which candidate is the cheapest: kube-scheduler's rules, one after the other."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kscheduler.framework.dry_runs import Candidate
from kscheduler.framework.preemption.candidates import cheapest
from kscheduler.framework.preemption.importance import by_importance, earliest_start
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.testing import make_pod
from tests.framework.plugins.defaultpreemption.fakes import NOW

Victim = tuple[int, str]  # priority, and the day in January when it was started ("" for not yet)


def candidate(name: str, *victims: Victim, violations: int = 0) -> Candidate:
    pods = [
        PodInfo((pod.started(f"2024-01-{day}T00:00:00Z") if day else pod).obj())
        for index, (priority, day) in enumerate(victims)
        for pod in [make_pod(f"{name}-{index}").priority(priority)]
    ]
    return Candidate(name, tuple(by_importance(pods, NOW)), violations)


LOW, MID, HIGH = 0, 100, 1000


@pytest.mark.parametrize(
    ("candidates", "expected"),
    [
        ([candidate("a", (LOW, "01"), violations=1), candidate("b", (HIGH, "01"), (HIGH, "01"))], "b"),
        ([candidate("a", (HIGH, "01")), candidate("b", (MID, "01"), (MID, "01"), (LOW, "01"))], "b"),
        ([candidate("a", (HIGH, "01"), (MID, "01")), candidate("b", (HIGH, "01"), (LOW, "01"))], "b"),
        # The same sum, were it not for the shift: fewer pods of a negative priority are the cheaper.
        ([candidate("a", (-5, "01"), (-5, "01")), candidate("b", (-5, "01"))], "b"),
        # The most important victims have run for the shorter time on "b"; those of lower priority do not count.
        ([candidate("a", (MID, "01"), (LOW, "09")), candidate("b", (MID, "02"), (LOW, "01"))], "b"),
        ([candidate("a", (MID, "05"), (MID, "01")), candidate("b", (MID, "03"), (MID, "02"))], "b"),
        # Not started yet: the youngest.
        ([candidate("a", (MID, "09")), candidate("b", (MID, ""))], "b"),
        # Nothing distinguishes them: the first.
        ([candidate("b", (MID, "01")), candidate("a", (MID, "01"))], "b"),
    ],
    ids=[
        "budgets", "highest priority", "sum of priorities", "negative priorities", "latest start",
        "the earliest of each node", "not started", "first",
    ],
)  # fmt: skip
def test_each_rule_decides_what_the_rules_before_leave_open(candidates: list[Candidate], expected: str) -> None:
    assert cheapest(candidates, NOW).node_name == expected


def test_the_number_of_victims_counts_when_sums_are_equal() -> None:
    """Only priorities below the smallest the API allows make sums of different numbers of victims equal."""
    one = candidate("one", (-(1 << 31) + 10, "01"))
    two = candidate("two", (-(1 << 31) + 10, "01"), (-(1 << 31), "01"))
    assert cheapest([two, one], NOW).node_name == "one"


victims = st.lists(
    st.tuples(st.integers(-(1 << 31), 2_000_001_000), st.sampled_from(["", "01", "02"])), min_size=1, max_size=4
)


@given(st.lists(st.tuples(victims, st.integers(0, 2)), min_size=1, max_size=5))
def test_the_choice_is_what_keeping_the_best_at_each_rule_leaves(drawn: list[tuple[list[Victim], int]]) -> None:
    candidates = [candidate(f"n{i}", *pods, violations=hit) for i, (pods, hit) in enumerate(drawn)]
    rules = (
        lambda each: each.violations,
        lambda each: max(victim.priority for victim in each.victims),
        lambda each: sum(victim.priority + (1 << 31) for victim in each.victims),
        lambda each: len(each.victims),
        lambda each: -earliest_start(each.victims, NOW),
    )
    left = candidates
    for rule in rules:
        best = min(map(rule, left))
        left = [each for each in left if rule(each) == best]
    assert cheapest(candidates, NOW) is left[0]
