"""Runs one simulation with this program's scheduler, as its arguments say, and measures what it costs this machine."""

from __future__ import annotations

import contextlib
import gc
import platform
import resource
import time
from collections.abc import Iterator

from kscheduler.config.types import SchedulerConfig
from kscheduler.scheduler import Options, Scheduler
from kscheduler.simulator.cluster_client import Latency
from kscheduler.simulator.options import SimulateArguments
from kscheduler.simulator.real_scheduler import BuildScheduler, real_scheduler
from kscheduler.simulator.report import Machine
from kscheduler.simulator.run import Outcome, Progress, RunSettings, simulate_scenario
from kscheduler.simulator.scenario import Scenario
from kscheduler.wasm.plugins import GuestPlugins

# While the simulation grows it makes hardly any cyclic garbage, and nearly all of it is young. So no collection visits
# objects that survived an earlier one, which every pod does.
GC_THRESHOLDS = (200_000, 1_000_000, 1_000_000)
# A simulation of fewer pods leaves some tens of MB of garbage; to collect it, every object of the process is visited.
MANY_ARRIVALS = 10_000


def seed_of(arguments: SimulateArguments, scenario: Scenario) -> int:
    return scenario.seed if arguments.seed is None else arguments.seed


def run_real_scheduler(
    arguments: SimulateArguments,
    config: SchedulerConfig,
    scenario: Scenario,
    guests: GuestPlugins,
    progress: Progress | None = None,
    build: BuildScheduler = Scheduler,
    *,
    only_figures: bool = False,
) -> tuple[Outcome, Machine]:
    """Simulate the scenario with a scheduler of this configuration, and return the outcome and its cost.

    `build`: `Scheduler`, or a function of its arguments that returns an instance of a subclass. `only_figures`: leave
    out what only other readers ask for: the Events of pods that are bound, and metrics of the scheduler's steps.
    """
    latency_s = arguments.bind_latency_s
    settings = RunSettings(
        seed=seed_of(arguments, scenario),
        latency=Latency(bind_s=latency_s, write_s=latency_s),
        max_time_s=arguments.max_time_s,
        scheduler_names=frozenset(profile.scheduler_name for profile in config.profiles),
        release=config.release,
    )
    options = Options(
        first_on_tie=arguments.first_on_tie,
        bind_concurrency=arguments.bind_concurrency,
        max_in_unschedulable_s=arguments.retry_waiting_s,
        guests=guests,
        scheduled_events=not only_figures,
        measures_steps=not only_figures,
    )
    wall_s, cpu_s = time.perf_counter(), time.process_time()
    outcome = simulate_scenario(scenario, real_scheduler(config, options, build), settings, progress)
    return outcome, _machine(outcome, time.perf_counter() - wall_s, time.process_time() - cpu_s)


@contextlib.contextmanager
def few_collections(scenario: Scenario) -> Iterator[None]:
    """Collect cyclic garbage rarely within the block, and never visit the objects that exist before it.

    What an earlier, large simulation left is collected first.
    """
    before = gc.get_threshold()
    if len(scenario.arrivals) >= MANY_ARRIVALS:
        gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()


def _machine(outcome: Outcome, wall_s: float, cpu_s: float) -> Machine:
    bound = outcome.accounting.bound
    attempts = sum(outcome.attempts.values()) or bound
    return Machine(
        wall_s=round(wall_s, 3),
        cpu_s=round(cpu_s, 3),
        decisions_per_s=round(attempts / wall_s, 1),
        placed_per_s=round(bound / wall_s, 1),
        cpu_us_per_placed_pod=round(cpu_s * 1e6 / bound, 1) if bound else 0.0,
        virtual_days_per_s=round(outcome.accounting.duration_s / 86_400 / wall_s, 4),
        peak_memory_mib=round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1),
        python=platform.python_version(),
    )
