"""Small grids: a few pods on a few nodes, so that a run takes a tenth of a second."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from kscheduler.sweep.grid import parse_grid
from kscheduler.sweep.plan import Plan
from kscheduler.sweep.results import Finished, Result
from kscheduler.sweep.runs import Run, Task
from tests.simulator.trace_files import NODES, PODS

STRATEGY = "profiles[0].pluginConfig[name=NodeResourcesFit].args.scoringStrategy.type"


def grid(**changes: Any) -> dict[str, Any]:
    """A grid of one generated trace, one cluster of five nodes, and a spreading and a packing configuration."""
    return {
        "traces": [{"name": "few", "pods": 30, "arrival": "poisson:10"}],
        "cluster": [{"name": "five", "nodes": 5}],
        "configs": [{"name": "spread"}, {"name": "packed", "patches": {STRATEGY: ["MostAllocated"]}}],
        "metrics": ["placed", "allocated:cpu", "decisions/s"],
        **changes,
    }


def plan(seeds: Sequence[int] = (1, 2), **changes: Any) -> Plan:
    return Plan(parse_grid(grid(**changes), "grid.yaml", ""), seeds)


def tasks(seeds: Sequence[int] = (1, 2), **changes: Any) -> list[Task]:
    return list(plan(seeds, **changes).tasks())


def write_grid(directory: Path, **changes: Any) -> str:
    """Write a grid file; return its path."""
    path = directory / "grid.yaml"
    path.write_text(yaml.safe_dump(grid(**changes), sort_keys=False))
    return str(path)


def traced(directory: Path, **changes: Any) -> dict[str, Any]:
    """A grid of a trace in files, which are written into the directory."""
    (directory / "pods.csv").write_text(PODS)
    (directory / "nodes.csv").write_text(NODES)
    return grid(
        traces=[{"pods": str(directory / "pods.csv")}], cluster=[{"nodes": str(directory / "nodes.csv")}], **changes
    )


def run(seed: int = 1, config: str = "a", trace: str = "t", cluster: str = "c") -> Run:
    return Run(f"{trace}-{cluster}-{config}-{seed}", trace, cluster, config, seed)


def finished(of: Run, **figures: float) -> Finished:
    """A finished run with these figures; "__" in a name is a colon."""
    named = {name.replace("__", ":").replace("_", "-"): value for name, value in figures.items()}
    return Finished(Result(of.key, of.trace, of.cluster, of.config, of.seed, ending="ended", figures=named))
