"""Two sides are compared whose difference is known: which pods landed elsewhere, why, and what follows from what."""

from __future__ import annotations

import msgspec
import pytest

from kscheduler.compare.comparing import Comparison, compare
from kscheduler.compare.differences import PodDifference
from kscheduler.errors import ConfigError
from kscheduler.simulator.inputs import build_scenario
from kscheduler.simulator.options import SimulateArguments
from kscheduler.simulator.scenario import Arrival, Scenario
from tests.compare.runs import (
    DEFAULT,
    LEAST,
    MOST,
    SAMPLING,
    WITHOUT_TAINTS,
    arriving,
    nodes,
    simulated,
    small_pods,
    tainted,
)
from tests.simulator.objects import pod


def compared(scenario: Scenario, a: str, b: str, limit: int = 20) -> Comparison:
    return compare(simulated("a", scenario, a), simulated("b", scenario, b), limit)


def brief(difference: PodDifference) -> tuple[str, str, str, str, str]:
    why = difference.why
    return difference.pod.partition("/")[2], difference.node_a, difference.node_b, why.kind, why.plugin


def test_equal_configurations_place_every_pod_equally() -> None:
    found = compared(Scenario(nodes(3), arriving(*small_pods(10))), LEAST, LEAST)
    assert found.pods.common == found.pods.same_node == 10
    assert (found.pods.different, found.differences, found.not_listed) == (0, [], 0)
    assert not found.differs


def test_another_strategy_is_named_by_its_plugin_and_the_first_pod_is_the_root() -> None:
    # The first pod meets equal empty nodes; the second is spread by A, and packed by B.
    found = compared(Scenario(nodes(2), arriving(*small_pods(3))), LEAST, MOST)
    assert [brief(each) for each in found.differences] == [("p1", "n1", "n0", "score", "NodeResourcesFit")]
    first = found.differences[0]
    assert (first.state, first.follows_from, first.at_s) == ("equal", "", 1.0025)
    # 500m of 4 are requested on n0, and the pod itself; the weight is 2.
    assert first.why.scores[0].in_a == (2 * 87, 2 * 75)
    assert first.why.scores[0].in_b == (2 * 12, 2 * 25)
    assert found.pods.moved == 1
    assert found.differs


def test_what_happens_on_the_nodes_of_an_earlier_difference_follows_from_it() -> None:
    found = compared(Scenario(nodes(3), arriving(*small_pods(4))), LEAST, MOST)
    first, second = found.differences
    assert (first.pod, first.node_a, first.node_b, first.state, first.follows_from) == (
        "default/p1",
        "n1",
        "n0",
        "equal",
        "",
    )
    assert (second.pod, second.node_a, second.node_b) == ("default/p2", "n2", "n0")
    assert (second.state, second.follows_from, second.changed) == ("different", "default/p1", ["default/p1"])
    # In A, the fourth pod begins the next round on n0, where B has all of them.
    assert found.pods.same_node == 2


def test_a_filter_that_only_one_side_has_is_named_with_its_message() -> None:
    scenario = Scenario([tainted(nodes(1)[0]), nodes(2)[1]], arriving(pod("p0")))
    found = compared(scenario, DEFAULT, WITHOUT_TAINTS)
    difference = found.differences[0]
    assert brief(difference) == ("p0", "n1", "n0", "filter", "TaintToleration")
    assert (difference.why.run, difference.why.node) == ("A", "n0")
    assert difference.why.message == "node(s) had untolerated taint(s)"


def test_a_pod_that_only_one_side_places_names_the_filter_of_the_other() -> None:
    found = compared(Scenario([tainted(nodes(1)[0])], arriving(pod("p0"))), DEFAULT, WITHOUT_TAINTS)
    difference = found.differences[0]
    assert brief(difference) == ("p0", "", "n0", "filter", "TaintToleration")
    assert (found.pods.only_placed_in_b, found.pods.moved) == (1, 0)
    figure = {each.name: (each.a, each.b) for each in found.figures}
    assert figure["unplaced"] == (1.0, 0.0)


def test_room_that_an_earlier_pod_took_is_the_reason_of_one_that_no_longer_fits() -> None:
    # A spreads the small pods over both nodes; B packs them, so that the large one fits.
    pods = [*small_pods(2, cpu="1"), pod("large", cpu="4")]
    found = compared(Scenario(nodes(2), arriving(*pods)), LEAST, MOST)
    small, large = found.differences
    assert brief(small) == ("p1", "n1", "n0", "score", "NodeResourcesFit")
    assert brief(large) == ("large", "", "n1", "filter", "NodeResourcesFit")
    assert (large.why.run, large.why.message) == ("A", "Insufficient cpu")
    assert (large.state, large.follows_from) == ("different", "default/p1")


def test_equal_scores_are_a_tie() -> None:
    scenario = Scenario(nodes(40), arriving(pod("p0")))
    one, other = (simulated(f"seed {seed}", scenario, LEAST, seed=seed, first_on_tie=False) for seed in (1, 2))
    found = compare(one, other)
    assert [each.why.kind for each in found.differences] == ["tie"]
    assert found.differences[0].state == "equal"


def test_a_difference_on_nodes_that_no_earlier_one_touched_does_not_follow_from_it() -> None:
    taints = [tainted(each) for each in nodes(4)[:2]]
    scenario = Scenario([*taints, *nodes(4)[2:]], arriving(pod("p0"), pod("p1")))
    found = compared(scenario, DEFAULT, WITHOUT_TAINTS)
    assert [brief(each)[1:3] for each in found.differences] == [("n2", "n0"), ("n3", "n1")]
    assert [brief(each)[3:] for each in found.differences] == [("filter", "TaintToleration")] * 2
    assert [each.state for each in found.differences] == ["equal", "elsewhere"]


def test_only_the_first_differences_are_listed_and_the_others_counted() -> None:
    scenario = Scenario(nodes(8), arriving(*small_pods(8)))
    every, few, none = (compared(scenario, LEAST, MOST, limit) for limit in (100, 2, 0))
    assert every.not_listed == 0
    assert few.differences == every.differences[:2]
    assert few.not_listed == len(every.differences) - 2
    assert (none.differences, none.not_listed) == ([], len(every.differences))
    assert none.pods == every.pods


def test_sides_without_a_common_pod_cannot_be_compared() -> None:
    a = simulated("a.yaml", Scenario(nodes(1), arriving(pod("p0"))))
    b = simulated("b.yaml", Scenario(nodes(1), arriving(pod("q0"), pod("q1"))))
    with pytest.raises(ConfigError, match=r"a\.yaml has 1 pods, b\.yaml 2, and none of them in common"):
        compare(a, b)


def test_sides_with_some_common_pods_are_compared_by_these() -> None:
    a = simulated("a", Scenario(nodes(2), arriving(*small_pods(3))))
    b = simulated("b", Scenario(nodes(2), arriving(*small_pods(2))))
    found = compare(a, b)
    assert (found.pods.common, found.pods.only_in_a, found.pods.only_in_b) == (2, 1, 0)
    assert found.notes == ["Only the 2 pods in common are compared: 1 only in a, 0 only in b."]
    assert found.differs


def test_a_node_that_only_one_side_has_is_the_reason() -> None:
    a, b = (simulated(name, Scenario(nodes(count), arriving(*small_pods(2)))) for name, count in (("a", 1), ("b", 2)))
    found = compare(a, b)
    difference = found.differences[0]
    assert (difference.node_a, difference.node_b) == ("n0", "n1")
    assert (difference.why.kind, difference.why.run, difference.why.node) == ("absent", "A", "n1")


def test_waiting_is_compared_pod_by_pod() -> None:
    # In A, the large pods wait until small ones leave; B has room for them at once.
    first = [Arrival(0.0, each, runs_s=30.0) for each in small_pods(4, cpu="1")]
    scenario = Scenario(nodes(2), [*first, Arrival(1.0, pod("large", cpu="4"))])
    found = compared(scenario, LEAST, MOST)
    assert found.paired is not None
    assert (found.paired.pods, found.paired.sooner, found.paired.later, found.paired.equal) == (5, 1, 0, 4)
    assert found.paired.mean_s == pytest.approx(-29.0 / 5, abs=0.3)
    assert found.paired.standard_error_s == pytest.approx(-found.paired.mean_s)
    none = compared(Scenario(nodes(1), arriving(pod("large", cpu="9"))), LEAST, MOST)
    assert none.paired is None


def test_the_result_is_the_same_each_time_but_for_what_the_machine_took() -> None:
    scenario = Scenario(nodes(5), arriving(*small_pods(20)))
    texts = []
    for _ in range(2):
        found = compared(scenario, LEAST, MOST)
        calm = [
            msgspec.structs.replace(each, report=msgspec.structs.replace(each.report, machine=None))
            for each in (found.a, found.b)
        ]
        figures = [each for each in found.figures if not each.is_measured]
        texts.append(msgspec.json.encode(msgspec.structs.replace(found, a=calm[0], b=calm[1], figures=figures)))
    assert texts[0] == texts[1]


@pytest.mark.parametrize(
    ("a", "b", "node_count"), [(DEFAULT, MOST, 20), (WITHOUT_TAINTS, LEAST, 20), (SAMPLING, DEFAULT, 120)]
)
def test_every_difference_of_two_simulations_has_a_reason(a: str, b: str, node_count: int) -> None:
    scenario = build_scenario(SimulateArguments(nodes=str(node_count), pods="60", seed=5))
    sides = (simulated(name, scenario, config, seed=5, first_on_tie=False) for name, config in (("a", a), ("b", b)))
    one, other = sides
    found = compare(one, other, limit=1_000)
    assert found.not_listed == 0
    assert len(found.differences) == found.pods.different > 0
    assert {each.why.kind for each in found.differences} <= {"filter", "score", "tie", "not examined"}
    assert [each.state for each in found.differences].count("equal") == 1
    assert found.differences[0].state == "equal"
    assert all(each.follows_from for each in found.differences if each.state == "different")
