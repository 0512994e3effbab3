"""Which pods leave places to those that come again, and when a place is given up."""

from __future__ import annotations

import pytest

from kscheduler.quotas.kept_places import KeptPlace, KeptPlaces
from kscheduler.quotas.pod_demand import Demand
from kscheduler.testing import PodBuilder, make_pod


def demand(queue: str = "a", priority: int = 0) -> Demand:
    return Demand(queue, {"cpu": 1}, True, priority)


def of(controller: str, name: str = "p") -> PodBuilder:
    return make_pod(name).owner("ReplicaSet", controller)


def kept(*nodes: str) -> KeptPlaces:
    """Places of pods that one controller creates again."""
    made = KeptPlaces()
    made.keep(KeptPlace(f"moves-to-{name}", "uid-set", demand(priority=5), name) for name in nodes)
    return made


@pytest.mark.parametrize(
    ("pod", "wants", "leaves"),
    [
        (of("other"), demand(priority=5), 1),
        (of("other"), demand(priority=0), 1),
        (of("other"), demand(priority=6), 0),
        (of("other"), demand("b", priority=6), 1),
        (make_pod("bare"), demand(), 1),
        (of("set"), demand(priority=5), 0),
    ],
    ids=["as important", "less", "more", "more, of another queue", "without a controller", "of the same controller"],
)
def test_who_leaves_a_place_to_the_pod_that_comes_again(pod: PodBuilder, wants: Demand, leaves: int) -> None:
    assert len(list(kept("n1").before(pod.obj(), wants))) == leaves


def left(places: KeptPlaces) -> list[str]:
    return [place.node_name for place in places.before(make_pod("other").obj(), demand())]


def has_node(uid: str) -> bool:
    return True


def test_a_pod_that_got_a_node_gives_up_the_place_there_and_else_any_of_its_controller() -> None:
    places = kept("n1", "n2", "n3")
    places.got_node(of("set", "first").obj())
    places.settle(lambda uid, node_name: node_name == "n2", has_node)
    assert left(places) == ["n1", "n3"]
    places.got_node(of("set", "second").obj())
    places.settle(lambda uid, node_name: False, has_node)
    assert left(places) == ["n3"]
    places.got_node(of("other", "third").obj())
    places.settle(lambda uid, node_name: True, has_node)
    assert left(places) == ["n3"]


def test_a_pod_that_was_on_a_node_before_gives_up_nothing() -> None:
    places = kept("n1")
    places.got_node(of("set").node("n1").obj())
    places.settle(lambda uid, node_name: True, has_node)
    assert left(places) == ["n1"]


def test_a_pod_whose_binding_has_failed_gives_up_nothing() -> None:
    places = kept("n1")
    places.got_node(of("set").obj())
    places.settle(lambda uid, node_name: False, lambda uid: False)
    assert left(places) == ["n1"]


def test_each_pod_that_waits_takes_one_place_of_its_own_controller() -> None:
    waiting = [of("set", "first").obj(), of("other", "second").obj(), make_pod("bare").obj()]
    assert [place.node_name for place in kept("n1", "n2", "n3").besides(waiting)] == ["n2", "n3"]
    assert not list(kept("n1").besides(waiting))


def test_places_of_new_moves_replace_those_of_old_ones() -> None:
    places = kept("n1")
    places.got_node(of("set").obj())
    places.keep([KeptPlace("x", "other-set", demand(), "n2")])
    assert left(places) == ["n2"]
    places.end()
    assert not places
