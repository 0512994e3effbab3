"""Dry runs of preemption end once they have found enough candidates."""

from __future__ import annotations

from kscheduler.framework.dry_runs import Candidate, Findings
from kscheduler.framework.status import unschedulable
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.testing import make_pod

VICTIM = PodInfo(make_pod("victim").obj())


def findings(wanted: int, violations: list[int]) -> tuple[list[str], int]:
    """Names of the candidates kept, and after how many nodes the search ended."""
    found = Findings(wanted)
    tried = 0
    for number in violations:
        tried += 1
        found.add(f"n{tried}", Candidate(f"n{tried}", (VICTIM,), number))
        if found.is_enough:
            break
    return [each.node_name for each in found.candidates], tried


def test_the_search_ends_with_as_many_as_wanted() -> None:
    assert findings(2, [0, 0, 0]) == (["n1", "n2"], 2)
    assert findings(2, [1, 0, 0]) == (["n2", "n1"], 2)


def test_the_search_goes_on_until_one_violates_no_budget() -> None:
    assert findings(2, [1, 1, 1, 0, 0]) == (["n4", "n1", "n2"], 4)
    assert findings(2, [1, 1, 1]) == (["n1", "n2"], 3)


def test_a_node_that_is_no_help_is_kept_with_its_reason() -> None:
    found = Findings(1)
    found.add("n1", unschedulable("Insufficient cpu"))
    assert found.candidates == []
    assert not found.is_enough
    assert found.statuses == {"n1": unschedulable("Insufficient cpu")}
