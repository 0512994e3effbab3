"""Profiles the scheduler's own process beside a real apiserver, to which pods are created meanwhile."""

from __future__ import annotations

import math
import re
import time

from kscheduler.testing.controlplane import ApiserverOptions, BindWatch, ControlPlane
from kscheduler.testing.controlplane.kscheduler import KScheduler
from kscheduler.testing.controlplane.load import create, nodes, pods
from perf.profile import Lag, Plan, Profile
from perf.profile_sampler import PySpy
from perf.profile_stacks import parse

TIMEOUT_S = 600.0
_BUCKET = re.compile(r'^kscheduler_event_loop_lag_seconds_bucket\{le="([^"]+)"\} (\S+)$', re.MULTILINE)


def measure(plan: Plan) -> Profile:
    """One half of the pods for CPU time and lag, then the other half under py-spy. CannotTrace if it may not look."""
    untouched = plan.pods // 2
    with ControlPlane(ApiserverOptions()) as plane:
        create(plane.credentials, nodes(plan.nodes))
        scheduler = KScheduler(plane)
        with BindWatch(plane.credentials) as watch:
            # 1. Nobody looks on.
            before, cpu = buckets(scheduler.get("/metrics")), scheduler.process.usage().cpu_s
            started = time.monotonic()
            create(plane.credentials, pods(untouched))
            watch.wait(untouched, min(TIMEOUT_S, plan.seconds))
            seconds, cpu = time.monotonic() - started, scheduler.process.usage().cpu_s - cpu
            lag = lag_between(before, buckets(scheduler.get("/metrics")))
            # 2. py-spy does.
            spy = PySpy(scheduler.process.pid, plan.stacks, plan.rate)
            create(plane.credentials, pods(plan.pods - untouched, first=untouched))
            watch.wait(plan.pods, min(TIMEOUT_S, plan.seconds))
            spy.stop()
        scheduler.stop()
    with plan.stacks.open(encoding="utf-8") as lines:
        stacks = parse(lines)
    return Profile(
        what=f"pods of one class on {plan.nodes:,} nodes of a real apiserver",
        profiler="py-spy, with native frames",
        pods=untouched,
        seconds=seconds,
        cpu_s=cpu,
        lag=lag,
        stacks=stacks,
    )


def buckets(page: str) -> dict[float, float]:
    """Upper bound in seconds -> how many turns of the loop were not later."""
    return {float(bound): float(count) for bound, count in _BUCKET.findall(page)}


def lag_between(before: dict[float, float], after: dict[float, float]) -> Lag:
    """What the histogram gained; each figure is the upper bound of its bucket, so at most twice the truth."""
    gained = {bound: count - before.get(bound, 0.0) for bound, count in sorted(after.items())}
    turns = max(gained.values(), default=0.0)

    def at(share: float) -> float:
        bound = next((bound for bound, count in gained.items() if count >= share * turns), 0.0)
        return bound * 1e3 if math.isfinite(bound) else math.inf

    return Lag(int(turns), at(0.5), at(0.99), at(1.0), "upper bounds, by the process's own histogram")
