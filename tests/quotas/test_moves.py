"""While pods that were moved are on their way, no others are moved."""

from __future__ import annotations

from kscheduler.api.objects import Pod
from kscheduler.quotas.kept_places import KeptPlace
from kscheduler.quotas.moves import LOOK_S, MOST_S, SETTLE_S, Moves
from kscheduler.quotas.pod_demand import Demand
from kscheduler.testing import make_pod

NOW = 1e9


def pods(*names: str) -> list[Pod]:
    return [make_pod(name).obj() for name in names]


def stays(pod: Pod) -> bool:
    return True


def has_gone(pod: Pod) -> bool:
    return False


def test_the_first_moves_wait_for_nothing() -> None:
    assert Moves(1).wait_s(NOW, stays) == 0
    assert Moves(1).wait_s(0.0, stays) == 0


def test_others_wait_until_the_last_pod_has_gone_and_its_successor_should_have_a_node() -> None:
    moves, (first, second) = Moves(2), pods("first", "second")
    moves.begin([first, second], NOW)
    assert moves.wait_s(NOW, stays) == LOOK_S
    assert moves.wait_s(NOW + 5, lambda pod: pod is second) == LOOK_S
    assert not moves.is_moving(first.metadata.uid)
    assert moves.is_moving(second.metadata.uid)
    assert moves.wait_s(NOW + 30, has_gone) == SETTLE_S
    assert not moves.is_moving(second.metadata.uid)
    assert moves.wait_s(NOW + 32, has_gone) == SETTLE_S - 2
    assert moves.wait_s(NOW + 30 + SETTLE_S, has_gone) == 0


def test_a_pod_that_does_not_end_is_not_waited_for_without_end() -> None:
    moves = Moves(1)
    moves.begin(pods("stuck"), NOW)
    assert moves.wait_s(NOW + MOST_S - 1, stays) == LOOK_S
    assert moves.wait_s(NOW + MOST_S, stays) == SETTLE_S
    assert moves.wait_s(NOW + MOST_S + SETTLE_S, stays) == 0


def test_a_clock_that_was_set_back_keeps_nobody_waiting() -> None:
    moves = Moves(1)
    moves.begin(pods("p"), NOW)
    assert moves.wait_s(NOW - 1000, stays) == SETTLE_S
    assert moves.wait_s(NOW - 2000, stays) == 0


def test_places_are_kept_as_long_as_pods_are_on_their_way() -> None:
    moves = Moves(1)
    moves.begin(pods("p"), NOW, [KeptPlace("uid", "set", Demand("a", {"cpu": 1}, True), "n1")])
    assert moves.wait_s(NOW + 30, has_gone) == SETTLE_S
    assert moves.places
    assert moves.wait_s(NOW + 30 + SETTLE_S, has_gone) == 0
    assert not moves.places


def test_nobody_should_be_on_the_way_any_more_after_the_longest_grace_period() -> None:
    moves, (first, second) = Moves(2), [make_pod(f"p{grace}").grace_period(grace).obj() for grace in (5, 60)]
    moves.begin([first, second], NOW)
    assert moves.expected_s(NOW) == 60 + SETTLE_S
    assert moves.expected_s(NOW + 1000) == LOOK_S
    assert moves.expected_s(NOW - 1000) == MOST_S
