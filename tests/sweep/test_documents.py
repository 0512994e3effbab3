"""The grid in the README is a valid one."""

from __future__ import annotations

from pathlib import Path

import yaml

from kscheduler.sweep.grid import parse_grid
from kscheduler.sweep.plan import Plan

README = Path(__file__).parents[2] / "README.md"


def test_the_grid_of_the_readme_can_be_planned() -> None:
    text = README.read_text(encoding="utf-8").split("# grid.yaml\n")[1].split("```")[0]
    plan = Plan(parse_grid(yaml.safe_load(text), "README.md", ""), range(42, 52))
    plan.check_traces()
    assert len(plan.runs()) == 40
    assert plan.configs == ["spread", "packed"]
