"""A simulation in which pods are watched makes the decisions that it makes without."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from kscheduler.compare.attempts import Attempt, Fit
from kscheduler.compare.watching import MAX_ATTEMPTS, Attempts, WatchingScheduler
from kscheduler.config.load import default_config
from kscheduler.scheduler import Scheduler
from kscheduler.simulator.inputs import build_scenario
from kscheduler.simulator.options import SimulateArguments
from kscheduler.simulator.placements import to_csv
from kscheduler.simulator.real_run import run_real_scheduler
from kscheduler.simulator.real_scheduler import BuildScheduler
from kscheduler.simulator.scenario import Arrival, Scenario
from kscheduler.wasm.plugins import GuestPlugins
from tests.compare.runs import arriving, nodes, simulated
from tests.simulator.objects import pod


def placed(scenario: Scenario, seed: int, build: BuildScheduler) -> bytes:
    guests = GuestPlugins(cache_dir=None, reloads=False)
    arguments = SimulateArguments(seed=seed)
    outcome, _ = run_real_scheduler(arguments, default_config(), scenario, guests, build=build)
    assert outcome.violations == []
    return to_csv(outcome)


def full() -> Scenario:
    """Nodes that are full of pods of low priority when those of high priority come and preempt them."""
    low = [Arrival(0.0, pod(f"low{number}", cpu="1")) for number in range(40)]
    high = [Arrival(5.0 + number, pod(f"high{number}", cpu="2", priority=10)) for number in range(12)]
    return Scenario(nodes(9), low + high)


def generated() -> Scenario:
    return build_scenario(SimulateArguments(nodes="150", pods="600", arrival="poisson:50", duration="exp:60"))


@pytest.mark.parametrize("make", [generated, full])
def test_decisions_are_those_of_a_run_without_watched_pods(make: Callable[[], Scenario]) -> None:
    scenario = make()
    first = placed(scenario, 7, Scheduler)
    keys = [line.partition(",")[0] for line in first.decode().splitlines()[1:]]
    kept = Attempts(dict.fromkeys(keys[::3], ("n0", "node-001")))
    assert placed(scenario, 7, partial(WatchingScheduler, kept=kept)) == first
    assert set(kept.by_pod) == set(keys[::3])


def test_an_attempt_has_what_plugins_answered_for_the_nodes_in_question() -> None:
    side = simulated("a", Scenario(nodes(3), arriving(pod("p0", cpu="3"), pod("p1", cpu="2"))))
    side.run()
    kept = side.attempts({"default/p1": ["n0", "n1", "gone"]}, None)
    assert kept is not None
    (attempt,) = kept.by_pod["default/p1"]
    assert (attempt.node, attempt.number, attempt.at_s) == ("n1", 2, 1.0)
    views = attempt.nodes
    assert (views["n0"].fit, views["n0"].plugin, views["n0"].message) == (
        Fit.FILTERED,
        "NodeResourcesFit",
        "Insufficient cpu",
    )
    assert views["n0"].pods == frozenset({"default/p0"})
    assert views["n1"].fit is Fit.FITS
    assert views["n1"].total == sum(score.weighted for score in views["n1"].scores.values()) > 0
    assert list(views["n1"].scores)[:2] == ["TaintToleration", "NodeResourcesFit"]
    assert views["gone"].fit is Fit.ABSENT


def test_a_rejected_pod_keeps_what_plugins_answered_too() -> None:
    side = simulated("a", Scenario(nodes(2), arriving(pod("large", cpu="9"))))
    side.run()
    kept = side.attempts({"default/large": ["n1"]}, 30.0)
    assert kept is not None
    attempt = kept.rejected_near("default/large", 0.0)
    assert attempt is not None
    assert attempt.message.startswith("0/2 nodes are available: 2 Insufficient cpu.")
    assert attempt.nodes["n1"].plugin == "NodeResourcesFit"
    assert kept.placed_on("default/large", "n1", 30.0) is None


def test_a_nominated_node_is_taken_without_examining_others() -> None:
    side = simulated("a", full())
    side.run()
    kept = side.attempts({"default/high0": [f"n{number}" for number in range(9)]}, None)
    assert kept is not None
    *rejected, bound = kept.by_pod["default/high0"]
    assert rejected
    assert not any(attempt.node for attempt in rejected)
    others = [view.fit for name, view in bound.nodes.items() if name != bound.node]
    assert (bound.nodes[bound.node].fit, others) == (Fit.FITS, [Fit.NOT_EXAMINED] * 8)


def test_of_many_attempts_the_first_and_the_latest_are_kept() -> None:
    kept = Attempts({"default/p": []})
    for number in range(100):
        kept.add("default/p", Attempt(float(number), number, "", {}))
    numbers = [attempt.number for attempt in kept.by_pod["default/p"]]
    half = MAX_ATTEMPTS // 2
    assert numbers == [*range(half), *range(100 - half, 100)]
