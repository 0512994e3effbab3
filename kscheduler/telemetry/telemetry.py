"""Live metrics while the scheduler runs: polls sources, stores samples, and updates the columns that plugins read.

Plugins read them through `framework.telemetry.Telemetry`, and never wait. Values change only when an answer arrives,
when values become too old, and when a node is added or removed.
"""

from __future__ import annotations

import asyncio
import logging
import math
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from kscheduler.client.concurrency import run_together, wait_event
from kscheduler.client.times import unix_seconds
from kscheduler.clock import Clock
from kscheduler.config.metric_policy import Freshness, Metric, PolicySpec, Source
from kscheduler.framework.telemetry import PolicyRef, SampleSteps, Telemetry
from kscheduler.observability.measurements import Measurements
from kscheduler.snapshot.node_table import NodeTable
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.telemetry.columns import BookColumn
from kscheduler.telemetry.limits import sliced
from kscheduler.telemetry.metric_health import MetricHealth
from kscheduler.telemetry.node_rows import NodeRows
from kscheduler.telemetry.policy_book import PolicyBook
from kscheduler.telemetry.poller import Poller
from kscheduler.telemetry.sample_book import SampleBook
from kscheduler.telemetry.source import OLDER, MakeSource, Reading, Readings, why_useless

log = logging.getLogger(__name__)

EXPIRY_STEP_S = 0.25  # values that become too old within this time are expired together
IDLE_S = 3600.0
FIRST_ANSWERS_S = 2.0  # a cold start waits this long for sources, then goes on without their values
MAX_COLUMNS = 256  # more columns than this are dropped when policies change
MAX_METRICS_OF_POLICIES = 64  # each costs its source one request per poll

RecordForPod = Callable[[PodInfo, str, str], None]  # pod, reason, note


class MetricState(NamedTuple):
    """How many nodes have a fresh, a stale or no sample of one metric at one moment."""

    metric: str
    age_s: float | None  # of the newest sample; None: no sample yet
    fresh: int  # number of nodes with a fresh sample; `stale` and `absent` likewise
    stale: int
    absent: int


class LiveTelemetry(Telemetry):
    def __init__(
        self,
        table: NodeTable,
        sources: Sequence[Source],
        metrics: Sequence[Metric],
        make_source: MakeSource,
        *,
        clock: Clock,
        rng: random.Random,
        policies: PolicyBook,
        observer: Measurements,
        record_for_pod: RecordForPod,
    ) -> None:
        self._clock = clock
        self._policies = policies
        self._observer = observer
        self._record_for_pod = record_for_pod
        self._health = MetricHealth(self._observer)
        self._rows = NodeRows(table, self._rows_changed)
        self._intervals = {source.name: source.interval.seconds for source in sources}
        self._configured = tuple(metrics)
        self._metrics: dict[str, Metric] = {}  # name -> metric
        self._books: dict[str, SampleBook] = {}  # name of a metric -> its samples
        self._columns: dict[tuple[str, Freshness | None], BookColumn] = {}
        self._counted: set[PolicyRef] = set()  # policies with counters at the observer
        self._plan_b: dict[PolicyRef, PolicySpec] = {}  # policies of pods seen so far that have a plan B
        self._in_plan_b: set[PolicyRef] = set()  # policies whose plan B was logged as in force
        self._watchers: list[Callable[[], object]] = []
        self._patience_ends = math.inf  # until then a cold start waits for sources
        self._sooner = asyncio.Event()  # set when a value may expire earlier than `_expire` waits for
        self.pollers = {
            source.name: Poller(source, make_source(source), self, clock, rng, self._observer) for source in sources
        }
        self._choose_metrics()
        self._policies.watch(self._policies_changed)
        self._observer.show_metrics(self.states, self.plans_b)

    # --- what plugins read ---

    def now(self) -> float:
        return self._clock.now()

    def moment_of(self, text: str) -> float:
        return unix_seconds(text) - self._clock.wall() + self._clock.now()

    def policy_of(self, pod: PodInfo) -> tuple[PolicyRef, PolicySpec] | None:
        found = self._policies.policy_of(pod)
        if found is not None and found[1].plan_b is not None:
            self._plan_b[found[0]] = found[1]
        return found

    @property
    def policies_version(self) -> int:
        return self._policies.version + self._health.version

    def column(self, metric: str, freshness: Freshness, *, last_good: bool = False) -> BookColumn:
        key = (metric, None if last_good else freshness)
        found = self._columns.get(key)
        if found is None:
            found = self._columns[key] = BookColumn(self._books[metric], self._rows, key[1], self._clock.now())
            self._sooner.set()
        return found

    def sample_of(self, metric: str, row: int) -> SampleSteps | None:
        book = self._books.get(metric)
        return None if book is None else book.steps(row, self._clock.now())

    def failures(self, metric: str) -> int:
        return self._health.failures(metric)

    def watch(self, changed: Callable[[], object]) -> None:
        self._watchers.append(changed)

    def record_event(self, pod: PodInfo, reason: str, note: str) -> None:
        self._record_for_pod(pod, reason, note)

    def count(self, what: str, policy: PolicyRef) -> None:
        self._counted.add(policy)
        self._observer.policy_counted(what, str(policy))

    # --- running ---

    async def run(self) -> None:
        """Poll sources and expire old values, until cancelled."""
        self._patience_ends = min(self._patience_ends, self._clock.now() + FIRST_ANSWERS_S)
        await run_together(self._expire(), *(poller.run() for poller in self.pollers.values()))

    async def wait_for_first_answers(self) -> None:
        """Wait until each source has answered or failed once, but at most FIRST_ANSWERS_S seconds over all calls."""
        until = self._patience_ends = min(self._patience_ends, self._clock.now() + FIRST_ANSWERS_S)
        for poller in self.pollers.values():
            await wait_event(poller.first_answer, max(until - self._clock.now(), 0.0))

    async def _expire(self) -> None:
        while True:
            now = self._clock.now()
            at = min((column.expires_at for column in self._columns.values()), default=math.inf)
            self._sooner.clear()
            await wait_event(self._sooner, min(max(at - now, EXPIRY_STEP_S), IDLE_S))
            # Also when woken early: frequent answers of one source must not delay the expiry of another's values.
            self._refresh(column for column in self._columns.values() if column.expires_at <= self._clock.now())

    # --- what pollers report ---

    def wanted(self, source: str) -> Sequence[Metric]:
        return [metric for metric in self._metrics.values() if metric.source == source]

    async def answered(self, source: str, readings: Readings) -> None:
        before = self._health.version
        for name, reading in readings.by_metric.items():
            book = self._books.get(name)
            if book is not None:
                await self._take(book, reading)
        for name in readings.failed.keys() & self._books.keys():
            self._health.was_useless(name, readings.failed[name], self._clock.now())
        if self._health.version != before:
            self._log_plans_b()
            self._notify()

    def failed(self, source: str, failures: int) -> None:
        for metric in self.wanted(source):
            self._health.source_failed(metric.name, failures)
        self._log_plans_b()
        self._notify()

    async def _take(self, book: SampleBook, reading: Reading) -> None:
        """Store the samples of an answer some at a time, so that other tasks can run.

        Columns are updated once all of them are stored.
        """
        bounds, now, wall = book.bounds(reading), self._clock.now(), self._clock.wall()
        refused = reading.refused
        taken = 0
        async for some in sliced(reading.samples.items()):
            taken += book.take(some, bounds, now, wall, refused)
        book.complete(now)
        self._health.refused(book.name, refused)
        if reason := self._why_useless(book, taken, reading, now):
            self._health.was_useless(book.name, reason, now)
        else:
            self._health.answered(book.name)
        self._refresh(column for (metric, _), column in self._columns.items() if metric == book.name)
        self._sooner.set()

    def _why_useless(self, book: SampleBook, taken: int, reading: Reading, now: float) -> str:
        """Return why a source's answer had no usable value of the metric; "" if it had one."""
        if not self._rows.node_count:
            return ""
        if not taken and not reading.refused[OLDER]:
            return why_useless(reading)
        if now - book.newest_at >= self._patience_s(book):
            return f"the newest sample is {now - book.newest_at:.0f} s old"
        return ""

    def _patience_s(self, book: SampleBook) -> float:
        """Return the greatest maximum age of samples, in seconds, that any policy allows for the metric.

        Without a policy that reads it, it is the default.
        """
        asked = [freshness for metric, freshness in self._columns if metric == book.name and freshness is not None]
        return max(map(book.cadence.max_age_s, asked or [Freshness()]))

    # --- bringing up to date ---

    def _refresh(self, columns: Iterable[BookColumn]) -> None:
        now = self._clock.now()
        changed = [column.refresh(now) for column in list(columns)]
        if any(changed):
            self._notify()

    def _log_plans_b(self) -> None:
        """Log each policy that has switched to its plan B (its fallback while sources fail) or back.

        It is cheap, because only policies of pods seen so far are checked.
        """
        now = {ref for ref, spec in self._plan_b.items() if spec.is_in_plan_b(self.failures)}
        for ref in now - self._in_plan_b:
            plan = self._plan_b[ref].plan_b
            assert plan is not None
            fields = {"policy": str(ref), "action": plan.action, "profile": plan.profile}
            log.warning("plan B of a metric policy is in force", extra=fields)
        for ref in self._in_plan_b - now:
            log.info("plan B of a metric policy has ended", extra={"policy": str(ref)})
        self._in_plan_b = now

    def _notify(self) -> None:
        for watcher in self._watchers:
            watcher()

    def _rows_changed(self, rows: list[int]) -> None:
        for book in self._books.values():
            book.clear(rows)
        for column in self._columns.values():
            column.clear(rows)

    def _policies_changed(self) -> None:
        self._plan_b.clear()
        for policy in [policy for policy in self._counted if not self._policies.knows(policy)]:
            self._counted.discard(policy)
            self._observer.policy_gone(str(policy))
        self._choose_metrics()
        if len(self._columns) > MAX_COLUMNS:
            self._columns.clear()  # some may belong to former policies; readers request theirs again
        self._notify()

    def _choose_metrics(self) -> None:
        """Choose the metrics of the configuration and of policies to read, and add or drop samples and columns."""
        chosen = {metric.name: metric for metric in self._configured}
        brought = [metric for metric in self._policies.metrics() if metric.name not in chosen]
        if len(brought) > MAX_METRICS_OF_POLICIES:
            fields = {"metrics": len(brought), "most": MAX_METRICS_OF_POLICIES}
            log.warning("policy objects name too many metrics; the rest are not asked for", extra=fields)
        chosen |= {metric.name: metric for metric in brought[:MAX_METRICS_OF_POLICIES]}
        for name in [name for name in self._books if chosen.get(name) != self._metrics[name]]:
            del self._books[name]
            self._health.forget(name)
            self._observer.metric_gone(name)
            for key in [key for key in self._columns if key[0] == name]:
                del self._columns[key]
        for name, metric in chosen.items():
            if name not in self._books:
                self._books[name] = SampleBook(metric, self._rows, self._intervals.get(metric.source, 0.0))
        self._metrics = chosen

    # --- for people ---

    def states(self) -> Iterator[MetricState]:
        """Yield the state of each metric. A sample is stale beyond the greatest maximum age that any policy allows."""
        self._rows.follow()
        now, nodes = self._clock.now(), self._rows.node_count
        for name, book in self._books.items():
            max_age_s = self._patience_s(book)
            fresh = sum(now - taken_at < max_age_s for taken_at in book.sampled_at)
            fresh -= sum(math.isinf(taken_at) for taken_at in book.sampled_at)
            known = sum(not math.isinf(taken_at) for taken_at in book.sampled_at)
            age_s = now - book.newest_at if math.isfinite(book.newest_at) else None
            yield MetricState(name, age_s, fresh, known - fresh, nodes - known)

    def describe(self) -> list[dict[str, object]]:
        """Return the state and the errors of each metric, for a log.

        `fresh_for_s` is the maximum age of a value, adapted to the observed update interval; `err` is the latest
        failure, or "".
        """
        found: list[dict[str, object]] = []
        for state in self.states():
            poller = self.pollers.get(self._metrics[state.metric].source)
            error = (poller.last_error if poller is not None else "") or self._health.reason(state.metric)
            found.append(
                {
                    **state._asdict(),
                    "fresh_for_s": round(self._patience_s(self._books[state.metric]), 1),
                    "err": error,
                    "refused": self._health.refusals(state.metric),
                }
            )
        return found

    def plans_b(self) -> dict[str, bool]:
        """Return whether plan B (the fallback while sources fail) is in force, by policy of the pods seen so far."""
        return {str(ref): spec.is_in_plan_b(self.failures) for ref, spec in self._plan_b.items()}
