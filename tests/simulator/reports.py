"""Small simulations, and the data of their reports."""

from __future__ import annotations

import argparse
from typing import Any

from kscheduler.simulator.options import add_arguments
from kscheduler.simulator.report import Machine, Report, build_report
from kscheduler.simulator.run import RunSettings, simulate_scenario
from kscheduler.simulator.scenario import Arrival, Scenario
from tests.simulator.first_fit import FirstFit, make_node
from tests.simulator.objects import pod


def namespace(*flags: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    return parser.parse_args(flags)


MACHINE = Machine(1.0, 0.9, 1000.0, 900.0, 100.0, 5.0, 80.0, "3.11.0")


def report_of(scenario: Scenario, **settings: Any) -> Report:
    outcome = simulate_scenario(scenario, FirstFit, RunSettings(**settings))
    return build_report(scenario, outcome, {"configuration": "none"}, MACHINE)


def small() -> Report:
    """Two nodes, of which one stays empty; one pod that fits nowhere, one that leaves before its turn."""
    arrivals = [
        Arrival(0.0, pod("a", "2"), runs_s=100.0),
        Arrival(10.0, pod("b", "1", priority=7)),
        Arrival(20.0, pod("big", "9")),
        Arrival(30.0, pod("hasty", "9"), leaves_at_s=40.0),
    ]
    return report_of(Scenario([make_node("n0", cpu="4"), make_node("n1", cpu="4")], arrivals))
