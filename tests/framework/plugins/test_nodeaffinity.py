from __future__ import annotations

import pytest

from kscheduler.framework.plugins.nodeaffinity import NodeAffinity
from kscheduler.framework.status import Code
from kscheduler.testing import PodBuilder, make_node, make_pod
from tests.support.framework_bench import Bench

P = make_pod("p")


def bench() -> Bench:
    made = Bench.of(NodeAffinity)
    made.node(make_node("a1").label(zone="a", size="10"))
    made.node(make_node("a2").label(zone="a", size="20"))
    made.node(make_node("b1").label(zone="b"))
    return made


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        (P, ["a1", "a2", "b1"]),
        (P.node_selector(zone="a"), ["a1", "a2"]),
        (P.node_selector(zone="a", size="10"), ["a1"]),
        (P.node_affinity("zone", "In", ["b", "c"]), ["b1"]),
        (P.node_affinity("zone", "NotIn", ["b"]), ["a1", "a2"]),
        (P.node_affinity("size", "Exists"), ["a1", "a2"]),
        (P.node_affinity("size", "DoesNotExist"), ["b1"]),
        (P.node_affinity("size", "Gt", ["15"]), ["a2"]),
        (P.node_affinity("size", "Lt", ["15"]), ["a1"]),
        # Expressions of a term all hold; of several terms, one does.
        (P.node_affinity("zone", "In", ["a"]).node_affinity("size", "Gt", ["15"]), ["a2"]),
        (P.node_affinity("zone", "In", ["b"]).node_affinity("size", "Lt", ["15"], new_term=True), ["a1", "b1"]),
        # The selector holds beside the terms.
        (P.node_selector(zone="a").node_affinity("size", "Gt", ["15"]), ["a2"]),
        (P.node_selector(zone="b").node_affinity("size", "Gt", ["15"]), []),
        # What differs on every node is judged node by node.
        (P.node_affinity("kubernetes.io/hostname", "In", ["a1", "b1"]), ["a1", "b1"]),
        (P.node_selector("kubernetes.io/hostname", "a2"), ["a2"]),
        (P.node_names("a2", "b1"), ["a2", "b1"]),
    ],
)
def test_where_a_pod_may_run(pod: PodBuilder, expected: list[str]) -> None:
    assert bench().feasible(pod) == expected


def test_a_pod_without_requirements_is_not_looked_at() -> None:
    made = bench()
    made.schedule(P)
    assert made.state.skip_filter == {"NodeAffinity"}
    assert made.state.skip_score == {"NodeAffinity"}


def test_the_words_of_a_pod_that_matches_no_node() -> None:
    rejection = bench().reject(P.node_selector(zone="z"))
    assert rejection.message == "0/3 nodes are available: 3 node(s) didn't match Pod's node affinity/selector."
    assert {status.code for status in rejection.diagnosis.node_statuses().values()} == {
        Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    }


def test_a_daemons_pod_looks_at_its_node_only() -> None:
    made = bench()
    rejection = made.reject(P.node_names("a1").node_affinity("zone", "In", ["b"]))
    assert rejection.message == (
        "0/3 nodes are available: 1 node(s) didn't match Pod's node affinity/selector, "
        "2 node(s) didn't satisfy plugin(s) [NodeAffinity]."
    )


def test_an_operator_that_does_not_exist_rejects_the_pod_and_is_named() -> None:
    rejection = bench().reject(P.node_affinity("zone", "Near", ["a"]))
    assert rejection.status.code is not Code.ERROR
    assert "Near" in rejection.message


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        # Σ weights of terms that match, scaled so that the best has 100.
        (P.preferred_node_affinity(10, "zone", ["a"]), {"a1": 100, "a2": 100, "b1": 0}),
        (
            P.preferred_node_affinity(10, "zone", ["a"]).preferred_node_affinity(20, "size", ["20"]),
            {"a1": 33, "a2": 100, "b1": 0},
        ),
        (P.preferred_node_affinity(10, "zone", ["z"]), {"a1": 0, "a2": 0, "b1": 0}),
        (
            P.preferred_node_affinity(5, "kubernetes.io/hostname", ["b1"]).preferred_node_affinity(1, "zone", ["a"]),
            {"a1": 20, "a2": 20, "b1": 100},
        ),
    ],
)
def test_preferences_are_weighed_and_scaled(pod: PodBuilder, expected: dict[str, int]) -> None:
    assert bench().scores(pod) == expected


def test_a_label_that_changes_counts_at_once() -> None:
    made = bench()
    pod = P.node_selector(zone="b")
    assert made.feasible(pod) == ["b1"]
    made.node(make_node("a1").label(zone="b"))
    assert made.feasible(pod) == ["a1", "b1"]


def test_preferences_that_can_add_nothing_are_scored_nevertheless() -> None:
    made = bench()
    made.schedule(P.preferred_node_affinity(0, "zone", ["a"]))
    assert made.state.skip_score == set()
