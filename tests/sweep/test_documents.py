"""The grid in SIMULATION.md is a valid one."""

from __future__ import annotations

from pathlib import Path

import yaml

from kscheduler.sweep.grid import parse_grid
from kscheduler.sweep.plan import Plan

SIMULATION = Path(__file__).parents[2] / "SIMULATION.md"


def test_the_grid_of_the_guide_can_be_planned() -> None:
    text = SIMULATION.read_text(encoding="utf-8").split("# grid.yaml\n")[1].split("```")[0]
    plan = Plan(parse_grid(yaml.safe_load(text), "SIMULATION.md", ""), range(42, 52))
    plan.check_traces()
    assert len(plan.runs()) == 40
    assert plan.configs == ["spread", "packed"]
