"""A simulation that has ended is freed, so that a process can run any number of them, as those of a sweep do."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kscheduler.config.load import default_config, load_config
from kscheduler.config.types import SchedulerConfig
from kscheduler.scheduler import Options, Scheduler
from kscheduler.simulator.real_scheduler import real_scheduler
from kscheduler.simulator.run import RunSettings, simulate_scenario
from kscheduler.simulator.scenario import Scenario
from kscheduler.simulator.workload import default_workload, generate
from kscheduler.simulator.workload_file import read_workload
from tests.simulator.changing_clusters import scenario
from tests.simulator.suite_scenarios import SuiteScenario, small_plans

GANGS = Path(__file__).parents[2] / "perf" / "gangs"

SCENARIOS: dict[str, Callable[[], Scenario]] = {
    "pods alone": lambda: generate(default_workload(10, 100, "poisson:10", "exp:5", seed=3)),
    "more pods than there is room for": lambda: generate(default_workload(2, 100, "now", "forever", seed=3)),
    "nodes that go and come": lambda: scenario(3),
    "preemption": lambda: SuiteScenario(small_plans()["PreemptionBasic"]).build(),
    "pod affinity": lambda: SuiteScenario(small_plans()["SchedulingPodAffinity"]).build(),
    "volumes": lambda: SuiteScenario(small_plans()["SchedulingCSIPVs"]).build(),
}


def schedulers_left_by(scenario: Scenario, config: SchedulerConfig) -> list[Scheduler]:
    """Simulate, and return the schedulers of the simulation that still exist."""
    built: list[weakref.ref[Scheduler]] = []

    def build(*args: Any, **kwargs: Any) -> Scheduler:
        made = Scheduler(*args, **kwargs)
        built.append(weakref.ref(made))
        return made

    outcome = simulate_scenario(scenario, real_scheduler(config, Options(), build), RunSettings())
    assert outcome.accounting.bound > 0
    del outcome
    gc.collect()
    assert built
    return [left for each in built if (left := each()) is not None]


@pytest.mark.parametrize("make", SCENARIOS.values(), ids=SCENARIOS)
def test_a_simulation_that_has_ended_leaves_no_scheduler(make: Callable[[], Scenario]) -> None:
    assert not schedulers_left_by(make(), default_config())


def test_a_simulation_of_gangs_that_has_ended_leaves_no_scheduler() -> None:
    workload = generate(read_workload(str(GANGS / "workload.yaml")))
    assert not schedulers_left_by(workload, load_config(str(GANGS / "coscheduling.yaml")))
