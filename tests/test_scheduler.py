"""How the parts are put together, started, drained and cancelled; what becomes of pods is in `tests/scenarios`."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable
from typing import Any

import pytest

from kscheduler.assembly import check_supported
from kscheduler.config.load import default_config, parse_config
from kscheduler.config.types import SchedulerConfig
from kscheduler.errors import ConfigError
from kscheduler.observability.metrics import Metrics
from kscheduler.queue.pod_info import QueuedPodInfo
from kscheduler.scheduler import Options, Scheduler
from kscheduler.simulator.cluster import Cluster
from kscheduler.simulator.cluster_client import Latency
from kscheduler.simulator.faults import FaultKind, Verb
from kscheduler.simulator.virtual_time import LoopClock
from kscheduler.testing import make_node, make_pod
from tests.support.world import World, in_virtual_time

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
EXTENDER = HEAD + 'extenders: [{urlPrefix: "127.0.0.1:8888", filterVerb: filter}]\n'


class Bench:
    """A scheduler whose tasks the test starts itself."""

    def __init__(self, config: SchedulerConfig | None = None, latency: Latency | None = None, **options: Any) -> None:
        self.clock = LoopClock(asyncio.get_running_loop())
        self.cluster = Cluster(self.clock)
        self.client = self.cluster.client(latency=latency)
        self.metrics = Metrics()
        self.scheduler = Scheduler(
            self.client,
            config or default_config(),
            clock=self.clock,
            rng=random.Random(1),
            metrics=self.metrics,
            stopwatch=self.clock.now,
            options=Options(**options),
        )
        self.cluster.create_node(make_node("n1").capacity(cpu="64", memory="256Gi", pods=500).obj())

    def pods(self, count: int) -> None:
        for index in range(count):
            self.cluster.create_pod(make_pod(f"p{index}").req(cpu="100m").obj())

    def is_synced(self) -> bool:
        """A call, so that type checkers do not remember the last answer."""
        return self.scheduler.is_synced

    @property
    def bound(self) -> int:
        return sum(bool(pod.spec.node_name) for pod in self.cluster.pods.values())


async def ended(*tasks: asyncio.Future[None]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


# --- construction -------------------------------------------------------------------------------------------------


@in_virtual_time
async def test_an_extender_that_cannot_be_asked_is_refused_at_start() -> None:
    with pytest.raises(ConfigError, match=r"extenders\[0\].urlPrefix: expected an http:// or https:// URL"):
        Bench(parse_config(EXTENDER))
    with pytest.raises(ConfigError, match=r"extenders\[0\].urlPrefix"):
        check_supported(parse_config(EXTENDER))
    check_supported(default_config())


@in_virtual_time
async def test_backoff_and_sampling_are_the_configurations() -> None:
    text = HEAD + "podInitialBackoffSeconds: 3\npodMaxBackoffSeconds: 4\n"
    async with World(config=parse_config(text)) as world:
        world.add_node("n1")
        world.faults.add(FaultKind.CONFLICT, Verb.BIND, count=2)
        world.add_pod(make_pod("p"))
        await world.until(world.all_bound, within_s=20)
        assert 3 + 4 <= world.clock.now() < 3 + 4 + 2.5  # backoffs end on whole seconds


# --- running ------------------------------------------------------------------------------------------------------


@in_virtual_time
async def test_observing_alone_decides_nothing() -> None:
    bench = Bench()
    bench.pods(3)
    observe = asyncio.ensure_future(bench.scheduler.observe())
    assert not bench.is_synced()
    await bench.scheduler.wait_for_sync()
    await asyncio.sleep(10)
    assert bench.is_synced()
    assert bench.scheduler.queue.counts().active == 3
    assert bench.bound == 0
    await ended(observe)


@in_virtual_time
async def test_draining_answers_the_binds_in_flight_and_decides_no_more() -> None:
    bench = Bench(latency=Latency(bind_s=2.0), bind_concurrency=5)
    bench.pods(20)
    observe = asyncio.ensure_future(bench.scheduler.observe())
    schedule = asyncio.ensure_future(bench.scheduler.schedule())
    await asyncio.sleep(1)
    assert len(bench.scheduler.bindings) == 5
    bench.scheduler.drain()
    await asyncio.wait_for(schedule, 5)
    assert bench.bound == 5
    assert len(bench.scheduler.bindings) == 0
    await ended(observe)


@in_virtual_time
async def test_draining_gives_up_on_binds_that_are_never_answered() -> None:
    bench = Bench()
    bench.pods(1)
    bench.client.faults.add(FaultKind.TIMEOUT, Verb.BIND)
    observe = asyncio.ensure_future(bench.scheduler.observe())
    schedule = asyncio.ensure_future(bench.scheduler.schedule())
    await asyncio.sleep(1)
    bench.scheduler.drain()
    await asyncio.wait_for(schedule, 15)
    assert len(bench.scheduler.bindings) == 0
    await ended(observe)


@in_virtual_time
async def test_cancelling_stops_the_binds_in_flight_at_once() -> None:
    bench = Bench(latency=Latency(bind_s=2.0))
    bench.pods(3)
    observe = asyncio.ensure_future(bench.scheduler.observe())
    schedule = asyncio.ensure_future(bench.scheduler.schedule())
    await asyncio.sleep(0.5)
    await ended(schedule)
    assert len(bench.scheduler.bindings) == 0
    await asyncio.sleep(5)
    assert bench.bound == 0
    await ended(observe)


@pytest.mark.parametrize("concurrency", [1, 7])
def test_no_more_binds_are_in_flight_than_allowed(concurrency: int) -> None:
    @in_virtual_time
    async def scenario() -> None:
        most = 0
        async with World(latency=Latency(bind_s=0.1), options=Options(bind_concurrency=concurrency)) as world:
            world.add_node("n1", cpu="64")
            for index in range(40):
                world.add_pod(make_pod(f"p{index}").req(cpu="1"))
            world.start()
            while not world.all_bound():
                most = max(most, len(world.scheduler.bindings))
                await asyncio.sleep(0.01)
        assert most == concurrency

    scenario()


@in_virtual_time
async def test_a_pod_whose_binding_the_watch_never_confirms_is_given_up_after_the_time_set() -> None:
    bench = Bench(assumed_pod_ttl_s=30.0)
    bench.pods(1)
    # The watch falls silent with the news of the binding.
    bench.client.faults.add(FaultKind.SILENT, Verb.DELIVER, resource="pods", delay_s=500.0)
    observe = asyncio.ensure_future(bench.scheduler.observe())
    schedule = asyncio.ensure_future(bench.scheduler.schedule())
    await asyncio.sleep(29)
    assert bench.bound == 1
    assert bench.scheduler.cache.sizes()["assumed_pods"] == 1
    await asyncio.sleep(3)
    assert bench.scheduler.cache.sizes()["pods"] == 0
    await ended(schedule, observe)


def test_a_bug_in_a_cycle_costs_its_pod_an_attempt_and_nobody_else(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    @in_virtual_time
    async def scenario() -> None:
        async with World(options=Options(compiled_lane=False)) as world:
            one = world.scheduler._schedule_one
            schedule: Callable[..., Any] = one.schedule
            failures = iter([True])

            def fail_once(queued: QueuedPodInfo, *, may_wait: bool = False) -> Any:
                if queued.key == "default/unlucky" and next(failures, False):
                    raise ZeroDivisionError
                return schedule(queued, may_wait=may_wait)

            monkeypatch.setattr(one, "schedule", fail_once)
            world.add_node("n1")
            world.add_pod(make_pod("unlucky").priority(5))
            world.add_pod(make_pod("lucky"))
            await world.until(lambda: bool(world.node_of("lucky")), within_s=1)
            await world.until(world.all_bound, within_s=5)

    with caplog.at_level(logging.ERROR):
        scenario()
    (record,) = (record for record in caplog.records if record.message == "scheduling cycle failed")
    assert record.__dict__["pod"] == "default/unlucky"
    assert record.exc_info is not None


@in_virtual_time
async def test_gauges_show_what_is_there_when_somebody_looks() -> None:
    async with World() as world:
        world.add_node("n1", cpu="1")
        world.add_pod(make_pod("p").req(cpu="1"))
        world.add_pod(make_pod("waiting").req(cpu="1"))
        world.add_pod(make_pod("gated").scheduling_gate("g"))
        await world.sleep(1)
        text = world.metrics.exposition().decode()
        assert 'scheduler_pending_pods{queue="unschedulable"} 1.0' in text
        assert 'scheduler_pending_pods{queue="gated"} 1.0' in text
        assert 'scheduler_cache_size{type="nodes"} 1.0' in text
        assert 'scheduler_cache_size{type="pods"} 1.0' in text
