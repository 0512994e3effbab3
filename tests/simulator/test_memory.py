"""A simulation that has ended is freed, so that a process can run any number of them, as those of a sweep do."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kscheduler.api.devices import DeviceObject
from kscheduler.api.objects import Node
from kscheduler.config.load import default_config, load_config, parse_config
from kscheduler.config.types import SchedulerConfig
from kscheduler.scheduler import Options, Scheduler
from kscheduler.simulator.real_scheduler import real_scheduler
from kscheduler.simulator.run import RunSettings, simulate_scenario
from kscheduler.simulator.scenario import Arrival, Scenario
from kscheduler.simulator.workload import default_workload, generate
from kscheduler.simulator.workload_file import read_workload
from kscheduler.testing import PodBuilder, make_node, make_pod
from tests.devices.building import devices, make_class, make_slice, request
from tests.scenarios.quotas import CONFIG as QUOTAS
from tests.scenarios.quotas import quota
from tests.scenarios.share_queues import CONFIG as SHARES
from tests.scenarios.share_queues import LABEL, queue
from tests.simulator.changing_clusters import scenario
from tests.simulator.suite_scenarios import SuiteScenario, small_plans
from tests.support.devices import TEMPLATE, gpu_pod, template

GANGS = Path(__file__).parents[2] / "perf" / "gangs"


def four_nodes() -> list[Node]:
    return [make_node(f"n{at}").capacity(cpu="4", memory="16Gi", pods=20).obj() for at in range(4)]


def waves(*waves: Callable[[int], PodBuilder]) -> list[Arrival]:
    """Return as many pods of each kind as there is room for on four nodes, each kind 10 s after the one before."""
    return [Arrival(10.0 * wave, make(number).obj()) for wave, make in enumerate(waves) for number in range(16)]


def with_devices() -> Scenario:
    """More pods than there are devices: some wait for those of pods that end."""
    slices = [make_slice(f"n{at}", devices("g0"), node_name=f"n{at}", pool=f"n{at}") for at in range(4)]
    items: list[DeviceObject] = [make_class(), *slices, template(TEMPLATE, request())]
    arrivals = [Arrival(float(number), gpu_pod(f"p{number}").obj(), runs_s=20.0) for number in range(8)]
    return Scenario(four_nodes(), arrivals, devices=items)


def with_quotas() -> Scenario:
    """A namespace borrows what another one takes back."""
    arrivals = waves(
        lambda number: make_pod(f"p{number}", "borrows").req(cpu="1"),
        lambda number: make_pod(f"p{number}", "lends").req(cpu="1"),
    )
    return Scenario(
        four_nodes(), arrivals, quotas=[quota(each, {"cpu": "8"}, {"cpu": "16"}) for each in ("borrows", "lends")]
    )


def with_share_queues() -> Scenario:
    """A queue uses what another one reclaims."""
    arrivals = waves(
        lambda number: make_pod(f"first-{number}").label(**{LABEL: "first"}).req(cpu="1"),
        lambda number: make_pod(f"second-{number}").label(**{LABEL: "second"}).req(cpu="1"),
    )
    return Scenario(four_nodes(), arrivals, queues=[queue(each, deserved=8) for each in ("first", "second")])


SCENARIOS: dict[str, Callable[[], Scenario]] = {
    "pods alone": lambda: generate(default_workload(10, 100, "poisson:10", "exp:5", seed=3)),
    "more pods than there is room for": lambda: generate(default_workload(2, 100, "now", "forever", seed=3)),
    "nodes that go and come": lambda: scenario(3),
    "preemption": lambda: SuiteScenario(small_plans()["PreemptionBasic"]).build(),
    "pod affinity": lambda: SuiteScenario(small_plans()["SchedulingPodAffinity"]).build(),
    "volumes": lambda: SuiteScenario(small_plans()["SchedulingCSIPVs"]).build(),
    "devices": with_devices,
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


@pytest.mark.parametrize(
    ("make", "config"),
    [(with_quotas, QUOTAS), (with_share_queues, SHARES)],
    ids=["elastic quotas", "queues with shares"],
)
def test_a_simulation_of_tenants_that_has_ended_leaves_no_scheduler(make: Callable[[], Scenario], config: str) -> None:
    assert not schedulers_left_by(make(), parse_config(config))
