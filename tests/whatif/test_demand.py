"""The estimate of needed nodes is what pods request at one time, beyond what there is."""

from __future__ import annotations

from msgspec.structs import replace

from kscheduler.api.objects import Node, ObjectMeta
from kscheduler.simulator.scenario import Arrival
from kscheduler.testing import make_node
from kscheduler.whatif.demand import estimated_nodes
from tests.simulator.objects import pod
from tests.whatif.scenarios import small


def estimated(*arrivals: Arrival, nodes: int = 1) -> int:
    return estimated_nodes(arrivals, [small(f"n{number}") for number in range(nodes)], small("further"))


def test_pods_that_stay_add_up() -> None:
    arrivals = [Arrival(float(number), pod(f"p{number}")) for number in range(13)]
    assert [estimated(*arrivals, nodes=nodes) for nodes in (0, 1, 3, 4, 9)] == [4, 3, 1, 0, 0]


def test_pods_that_leave_make_room_for_those_that_come_then() -> None:
    assert estimated(*(Arrival(10.0 * number, pod(f"p{number}", "4"), runs_s=10.0) for number in range(9))) == 0
    assert estimated(*(Arrival(10.0 * number, pod(f"p{number}", "4"), runs_s=11.0) for number in range(9))) == 1
    assert estimated(*(Arrival(0.0, pod(f"p{number}", "4"), leaves_at_s=number + 1.0) for number in range(9))) == 8


def test_a_pod_larger_than_any_node_is_left_out() -> None:
    assert estimated(Arrival(0.0, pod("huge", "64"))) == 0
    large = make_node("large").capacity(cpu="64", memory="16Gi").obj()
    assert estimated_nodes([Arrival(0.0, pod("huge", "64"))], [large], small("further")) == 0


def test_a_cordoned_node_has_no_room() -> None:
    cordoned = replace(small("n0"), spec=replace(small("n0").spec, unschedulable=True))
    assert estimated_nodes([Arrival(0.0, pod("p"))], [cordoned], small("further")) == 1


def test_the_number_of_pods_on_a_node_is_a_resource() -> None:
    few = make_node("few").capacity(cpu="64", memory="16Gi", pods=2).obj()
    arrivals = [Arrival(0.0, pod(f"p{number}", "1m")) for number in range(5)]
    assert estimated_nodes(arrivals, [], few) == 3


def test_without_pods_no_node_is_needed() -> None:
    assert estimated() == 0


def test_nodes_without_capacity_are_not_counted_on() -> None:
    assert estimated_nodes([Arrival(0.0, pod("p"))], [], Node(metadata=ObjectMeta(name="empty"))) == 0
