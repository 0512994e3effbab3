"""Live metrics of a test's own: values by node, policies by name, and a clock that a test moves."""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Callable, Mapping

from kscheduler.client.times import unix_seconds
from kscheduler.config.metric_policy import Freshness, PolicySpec
from kscheduler.framework.telemetry import POLICY_KEY, PolicyRef, SampleSteps, Telemetry
from kscheduler.snapshot.node_info import NodeInfo
from kscheduler.snapshot.node_table import NodeTable
from kscheduler.snapshot.pod_info import PodInfo


class FakeColumn:
    """Follows the node table: a node that comes has no value, and one that goes takes its value along."""

    def __init__(self, table: NodeTable, name: str, window_s: float = 0.0) -> None:
        self.name = name
        self.window_s = window_s
        self._table = table
        self._version = 0
        self._values: array[float] = array("d")
        self._times: array[float] = array("d")
        self._owners: list[NodeInfo | None] = []

    def set(self, values: Mapping[str, float], now: float) -> None:
        """Values by node, sampled now; nodes that are left out keep theirs."""
        self._follow()
        for name, value in values.items():
            row = self._table.row_of(name)
            if row is not None:
                self._values[row], self._times[row] = value, now
        self._version += 1

    def clear(self) -> None:
        """All are too old."""
        self._follow()
        self._values = array("d", [math.nan] * len(self._values))
        self._version += 1

    @property
    def version(self) -> int:
        self._follow()
        return self._version

    @property
    def values(self) -> memoryview:
        self._follow()
        return memoryview(self._values)

    @property
    def sampled(self) -> memoryview:
        self._follow()
        return memoryview(self._times)

    @property
    def least(self) -> float:
        return min(self._finite(), default=math.nan)

    @property
    def most(self) -> float:
        return max(self._finite(), default=math.nan)

    @property
    def sampled_at(self) -> float:
        return max((time for time in self.sampled if math.isfinite(time)), default=0.0)

    def _finite(self) -> list[float]:
        return [value for value in self.values if math.isfinite(value)]

    def _follow(self) -> None:
        rows = self._table.columns.rows
        if len(self._owners) < rows:
            grown = rows - len(self._owners)
            self._owners += [None] * grown
            self._values = self._values + array("d", [math.nan] * grown)
            self._times = self._times + array("d", [math.inf] * grown)
            self._version += 1
        for row, owner in enumerate(self._owners):
            if self._table.find(row) is not owner:
                self._owners[row] = self._table.find(row)
                self._values[row], self._times[row] = math.nan, math.inf
                self._version += 1


class FakeTelemetry(Telemetry):
    """The label or annotation of a pod names its policy; `default` is for pods that name none."""

    policies_version = 0

    def __init__(self, table: NodeTable) -> None:
        self._table = table
        self.time = 100.0  # seconds after the Unix epoch, too
        self.policies: dict[str, PolicySpec] = {}
        self.default = ""
        self.windows: dict[str, float] = {}  # metric -> seconds
        self.known: set[str] | None = None  # None: any metric is
        self.failed: Counter[str] = Counter()  # metric -> failures in a row
        self.reported: list[tuple[str, str, str]] = []  # pod, reason, note
        self.counted: Counter[str] = Counter()
        self._columns: dict[tuple[str, bool], FakeColumn] = {}
        self._watchers: list[Callable[[], object]] = []

    # --- what plugins read ---

    def now(self) -> float:
        return self.time

    def moment_of(self, text: str) -> float:
        return unix_seconds(text)

    def policy_of(self, pod: PodInfo) -> tuple[PolicyRef, PolicySpec] | None:
        meta = pod.pod.metadata
        name = (meta.labels or {}).get(POLICY_KEY) or (meta.annotations or {}).get(POLICY_KEY) or self.default
        if not name:
            return None
        if name not in self.policies:
            raise LookupError(f'there is no policy "{name}"')
        return PolicyRef("", name), self.policies[name]

    def column(self, metric: str, freshness: Freshness, *, last_good: bool = False) -> FakeColumn:
        if self.known is not None and metric not in self.known:
            raise KeyError(metric)
        key = metric, last_good
        if key not in self._columns:
            self._columns[key] = FakeColumn(self._table, metric, self.windows.get(metric, 0.0))
        return self._columns[key]

    def sample_of(self, metric: str, row: int) -> SampleSteps | None:
        column = self.column(metric, Freshness(), last_good=True)
        value = column.values[row]
        return None if math.isnan(value) else SampleSteps(value, value, value, self.time - column.sampled[row])

    def failures(self, metric: str) -> int:
        return self.failed[metric]

    def watch(self, changed: Callable[[], object]) -> None:
        self._watchers.append(changed)

    def record_event(self, pod: PodInfo, reason: str, note: str) -> None:
        self.reported.append((pod.key, reason, note))

    def count(self, what: str, policy: PolicyRef) -> None:
        self.counted[what] += 1

    # --- what tests do ---

    def set(self, metric: str, values: Mapping[str, float]) -> None:
        for last_good in (False, True):
            self.column(metric, Freshness(), last_good=last_good).set(values, self.time)
        self._notify()

    def expire(self, metric: str) -> None:
        """All values are too old, but the last good ones are known."""
        self.column(metric, Freshness()).clear()
        self._notify()

    def put(self, name: str, policy: PolicySpec) -> None:
        self.policies[name] = policy
        self._policies_changed()

    def drop(self, name: str) -> None:
        del self.policies[name]
        self._policies_changed()

    def fail(self, metric: str, times: int) -> None:
        self.failed[metric] = times
        self._policies_changed()

    def _policies_changed(self) -> None:
        self.policies_version += 1
        self._notify()

    def _notify(self) -> None:
        for watcher in self._watchers:
            watcher()
