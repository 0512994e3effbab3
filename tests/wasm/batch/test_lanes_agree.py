"""Guests whose answers change with each pod decide the same in the compiled lane as where they are asked one by one."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kscheduler.testing import make_node, make_pod
from tests.support.lanes import TwoLanes
from tests.wasm.batch.fake_guest import ListGuest, pack, unpack
from tests.wasm.batch.fake_guests import lanes_of
from tests.wasm.batch.test_plugin import one

ZONE, HOSTNAME, TIER = "topology.kubernetes.io/zone", "kubernetes.io/hostname", "tier"
USAGE = {
    "depends": ["pod", "node", "usage"],
    "pod": ["labels", "requests"],
    "table": ["usage", "allocatable"],
    "resources": ["cpu", "memory"],
    "labels": [TIER],
}


def rows_of(guest: ListGuest, question: Any) -> list[int]:
    return unpack("i", question["rows"]) if "rows" in question else list(range(len(guest.rows)))


def by_usage(guest: ListGuest, point: int, question: Any) -> Any:
    """Out: nodes of the pod's size of number; the score follows from all that it sees."""
    pod = question["pods"][0]
    wants = int((pod.get("labels") or {}).get("wants", "0"))
    rows = [guest.rows[row] for row in rows_of(guest, question)]
    tiers = [int(row["labels/tier"] or 0) for row in rows]
    if point == 3:
        reasons = [[2, f"tier {tier}"] for tier in range(4)]
        marks = [tier + 1 if (row["pods_n"] + tier) % 4 == wants else 0 for row, tier in zip(rows, tiers, strict=True)]
        return one(verdicts=bytes(marks), reasons=reasons)
    scores = [
        (17 * row["pods_n"] + 11 * tier + row["used/cpu"] // 100 + 5 * wants) % 101
        for row, tier in zip(rows, tiers, strict=True)
    ]
    return one(scores=pack("q", *scores))


def guest(points: list[str], normalize: str = "none", **describe: Any) -> ListGuest:
    return ListGuest(points, {**USAGE, "normalize": normalize, **describe}, by_usage)


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


class Play:
    """Pods and events, on both sides."""

    def __init__(self, lanes: TwoLanes) -> None:
        self.lanes = lanes
        self.pods = 0
        self.nodes: set[str] = set()
        for number in range(9):
            self.node(f"n{number}", number % 4, "4")

    def schedule(self, shapes: list[tuple[str, int, str]]) -> None:
        made = []
        for cpu, wants, other in shapes:
            pod = make_pod(f"p{self.pods}").req(cpu=cpu, memory="64Mi").label("wants", str(wants)).label("app", "a")
            if other == "near":
                pod = pod.preferred_pod_affinity(5, ZONE, {"app": "a"})
            elif other == "apart":
                pod = pod.pod_anti_affinity(HOSTNAME, {"app": "b"}).label("app", "b")
            made.append(pod.obj())
            self.pods += 1
        self.lanes.schedule(*made)

    def node(self, name: str, tier: int, cpu: str) -> None:
        self.nodes.add(name)
        made = make_node(name).capacity(cpu=cpu, memory="8Gi", pods=9).label(TIER, str(tier))
        self.lanes.set_node(made.label(ZONE, f"z{tier % 2}").obj())

    def gone(self, name: str) -> None:
        if name in self.nodes and len(self.nodes) > 1:
            self.nodes.discard(name)
            for uid in [uid for uid, node in self.lanes.placed.items() if node == name]:
                self.lanes.remove_pod(uid)
            self.lanes.remove_node(name)

    def ended(self, number: int) -> None:
        uids = list(self.lanes.placed)
        if uids:
            self.lanes.remove_pod(uids[number % len(uids)])


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=25, deadline=None)
@given(sequence=st.lists(steps, max_size=12))
def test_both_lanes_decide_alike(kind: str, sequence: list[Any]) -> None:
    play = Play(lanes_of(KINDS[kind]))
    for name, *told in sequence:
        getattr(play, name)(*told)


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
def test_what_a_guest_fails_at_in_the_compiled_lane_is_told_by_the_other_one(policy: str) -> None:
    play = Play(lanes_of({"Fails": failing_at(2)}, policy=policy))
    play.schedule([("100m", 0, "")] * 30)
    assert 0 < play.lanes.decided_by_lane < 30
