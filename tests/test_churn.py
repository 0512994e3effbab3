"""A scheduler through which ever new pods pass is not larger afterwards."""

from __future__ import annotations

import asyncio
import gc
import random
import tracemalloc

from msgspec.structs import replace

from kscheduler.config.load import default_config
from kscheduler.observability.metrics import Metrics
from kscheduler.scheduler import Scheduler
from kscheduler.simulator.cluster import Cluster
from kscheduler.simulator.virtual_time import LoopClock, run_virtual
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.testing import make_node, make_pod

PODS = 150  # in a round
ROUNDS = 6
BYTES_A_POD = 60  # far below anything that could be left of one: its name is 60 bytes
# A template has one spec: the cluster remembers specs.
TEMPLATES = [make_pod("p").label(app=f"a{number}").req(cpu="10m").obj() for number in range(7)]


def test_pods_that_come_are_bound_and_go_leave_nothing_behind() -> None:
    async def main() -> list[int]:
        clock = LoopClock(asyncio.get_running_loop())
        cluster = Cluster(clock, history_limit=PODS)
        for number in range(4):
            cluster.create_node(make_node(f"n{number}").capacity(cpu="100", memory="100Gi", pods=500).obj())
        scheduler = Scheduler(
            cluster.client(),
            default_config(),
            clock=clock,
            rng=random.Random(0),
            metrics=Metrics(process=False),
            stopwatch=clock.now,
        )
        tasks = [asyncio.ensure_future(scheduler.observe()), asyncio.ensure_future(scheduler.schedule())]
        sizes = []
        for round_ in range(ROUNDS):
            names = [f"churned-{round_}-{number}" for number in range(PODS)]
            ours = {f"default/{name}" for name in names}
            for number, name in enumerate(names):
                template = TEMPLATES[number % len(TEMPLATES)]
                cluster.create_pod(replace(template, metadata=replace(template.metadata, name=name, uid=name)))
            await asyncio.sleep(5)
            assert scheduler.cache.sizes()["pods"] == PODS
            for name in names:
                cluster.delete_pod(f"default/{name}")
            await asyncio.sleep(3600)  # Events are written, and no longer remembered
            assert scheduler.cache.sizes()["pods"] == 0
            gc.collect()
            assert not [found for found in gc.get_objects() if type(found) is PodInfo and found.key in ours]
            cluster._events.clear()
            sizes.append(tracemalloc.get_traced_memory()[0])
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return sizes

    tracemalloc.start()
    try:
        sizes = run_virtual(main())
    finally:
        tracemalloc.stop()
    settled, last = sizes[ROUNDS // 2], sizes[-1]
    assert last - settled < BYTES_A_POD * PODS * (ROUNDS - ROUNDS // 2)
