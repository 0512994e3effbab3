"""The answer says which pods end otherwise, how long pods wait, and what stays pending."""

from __future__ import annotations

from dataclasses import replace

from kscheduler.simulator.scenario import Scenario
from kscheduler.simulator.workload import DEFAULT_NODE_SHAPES
from kscheduler.whatif.answer import Answer, Waiting, difference
from kscheduler.whatif.node_changes import Addition, NodeChanges, changed_scenario, nodes_of
from kscheduler.whatif.shapes import Shapes
from tests.whatif.scenarios import OURS, side, two_nodes


def with_one_more(scenario: Scenario) -> Scenario:
    shapes = Shapes(nodes_of(scenario), DEFAULT_NODE_SHAPES)
    return changed_scenario(scenario, NodeChanges(add=(Addition("small", 1),)), shapes, OURS)


def answered(before: Scenario, after: Scenario, limit: int = 3) -> Answer:
    return difference(side(before), side(after, name="changed"), ["with one more"], limit=limit)


def test_a_node_more_schedules_pods_that_were_pending() -> None:
    answer = answered(two_nodes(), with_one_more(two_nodes()))
    pods = answer.comparison.pods
    assert (pods.only_placed_in_b, pods.only_placed_in_a, pods.placed_in_neither) == (2, 0, 1)
    assert (answer.scheduled, answer.no_longer_scheduled) == (["default/p8", "default/p9"], [])
    assert answer.on_added_nodes == 4
    assert [(reason.pods, reason.kind) for reason in answer.pending] == [(1, "Insufficient cpu")]
    assert answer.waiting[2] == Waiting("p99", None, None)  # the huge pod waits in both
    assert len(answer.comparison.differences) == 3


def test_a_node_less_leaves_pods_pending() -> None:
    fewer = replace(two_nodes(), nodes=two_nodes().nodes[:1])
    pods = answered(two_nodes(), fewer).comparison.pods
    assert (pods.only_placed_in_b, pods.only_placed_in_a, pods.placed_in_neither) == (0, 4, 3)


def test_waiting_times_are_of_all_pods() -> None:
    before, after = two_nodes(), with_one_more(two_nodes())
    for scenario in (before, after):
        scenario.arrivals.pop()  # the huge one
    waiting = {each.share: each for each in answered(before, after).waiting}
    assert waiting["max"].before_s is None
    assert waiting["max"].after_s is not None
    assert waiting["max"].after_s < 1.0


def test_the_same_scenario_gives_no_difference() -> None:
    answer = answered(two_nodes(), two_nodes())
    assert not answer.comparison.differs
    assert answer.on_added_nodes == 0


def test_what_chance_alone_would_change_is_counted() -> None:
    more = side(with_one_more(two_nodes()))
    answer = difference(side(two_nodes()), more, [], limit=0, other_seed=lambda: side(two_nodes()))
    assert answer.by_chance is not None
    assert answer.by_chance.same_node == 8
