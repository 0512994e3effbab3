"""Objectives are parsed from one line of text, and count pods that never get a node."""

from __future__ import annotations

import functools

import pytest

from kscheduler.errors import ConfigError
from kscheduler.simulator.scenario import Arrival, Scenario
from kscheduler.whatif.objective import Objective
from kscheduler.whatif.played_side import FOR_EVER, PlayedSide
from tests.simulator.objects import pod
from tests.whatif.scenarios import side, small, two_nodes


def objective(text: str) -> Objective:
    return Objective.parse("--slo", text)


@functools.cache
def played_once() -> PlayedSide:
    return side(two_nodes())


@pytest.mark.parametrize(
    ("text", "is_met"),
    [
        ("pending p50 < 30s", True),
        ("pending p72.7 < 30s", True),
        ("pending p73 < 30s", False),  # three of eleven pods get no node
        ("pending max < 1h", False),
        ("pending mean < 1h", False),
        ("pending-p50<=30s", True),
        ("unplaced <= 3", True),
        ("unplaced < 3", False),
        ("placed > 72%", True),
        ("placed >= 0.73", False),
        ("allocated-peak:cpu >= 100%", True),
        ("preemptions > 0", False),
        ("simulated < 1h", True),
        ("simulated < 3600", True),
        ("simulated < 1ms", False),
        ("allocated:example.com/gpu < 50%", False),  # the cluster has none, so nothing is known of it
    ],
)
def test_an_objective_is_met_or_not(text: str, is_met: bool) -> None:
    assert objective(text).is_met(played_once()) is is_met


def test_a_figure_is_shown_in_its_unit() -> None:
    played = played_once()
    assert objective("pending p99 < 3s").shown(played) == "pending p99 = for ever"
    assert objective("placed > 3%").shown(played) == "placed = 72.73 %"
    assert objective("unplaced < 9").shown(played) == "unplaced = 3"
    assert objective("simulated < 5m").shown(played) == "simulated = 10 s"
    assert objective("simulated < 5m").unit == "seconds"
    assert objective("allocated:x < 9").shown(played) == "allocated:x = not known"


def test_a_pod_that_left_without_a_node_waited_until_then() -> None:
    arrivals = [Arrival(0.0, pod("huge", "64"), leaves_at_s=20.0), Arrival(0.0, pod("fits"))]
    played = side(Scenario([small("n0")], arrivals))
    assert played.waited_s(1.0) == 20.0
    assert played.mean_wait_s == pytest.approx(10.0, abs=0.01)


def test_without_pods_nobody_waits() -> None:
    played = side(Scenario([small("n0")]))
    assert (played.waited_s(0.99), played.mean_wait_s) == (0.0, 0.0)


def test_a_pod_of_another_scheduler_does_not_count() -> None:
    played = side(
        Scenario([small("n0")], [Arrival(0.0, pod("theirs", scheduler_name="other")), Arrival(0.0, pod("a"))])
    )
    assert played.waited_s(1.0) < FOR_EVER


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "--slo: expected a metric, one of < <= > >= and a value, as in"),
        ("pending p99", "--slo: expected a metric, one of < <= > >= and a value, as in"),
        ("pending p99 = 3s", "--slo: expected a metric, one of < <= > >= and a value, as in"),
        ("pending p99 < 3s < 4s", "--slo: expected a metric, one of < <= > >= and a value, as in"),
        ("pending p99 < 30", '--slo: "pending p99 < 30": expected a duration such as "15s"'),
        ("pending p99 < soon", "expected a duration"),
        ("pending p100 < 3s", '--slo: unknown metric "pending-p100"'),
        ("pendng p99 < 3s", '--slo: unknown metric "pendng-p99": did you mean "pending-p99"?'),
        ("unplaced < 3s", '--slo: "unplaced < 3s": expected a number, got "3s"'),
        ("unplaced < 3%", 'expected a number, got "3%"'),
        ("placed > most", 'expected a number or a percentage, got "most"'),
        ("decisions/s > 3", "which depends on this machine"),
        ("allocated < 3%", "such as allocated:cpu"),
    ],
)
def test_a_malformed_objective_is_refused(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as raised:
        objective(text)
    assert message in str(raised.value)
