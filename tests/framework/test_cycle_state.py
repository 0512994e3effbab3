"""What plugins remember within a cycle, and what a what-if may change of it."""

from __future__ import annotations

import pytest

from kscheduler.framework.cycle_state import CycleState
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.testing import make_pod


class Tally:
    def __init__(self, value: int) -> None:
        self.value = value

    def clone(self) -> Tally:
        return Tally(self.value)


def test_a_value_is_read_as_the_kind_it_was_written_as() -> None:
    state = CycleState()
    assert state.get("a", int) is None
    state.write("a", 1)
    assert state.read("a", int) == state.get("a", int) == 1
    with pytest.raises(TypeError, match="cycle state 'a': expected str, got int"):
        state.read("a", str)
    with pytest.raises(KeyError):
        state.read("b", int)


def test_a_clone_has_what_can_be_cloned_for_itself_and_shares_the_rest() -> None:
    state = CycleState()
    state.write("tally", Tally(1))
    state.write("list", [1])
    clone = state.clone()
    clone.read("tally", Tally).value = 2
    clone.read("list", list).append(2)
    clone.write("more", 3)
    assert state.read("tally", Tally).value == 1
    assert state.read("list", list) == [1, 2]
    assert state.get("more", int) is None


def test_a_clone_skips_what_its_original_skips_and_may_skip_more() -> None:
    state = CycleState()
    state.skip_pre_bind = frozenset({"A"})
    for skipped in (state.skip_filter, state.skip_score):
        skipped.add("A")
    clone = state.clone()
    assert clone.skip_pre_bind == {"A"}
    for skipped in (clone.skip_filter, clone.skip_score):
        assert skipped == {"A"}
        skipped.add("B")
    assert state.skip_filter == state.skip_score == {"A"}


def test_pods_to_activate_are_those_of_the_cycle_whichever_clone_names_them() -> None:
    state = CycleState()
    pod = PodInfo(make_pod("p").obj())
    state.clone().pods_to_activate[pod.uid] = pod
    assert state.pods_to_activate == {pod.uid: pod}
