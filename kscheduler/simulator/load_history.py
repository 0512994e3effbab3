"""Records how evenly real load (what pods use, not what they request) was spread over the nodes during a simulation.

It keeps samples for plots, and means over the whole time. As in `timeline`, samples are taken before changes and
describe the state since the last one; there is no periodic timer.
"""

from __future__ import annotations

from typing import NamedTuple

from kscheduler.simulator.node_load import LEVELS
from kscheduler.simulator.real_load import RealLoad
from kscheduler.simulator.statistics import deviation, mean
from kscheduler.simulator.usage import RESOURCES

MAX_SAMPLES = 600
FIRST_INTERVAL_S = 5.0
NODES_A_SAMPLE = 500  # with more nodes than this, samples are rarer in proportion, since each reads all nodes


class Spread(NamedTuple):
    """Statistics of one resource over all nodes, as shares of each node's capacity."""

    requested: float  # mean over nodes of requested / capacity
    requested_deviation: float
    mean: float
    deviation: float
    max: float
    over: tuple[float, ...]  # for each of LEVELS, the share of nodes above it


class LoadSample(NamedTuple):
    at_s: float  # the state held from this time on
    spreads: tuple[Spread, ...]  # in the order of RESOURCES


class LoadHistory:
    """Samples the real load of all nodes while a simulation runs. Call `close` at the end, before reading results."""

    def __init__(self, load: RealLoad) -> None:
        self._load = load
        self._interval_s = FIRST_INTERVAL_S
        self._reset()
        load.before_change.append(self._before_change)

    def _reset(self) -> None:
        self.samples: list[LoadSample] = []
        self.sampled_s = 0.0  # the time that the integrals cover
        self.integrals = [[0.0] * 4 for _ in RESOURCES]  # integral over time of the first four fields of Spread
        self.highest = [0.0 for _ in RESOURCES]  # the highest load of any node in any sample
        self._changed_s = self._last_s = self._load.clock.now()

    def begin(self) -> None:
        """Start recording at the current time: drop samples and sums from before the first pod."""
        self._load.settle()
        self._reset()
        for node in self._load.nodes:
            for load in node.loads:
                load.over_s = [0.0] * len(LEVELS)

    def close(self, now: float) -> None:
        for node in self._load.nodes:
            for load in node.loads:
                load.settle(now)
        self._sample(now)

    def over_s(self, resource: int) -> list[float]:
        """Return, for each of LEVELS, the seconds that nodes spent above it, summed over all nodes."""
        return [sum(node.loads[resource].over_s[level] for node in self._load.nodes) for level in range(len(LEVELS))]

    def _before_change(self, now: float) -> None:
        if now - self._last_s >= self._interval_s * max(1.0, len(self._load.nodes) / NODES_A_SAMPLE):
            self._sample(now)
            if len(self.samples) > MAX_SAMPLES:
                del self.samples[1::2]
                self._interval_s *= 2
        self._changed_s = now

    def _sample(self, now: float) -> None:
        spreads = tuple(self._spread(resource, now) for resource in range(len(RESOURCES)))
        passed = max(0.0, now - self._last_s)
        self.sampled_s += passed
        for index, spread in enumerate(spreads):
            self.highest[index] = max(self.highest[index], spread.max)
            for field, value in enumerate(spread[:4]):
                self.integrals[index][field] += value * passed
        self.samples.append(LoadSample(self._changed_s, spreads))
        self._last_s = now

    def _spread(self, resource: int, now: float) -> Spread:
        loads = [node.loads[resource] for node in self._load.nodes if node.loads[resource].capacity]
        shares = [load.share(now) for load in loads]
        requests = [load.requested / load.capacity for load in loads]
        count = max(1, len(shares))
        over = tuple(sum(share > level for share in shares) / count for level in LEVELS)
        return Spread(
            mean(requests), deviation(requests), mean(shares), deviation(shares), max(shares, default=0.0), over
        )
