"""What becomes of pods whose bindings an apiserver refuses that refuses everything for a while."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Callable

import pytest

from kscheduler.client.retry_pauses import RetryPauses
from kscheduler.config.load import default_config
from kscheduler.observability.metrics import Metrics
from kscheduler.scheduler import Options, Scheduler
from kscheduler.simulator.cluster import Cluster
from kscheduler.simulator.faults import FaultKind, Verb
from kscheduler.simulator.virtual_time import LoopClock
from kscheduler.testing import make_node, make_pod
from tests.support.world import in_virtual_time

PODS = 40
SUCCESS_EVERY_S = 1.0  # of other requests, such as renewals of the Lease


class Bench:
    """A scheduler with pods that fit; bindings are refused while `is_refused` says so of a pod."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.cluster = Cluster(LoopClock(self.loop))
        self.client = self.cluster.client()
        self.pauses = RetryPauses(random.Random(1))
        self.scheduler = Scheduler(
            self.client,
            default_config(),
            clock=LoopClock(self.loop),
            rng=random.Random(1),
            metrics=Metrics(),
            stopwatch=self.loop.time,
            options=Options(pauses=self.pauses),
        )
        self.tried_at: dict[str, list[float]] = {}
        self.cluster.create_node(make_node("n1").capacity(cpu="64", memory="256Gi", pods=500).obj())

    def refuse(self, kind: FaultKind, is_refused: Callable[[str], bool]) -> None:
        def matches(binding: object) -> bool:
            name: str = binding.name  # type: ignore[attr-defined]
            self.tried_at.setdefault(name, []).append(self.loop.time())
            return is_refused(name)

        self.client.faults.add(kind, Verb.BIND, count=1_000_000, matches=matches)

    async def run(self, seconds: float, *, successes_after_s: float = 0.0) -> None:
        tasks = [asyncio.ensure_future(work) for work in (self.scheduler.observe(), self.scheduler.schedule())]
        await asyncio.sleep(successes_after_s)
        left_s = seconds - successes_after_s
        while left_s > 0:
            self.pauses.succeeded()
            await asyncio.sleep(min(SUCCESS_EVERY_S, left_s))
            left_s -= SUCCESS_EVERY_S
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def bound(self) -> int:
        return sum(bool(pod.spec.node_name) for pod in self.cluster.pods.values())


@pytest.mark.parametrize("kind", [FaultKind.FORBIDDEN, FaultKind.UNAUTHORIZED, FaultKind.BAD_REQUEST, FaultKind.GONE])
@in_virtual_time
async def test_when_the_apiserver_binds_again_all_pods_are_bound_within_three_seconds(kind: FaultKind) -> None:
    bench = Bench()
    outage_s = 22.0  # the pods were tried after 19 s, and their backoffs last until 30 s
    bench.refuse(kind, lambda _: bench.loop.time() < outage_s)
    for index in range(PODS):
        bench.cluster.create_pod(make_pod(f"p{index}").req(cpu="100m").obj())
    await bench.run(outage_s + 3.0)
    assert bench.bound() == PODS


@in_virtual_time
async def test_an_apiserver_that_goes_on_refusing_is_sent_two_more_bindings_in_a_second() -> None:
    bench = Bench()
    bench.refuse(FaultKind.FORBIDDEN, lambda _: True)
    for index in range(PODS):
        bench.cluster.create_pod(make_pod(f"p{index}").req(cpu="100m").obj())
    await bench.run(120.0)
    late = sum(at_s >= 60.0 for tries in bench.tried_at.values() for at_s in tries)
    assert late <= 60 * (PODS / 10.0 + 2.0) * 1.1  # each every 10 s, as of old, and two every second
    assert all(b - a >= 0.5 for tries in bench.tried_at.values() for a, b in itertools.pairwise(tries))


@in_virtual_time
async def test_a_pod_that_is_refused_while_others_are_bound_keeps_its_backoff() -> None:
    bench = Bench()
    bench.refuse(FaultKind.FORBIDDEN, lambda name: name == "refused")
    bench.cluster.create_pod(make_pod("refused").req(cpu="100m").obj())

    async def create_others() -> None:
        for index in range(200):
            bench.cluster.create_pod(make_pod(f"p{index}").req(cpu="100m").obj())
            await asyncio.sleep(0.5)

    creating = asyncio.ensure_future(create_others())
    await bench.run(100.0)
    await creating
    gaps = [b - a for a, b in itertools.pairwise(bench.tried_at["refused"])]
    assert gaps[5:]
    assert min(gaps[5:]) >= 9.0
    assert bench.bound() == 200
