"""Guests whose answers change with each pod decide the same in the compiled lane as where they are asked one by one."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.wasm.batch.fake_guest import ListGuest, pack
from tests.wasm.batch.fake_guests import lanes_of
from tests.wasm.batch.play import USAGE, Play, by_usage, guest, rows_of
from tests.wasm.batch.plugins import one


def still(guest: ListGuest, point: int, question: Any) -> Any:
    """A pure one, which differs within a profile."""
    names = [guest.rows[row]["names"] for row in rows_of(guest, question)]
    return one(scores=pack("q", *((sum(map(ord, name)) * 7) % 101 for name in names)))


PURE = ListGuest(["score"], {"depends": ["pod", "node"], "table": ["names"], "normalize": "none"}, still)
KINDS: dict[str, dict[str, ListGuest]] = {
    "score": {"Score": guest(["score"])},
    "filter": {"Filter": guest(["filter"])},
    "both": {"Both": guest(["filter", "score"])},
    "default": {"Both": guest(["filter", "score"], "default")},
    "reverse": {"Score": guest(["score"], "reverse")},
    "two": {"One": guest(["score"], "default"), "Other": guest(["filter", "score"], "reverse")},
    "several": {"Score": guest(["score"]), "Both": guest(["filter", "score"]), "Pure": PURE, "Still": PURE},
}
node_names = st.sampled_from([f"n{number}" for number in range(14)])
pod_shapes = st.tuples(
    st.sampled_from(["100m", "900m"]), st.integers(0, 3), st.sampled_from(["", "", "", "near", "apart"])
)
steps = st.one_of(
    st.tuples(st.just("schedule"), st.lists(pod_shapes, min_size=1, max_size=8)),
    st.tuples(st.just("schedule"), st.lists(pod_shapes, min_size=1, max_size=8)),
    st.tuples(st.just("node"), node_names, st.integers(0, 3), st.sampled_from(["1", "4"])),
    st.tuples(st.just("gone"), node_names),
    st.tuples(st.just("ended"), st.integers(0, 40)),
)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=25, deadline=None)
@given(sequence=st.lists(steps, max_size=12))
def test_both_lanes_make_the_same_decisions(kind: str, sequence: list[Any]) -> None:
    play = Play(lanes_of(KINDS[kind]))
    for name, *reported in sequence:
        getattr(play, name)(*reported)


@pytest.mark.parametrize("kind", KINDS)
def test_pods_of_guests_that_depend_on_usage_are_decided_in_the_compiled_lane(kind: str) -> None:
    """Whatever other plugins ask of where pods are."""
    play = Play(lanes_of(KINDS[kind]))
    play.schedule([("100m", number % 2, other) for number in range(4) for other in ("", "near", "apart")])
    assert play.lanes.decided_by_lane == 12


def failing_at(count: int) -> ListGuest:
    def answer(guest: ListGuest, point: int, question: Any) -> Any:
        if any(row["pods_n"] == count for row in guest.rows):
            return {"error": "counted enough"}
        return by_usage(guest, point, question)

    return ListGuest(["filter", "score"], USAGE, answer)


@pytest.mark.parametrize("policy", ["fail", "ignore"])
def test_what_a_guest_fails_at_in_the_compiled_lane_is_reported_by_the_general_one(policy: str) -> None:
    play = Play(lanes_of({"Fails": failing_at(2)}, policy=policy))
    play.schedule([("100m", 0, "")] * 30)
    assert 0 < play.lanes.decided_by_lane < 30
