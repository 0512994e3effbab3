"""A simulation ends early only if its end would be the same: the objective is missed."""

from __future__ import annotations

import pytest

from kscheduler.simulator.scenario import Arrival
from kscheduler.whatif.early_end import MANY, EarlyEnd, NeverMet
from kscheduler.whatif.objective import Objective
from tests.simulator.objects import pod
from tests.whatif.scenarios import OURS, side, two_nodes

P90 = Objective.parse("--slo", "pending p90 < 30s")


def watching(pods: int, *objectives: Objective, existing: int = 0) -> EarlyEnd:
    """One pod a second, after some that have a node."""
    arrivals = [Arrival(0.0, pod(f"e{number}", node_name="n0")) for number in range(existing)]
    arrivals += [Arrival(float(number), pod(f"p{number}")) for number in range(pods)]
    return EarlyEnd(objectives or (P90,), arrivals, OURS)


def ends(watch: EarlyEnd, *, arrived: int, pending: int) -> bool:
    try:
        watch.update(arrived=arrived, bound=0, pending=pending, virtual_s=0.0)
    except NeverMet:
        return True
    return False


@pytest.mark.parametrize("existing", [0, 500])
def test_it_ends_when_more_pods_have_waited_too_long_than_may(existing: int) -> None:
    """Of 1,000 pods 100 may; after 400 s, those of the first 369 s have waited too long."""
    watch = watching(1_000, existing=existing)
    assert not ends(watch, arrived=existing + 400, pending=400 - 269)
    assert not ends(watch, arrived=existing + 400, pending=MANY - 1)
    assert ends(watch, arrived=existing + 400, pending=400)
    assert [ends(watch, arrived=existing + 700, pending=700 - done) for done in (568, 569, 400)] == [False, False, True]


def test_the_limit_is_exact() -> None:
    watch = watching(4_000, P90)  # 400 may
    came = 2_000 - 1 - 30  # pods that came more than 30 s before the last of 2,000
    assert ends(watch, arrived=2_000, pending=2_000 - (came - 401))
    assert not ends(watch, arrived=2_000, pending=2_000 - (came - 400))


def test_other_objectives_end_nothing() -> None:
    for text in ("pending mean < 1s", "pending p90 > 1s", "unplaced <= 0"):
        assert not ends(watching(1_000, Objective.parse("--slo", text)), arrived=900, pending=900)


@pytest.mark.parametrize(
    ("text", "pods", "most"),
    [("pending p90 < 1s", 10, 1), ("pending p99 < 1s", 10, 0), ("pending max < 1s", 7, 0), ("pending p50 < 1s", 0, 0)],
)
def test_how_many_may_miss_is_what_the_percentile_says(text: str, pods: int, most: int) -> None:
    assert Objective.parse("--slo", text).may_miss(pods) == most


def test_a_simulation_can_be_ended_from_its_progress() -> None:
    class Impatient:
        def update(self, *, arrived: int, bound: int, pending: int, virtual_s: float) -> None:
            raise NeverMet(P90)

    played = side(two_nodes())
    with pytest.raises(NeverMet):
        played.run(Impatient())
    assert not played.is_played
