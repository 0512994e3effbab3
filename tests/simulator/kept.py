"""Simulations of the real scheduler whose reports hold decisions."""

from __future__ import annotations

from functools import partial

import msgspec

from kscheduler.config.load import default_config
from kscheduler.simulator.kept_decisions import MAX_BYTES, KeptDecisions, SamplingScheduler, sample
from kscheduler.simulator.options import SimulateArguments
from kscheduler.simulator.real_run import run_real_scheduler
from kscheduler.simulator.report import Report, build_report
from kscheduler.simulator.scenario import Scenario
from kscheduler.wasm.plugins import GuestPlugins


def decided(scenario: Scenario, size: int | None = None, max_bytes: int = MAX_BYTES) -> Report:
    """Return the report of a simulation that keeps the decisions about `size` pods, None: about all; 0: none."""
    kept = KeptDecisions(sample(scenario, size), max_bytes)
    guests = GuestPlugins(cache_dir=None, reloads=False)
    run = partial(run_real_scheduler, SimulateArguments(), default_config(), scenario, guests)
    outcome, _ = run() if size == 0 else run(build=partial(SamplingScheduler, kept=kept))
    report = build_report(scenario, outcome, {})
    return msgspec.structs.replace(report, decisions=kept.of_report(outcome.accounting.start_s or 0.0))
