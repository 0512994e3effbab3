"""Polls one source periodically: one request at a time, each limited by a timeout, and rarely while the source fails.

The answers are passed to a listener, which interprets them.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Mapping, Sequence
from typing import Protocol

from kscheduler.client.concurrency import within
from kscheduler.clock import Clock
from kscheduler.config.metric_policy import Metric, Source
from kscheduler.counted import counted
from kscheduler.observability.measurements import Measurements
from kscheduler.telemetry.breaker import Breaker, BreakerState
from kscheduler.telemetry.outages import Outage
from kscheduler.telemetry.source import MetricSource, Readings, SourceError

log = logging.getLogger(__name__)

JITTER = 0.1  # share of the interval; keeps replicas, and sources of equal intervals, from polling in step
MIN_INTERVAL_S = 0.1
MAX_REASONS = 3  # reasons of metrics quoted in one line


class Listener(Protocol):
    def wanted(self, source: str) -> Sequence[Metric]:
        """Return the metrics to request from the source at the next poll."""
        ...

    def answered(self, source: str, readings: Readings) -> Awaitable[None]: ...

    def failed(self, source: str, failures: int) -> None:
        """Record that the source failed, for the `failures`-th time in a row."""
        ...


class Poller:
    def __init__(
        self,
        config: Source,
        source: MetricSource,
        listener: Listener,
        clock: Clock,
        rng: random.Random,
        observer: Measurements,
    ) -> None:
        self.name = config.name
        self.breaker = Breaker(config.breaker)
        self.first_answer = asyncio.Event()  # set after the first poll, whether it succeeded or failed
        self.last_error = ""  # "" while the source answers
        self._outage = Outage()
        self._has_answered = False
        self._source = source
        self._listener = listener
        self._clock = clock
        self._rng = rng
        self._observer = observer
        self._interval_s = max(config.interval.seconds, MIN_INTERVAL_S)
        self._timeout_s = config.timeout.seconds or self._interval_s

    def describe(self) -> str:
        """Return the state of the source as a text for logs."""
        if not self.last_error:
            return "answers" if self.first_answer.is_set() else "not asked yet"
        state = self.breaker.state.name.lower().replace("_", "-")
        return f"{counted(self.breaker.failures, 'failure')} in a row, breaker {state}: {self.last_error}"

    async def run(self) -> None:
        """Poll until cancelled, then close the source."""
        try:
            while True:
                next_at = self._clock.now() + self._interval_s * self._rng.uniform(1 - JITTER, 1 + JITTER)
                try:
                    await self.poll()
                except Exception:  # a fault in processing an answer must not end the scheduler
                    log.exception("answer of a metric source could not be stored", extra={"source": self.name})
                self.first_answer.set()
                wait_s = self.breaker.wait_s(self._clock.now()) or next_at - self._clock.now()
                await asyncio.sleep(max(wait_s, 0.0))
        finally:
            await self._source.close()

    async def poll(self) -> None:
        """Poll once. If the breaker is half-open, request one metric first, and all of them if that succeeds."""
        metrics = self._listener.wanted(self.name)
        if not metrics or self.breaker.wait_s(self._clock.now()) > 0:
            return
        if self.breaker.state is BreakerState.HALF_OPEN and len(metrics) > 1:
            # Another metric for each probe: one that has disappeared must not keep the breaker open for all.
            probe = metrics[self.breaker.failures % len(metrics)]
            if await self._ask([probe]) is None:
                return
        readings = await self._ask(metrics)
        if readings is not None:
            await self._listener.answered(self.name, readings)

    async def _ask(self, metrics: Sequence[Metric]) -> Readings | None:
        """Fetch the metrics. If that fails, report it to the listener and return None."""
        started = self._clock.now()
        reason, readings = "", None
        try:
            readings = await within(self._timeout_s, self._source.fetch(metrics))
            if not readings.by_metric:
                reason = _why(readings.failed)
        except TimeoutError:
            reason = f"no answer within {self._timeout_s:g} s"
        except SourceError as error:
            reason = str(error)
        except Exception as error:  # a fault in one source must not end the others
            log.exception("metric source raised an unexpected exception", extra={"source": self.name})
            reason = f"{type(error).__name__}: {error}"
        self._settle(reason, started)
        return None if reason else readings

    def _settle(self, reason: str, started: float) -> None:
        now, breaker = self._clock.now(), self.breaker
        before = breaker.state
        if reason:
            breaker.failed(now)
        else:
            breaker.succeeded()
        self._log_change(reason, before)
        self.last_error, self._has_answered = reason, self._has_answered or not reason
        self._observer.source_asked(self.name, "error" if reason else "success", now - started)
        self._observer.source_state(self.name, breaker.state, breaker.failures)
        if reason:
            self._listener.failed(self.name, breaker.failures)

    def _log_change(self, reason: str, before: BreakerState) -> None:
        """Log each change of the breaker's state, and each new reason of a failure, once."""
        fields = {"source": self.name, "failures": self.breaker.failures}
        if not reason:
            self._outage = Outage()
        elif self._outage.is_news(reason, self._clock.now()):
            words = "metric source fails for another reason" if self.last_error else "metric source fails"
            log.warning(words, extra={**fields, "err": reason})
        if not reason and (self.last_error or not self._has_answered):
            log.info("metric source answers again" if self._has_answered else "metric source answers", extra=fields)
        if before is BreakerState.CLOSED and self.breaker.state is BreakerState.OPEN:
            log.warning("metric source is left alone after repeated failures", extra={**fields, "err": reason})


def _why(failed: Mapping[str, str]) -> str:
    """Return the reason why all metrics failed; if there are several, with the names of the metrics."""
    reasons = dict.fromkeys(failed.values())
    if len(reasons) < 2:
        return next(iter(reasons), "an empty answer")
    all_reasons = [f"{metric}: {reason}" for metric, reason in failed.items()]
    return "; ".join(all_reasons[:MAX_REASONS]) + ("; …" if len(all_reasons) > MAX_REASONS else "")
