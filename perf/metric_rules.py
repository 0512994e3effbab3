"""Measures what policies over live metrics cost: decisions per second with and without five rules.

    python -m perf.metric_rules                     # 5,000 nodes, pods of one class, then of 150 classes mixed
    python -m perf.metric_rules --interval 1        # all values are new every second, not every 15 as by default

The cluster is in memory. Runs are paired and take turns at being first; the ratio is computed within a pair, since a
machine's speed drifts. Four rules score (least load, a target, risk of variation, least power) and one filters; three
of them add the expected use of pods placed since the last sample. See `perf.decisions` for what is measured; a ratio of
1 means that rules cost nothing. `updates` is the number of polls in a run: each replaces all values, so that each pod
class has to read all nodes again.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import random
import statistics
import sys
from collections.abc import Callable, Sequence

from kscheduler.config.load import parse_config
from kscheduler.config.metric_policy import Metric, Source
from kscheduler.config.types import SchedulerConfig
from kscheduler.framework.plugins.registry import known_plugins
from kscheduler.observability.logs import QUIET, configure
from kscheduler.telemetry.source import Reading, Readings, Sample
from perf.decisions import SHAPES, Result, run

CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins: {{multiPoint: {{enabled: [{{name: MetricPolicy}}]}}}}
  pluginConfig:
  - name: MetricPolicy
    args:
      sources: [{{name: here, prometheus: {{url: "http://127.0.0.1:9"}}, interval: {interval}s, timeout: 1s}}]
      metrics:
      - {{name: cpu, source: here, query: cpu}}
      - {{name: varies, source: here, query: varies}}
      - {{name: memory, source: here, query: memory}}
      - {{name: power, source: here, query: power}}
      defaultPolicy: load
      policies:
      - name: load
        score:
        - {{metric: cpu, goal: Minimize, range: {{min: 0, max: 1}}, weight: 2, selfLoad: {{resource: cpu}}}}
        - {{metric: memory, goal: Target, target: 0.6, range: {{min: 0, max: 1}}, selfLoad: {{resource: memory}}}}
        - {{metric: cpu, goal: LowRisk, deviation: {{metric: varies, sensitivity: 2}}, range: {{min: 0, max: 1}}}}
        - {{metric: power, goal: Minimize}}
        filter:
        - {{metric: cpu, operator: LessThan, value: 0.95, selfLoad: {{resource: cpu, factor: 0.5}}}}
"""


class Values:
    """A metric source that answers at once, with other values for each node each time."""

    def __init__(self, nodes: int) -> None:
        self._names = [f"n{number}" for number in range(nodes)]
        self._rng = random.Random(1)
        self.updates = 0

    async def fetch(self, metrics: Sequence[Metric]) -> Readings:
        self.updates += 1
        draw = self._rng.random
        return Readings(
            {metric.name: Reading({name: Sample(0.6 * draw()) for name in self._names}) for metric in metrics}
        )

    async def close(self) -> None:
        pass


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="perf.metric_rules", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods", type=int, default=20_000)
    parser.add_argument("--shapes", nargs="+", choices=SHAPES, default=["basic", "mixed"])
    parser.add_argument("--lane", choices=("compiled", "general"), default="compiled")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--interval", type=int, default=15, help="seconds between two updates of all values")
    options = parser.parse_args(argv)
    configure(verbosity=QUIET)
    config = parse_config(CONFIG.format(interval=options.interval), find_plugins=known_plugins)
    header = f"{'pods':12}{'without':>12}{'with':>12}   ratio (lowest .. highest)   placed/s   updates"
    print(f"{header}   {options.rounds} rounds")
    for shape in options.shapes:
        _compare(shape, config, options)
    return 0


def _compare(shape: str, config: SchedulerConfig, options: argparse.Namespace) -> None:
    without: list[Result] = []
    ruled: list[Result] = []
    updates = 0

    def bare() -> None:
        without.append(asyncio.run(run(shape, options.nodes, options.pods, options.lane)))

    def under_rules() -> None:
        nonlocal updates
        values = Values(options.nodes)

        def make(source: Source) -> Values:
            return values

        ruled.append(asyncio.run(run(shape, options.nodes, options.pods, options.lane, config, make)))
        updates += values.updates

    for number in range(options.rounds):
        pair: list[Callable[[], None]] = [bare, under_rules]
        for measure in pair if number % 2 == 0 else reversed(pair):
            measure()
            gc.collect()
    ratios = [mine.decisions_per_s / other.decisions_per_s for mine, other in zip(ruled, without, strict=True)]
    placed = [mine.placed_per_s / other.placed_per_s for mine, other in zip(ruled, without, strict=True)]
    print(
        f"{shape:12}{statistics.median(each.decisions_per_s for each in without):12,.0f}"
        f"{statistics.median(each.decisions_per_s for each in ruled):12,.0f}"
        f"   {statistics.median(ratios):.2f} ({min(ratios):.2f} .. {max(ratios):.2f})"
        f"{statistics.median(placed):22.2f}{updates / options.rounds:10.1f}",
        flush=True,
    )


if __name__ == "__main__":
    sys.exit(main())
