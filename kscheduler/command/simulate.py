"""Implements `kscheduler simulate`: simulates, writes the reports, and fails if an invariant was violated."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from kscheduler.command.interruption import report_interruption
from kscheduler.command.report_files import check_writable, save
from kscheduler.config.capacity_scheduling import keeps_quotas
from kscheduler.config.queues import keeps_queues
from kscheduler.config.types import SchedulerConfig
from kscheduler.scheduler import Scheduler
from kscheduler.simulator.configuration import simulated_config, warnings_on_gates
from kscheduler.simulator.inputs import build_scenario, with_nodes
from kscheduler.simulator.options import SimulateArguments, read_arguments, settings_of
from kscheduler.simulator.placements import to_csv
from kscheduler.simulator.progress import progress_on
from kscheduler.simulator.real_run import few_collections, run_real_scheduler
from kscheduler.simulator.real_scheduler import BuildScheduler
from kscheduler.simulator.report import Machine, Report, build_report, to_compact_json, to_json
from kscheduler.simulator.report_text import to_text
from kscheduler.simulator.run import Outcome
from kscheduler.simulator.scenario import Scenario, with_warnings
from kscheduler.ui.page_file import to_html
from kscheduler.wasm.plugins import GuestPlugins

if TYPE_CHECKING:
    from kscheduler.simulator.kept_decisions import KeptDecisions
    from kscheduler.simulator.recorded import Recorded

EXIT_VIOLATED = 1


def simulate(namespace: argparse.Namespace) -> int:
    """Run a simulation, write its reports, and return the exit code: 0 if all invariants held. Raises ConfigError."""
    arguments = read_arguments(namespace)
    check_writable(arguments.output, arguments.html, arguments.placements)
    try:
        report, outcome = run(arguments)
    except KeyboardInterrupt:
        return report_interruption("no report is written")
    _write(arguments, report, outcome)
    for violation in report.violations:
        print(f"kscheduler: error: invariant violated: {violation}", file=sys.stderr)
    return EXIT_VIOLATED if report.violations else 0


def run(arguments: SimulateArguments) -> tuple[Report, Outcome]:
    """Run a simulation and compute its report. Raises ConfigError for wrong input, before anything is simulated."""
    guests = GuestPlugins(cache_dir=None, reloads=False)
    config = simulated_config(arguments, guests)
    recorded = None if arguments.record is None else _recorded(arguments.record, config, arguments.max_pods)
    read = build_scenario(arguments) if recorded is None else with_nodes(recorded.scenario, arguments)
    scenario = with_warnings(read, warnings_on_gates(arguments))
    if scenario.quotas and not keeps_quotas(config):
        scenario.notes.append("ElasticQuotas are not kept: no profile enables the plugin CapacityScheduling.")
    if scenario.queues:
        scenario.notes.extend(_notes_on_queues(scenario, config))
    kept = _kept_decisions(arguments, scenario)
    outcome, machine = _run(arguments, config, scenario, guests, kept)
    if recorded is not None:
        scenario.notes.append(recorded.compared(outcome))
    report = build_report(scenario, outcome, _parameters(arguments, config), machine)
    if kept is not None:
        report = msgspec.structs.replace(report, decisions=kept.of_report(outcome.accounting.start_s or 0.0))
    return report, outcome


def _notes_on_queues(scenario: Scenario, config: SchedulerConfig) -> list[str]:
    if not keeps_queues(config):
        return ["Queues share nothing: no profile enables the plugin Queues."]
    from kscheduler.quotas.queue_file import share_queues

    queues = share_queues(config)
    for item in scenario.queues:
        queues.set((type(item), item.metadata.name), item)
    return [f"A queue cannot be used: {fault}." for fault in queues.tree.faults.values()]


def _recorded(record: str, config: SchedulerConfig, max_pods: int) -> Recorded:
    from kscheduler.simulator.recorded import read_recorded

    names = frozenset(profile.scheduler_name for profile in config.profiles)
    return read_recorded(record, names, max_pods)


def _kept_decisions(arguments: SimulateArguments, scenario: Scenario) -> KeptDecisions | None:
    if arguments.decisions == 0:
        return None
    from kscheduler.simulator.kept_decisions import KeptDecisions, sample

    return KeptDecisions(sample(scenario, arguments.decisions))


def _run(
    arguments: SimulateArguments,
    config: SchedulerConfig,
    scenario: Scenario,
    guests: GuestPlugins,
    kept: KeptDecisions | None,
) -> tuple[Outcome, Machine]:
    build: BuildScheduler = Scheduler
    if kept is not None:
        from kscheduler.simulator.kept_decisions import SamplingScheduler

        build = partial(SamplingScheduler, kept=kept)
    shown = contextlib.nullcontext() if arguments.quiet else progress_on(len(scenario.arrivals))
    with few_collections(scenario), shown as progress:
        return run_real_scheduler(arguments, config, scenario, guests, progress, build=build)


def _parameters(arguments: SimulateArguments, config: SchedulerConfig) -> dict[str, str]:
    """Return the arguments that affect the result, for the report."""
    return {"configuration": _configuration_name(arguments), **settings_of(arguments, config.release)}


def _configuration_name(arguments: SimulateArguments) -> str:
    if arguments.config:
        return os.path.basename(arguments.config)
    if arguments.record:
        from kscheduler.simulator.recorded import recorded_header

        if recorded_header(arguments.record).configuration:
            return "the record's"
    return "default profile"


# --- files --------------------------------------------------------------------------------------------------------


def _write(arguments: SimulateArguments, report: Report, outcome: Outcome) -> None:
    # Files are written before the text is printed, which fails if the reader of stdout has closed the pipe.
    if arguments.output is not None:
        save(arguments.output, to_json(report))
    if arguments.html is not None:
        save(arguments.html, to_html(to_compact_json(report)))
    if arguments.placements is not None:
        save(arguments.placements, to_csv(outcome))
    if not arguments.quiet:
        print(to_text(report), end="")
