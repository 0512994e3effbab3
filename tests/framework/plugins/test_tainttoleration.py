from __future__ import annotations

import pytest

from kscheduler.framework.plugins.tainttoleration import TaintToleration
from kscheduler.testing import make_node, make_pod
from tests.support.framework_bench import Bench


def bench() -> Bench:
    return Bench.of(TaintToleration)


@pytest.mark.parametrize(
    ("effect", "kept_off"), [("NoSchedule", True), ("NoExecute", True), ("PreferNoSchedule", False)]
)
def test_hard_taints_keep_pods_off_and_soft_ones_do_not(effect: str, kept_off: bool) -> None:
    made = bench()
    made.node(make_node("n1").taint("gpu", "yes", effect))
    assert made.feasible() == ([] if kept_off else ["n1"])


def test_every_hard_taint_needs_a_toleration() -> None:
    made = bench()
    made.node(make_node("n1").taint("a").taint("b"))
    once = make_pod("p").toleration("a", "Exists")
    rejection = made.reject(once)
    assert rejection.message == "0/1 nodes are available: 1 node(s) had untolerated taint(s)."
    assert made.choose(once.toleration("b", "Exists")) == "n1"


@pytest.mark.parametrize(
    ("toleration", "tolerated"),
    [
        (("gpu", "Equal", "yes", "NoSchedule"), True),
        (("gpu", "", "yes", ""), True),
        (("gpu", "Equal", "no", "NoSchedule"), False),
        (("gpu", "Exists", "", "NoExecute"), False),
        (("", "Exists", "", ""), True),
        (("gpu2", "Exists", "", ""), False),
    ],
)
def test_a_toleration_matches_by_key_value_and_effect(toleration: tuple[str, str, str, str], tolerated: bool) -> None:
    made = bench()
    made.node(make_node("n1").taint("gpu", "yes"))
    assert made.feasible(make_pod("p").toleration(*toleration)) == (["n1"] if tolerated else [])


def test_nodes_with_fewer_untolerated_soft_taints_score_higher() -> None:
    made = bench()
    soft = "PreferNoSchedule"
    made.node(make_node("none"))
    made.node(make_node("one").taint("a", "", soft))
    made.node(make_node("three").taint("a", "", soft).taint("b", "", soft).taint("c", "", soft))
    # 100 - 100·s/3
    assert made.scores() == {"none": 100, "one": 67, "three": 0}
    assert made.scores(make_pod("p").toleration("a", "Exists", "", soft)) == {"none": 100, "one": 100, "three": 0}


def test_without_soft_taints_all_nodes_score_full() -> None:
    made = bench()
    made.nodes("n1", "n2")
    assert made.scores() == {"n1": 100, "n2": 100}


def test_a_toleration_of_hard_taints_does_not_count_for_soft_ones() -> None:
    made = bench()
    made.node(make_node("clean"))
    made.node(make_node("soft").taint("a", "", "PreferNoSchedule"))
    assert made.scores(make_pod("p").toleration("a", "Exists", "", "NoSchedule")) == {"clean": 100, "soft": 0}


def test_a_taint_that_comes_or_goes_counts_at_once() -> None:
    made = bench()
    made.node(make_node("n1"))
    assert made.feasible() == ["n1"]
    made.node(make_node("n1").taint("a"))
    assert made.feasible() == []
    made.node(make_node("n1"))
    assert made.feasible() == ["n1"]
