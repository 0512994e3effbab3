"""A simulation for its figures alone ends as one that keeps Events of bindings and metrics of the scheduler's steps."""

from __future__ import annotations

import pytest
from msgspec import structs

from kscheduler.config.load import default_config
from kscheduler.simulator.options import SimulateArguments
from kscheduler.simulator.placements import to_csv
from kscheduler.simulator.real_run import run_real_scheduler
from kscheduler.simulator.report import Report, build_report
from kscheduler.simulator.workload import default_workload, generate
from kscheduler.wasm.plugins import GuestPlugins

SCHEDULED = "Scheduled"


def played(arrival: str, duration: str, *, only_figures: bool) -> tuple[Report, bytes]:
    """Return the report and the placements of pods that do not all fit at once."""
    scenario = generate(default_workload(10, 150, arrival, duration, seed=3))
    guests = GuestPlugins(cache_dir=None, reloads=False)
    arguments = SimulateArguments(seed=3, max_time_s=100)
    outcome, _ = run_real_scheduler(arguments, default_config(), scenario, guests, only_figures=only_figures)
    return build_report(scenario, outcome, {}), to_csv(outcome)


@pytest.mark.parametrize(
    ("arrival", "duration"), [("now", "forever"), ("poisson:100", "exp:30"), ("bursts:100/2", "exp:5")]
)
def test_only_the_events_of_bindings_are_missing(arrival: str, duration: str) -> None:
    (whole, placements), (figures, same) = (played(arrival, duration, only_figures=only) for only in (False, True))
    assert whole.events[SCHEDULED] == whole.pods.placed > 0
    assert SCHEDULED not in figures.events
    assert structs.replace(figures, events={SCHEDULED: whole.pods.placed, **figures.events}) == structs.replace(
        whole, events={SCHEDULED: whole.pods.placed, **whole.events}
    )
    assert placements == same
