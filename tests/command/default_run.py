"""What `kscheduler run` does without flags, up to its first binding, on a cluster in memory; prints what was imported.

    python -m tests.command.default_run       # the names of all modules, one a line
    python -m tests.command.default_run gpu   # on a cluster with a DeviceClass of this name

It is run in a process of its own, since tests import everything.
"""

from __future__ import annotations

import asyncio
import random
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from kscheduler.api.devices import DeviceClass
from kscheduler.api.objects import ObjectMeta
from kscheduler.client.credentials import Credentials, Endpoint
from kscheduler.client.kube import KubeClient
from kscheduler.client.outages import Outages
from kscheduler.client.retry_pauses import RetryPauses
from kscheduler.command.flags.commands import parse
from kscheduler.command.flags.run_options import RunOptions
from kscheduler.command.running import emulations, leadership_of, scheduler_maker, scheduler_options, warn
from kscheduler.command.served import Reviewers, build_server
from kscheduler.observability.metrics import Metrics
from kscheduler.serving.health import Health
from kscheduler.simulator.cluster import Cluster
from kscheduler.simulator.virtual_time import LoopClock, run_virtual
from kscheduler.testing import make_node, make_pod
from kscheduler.wasm.plugins import GuestPlugins
from tests.support.waits import until


async def bind_a_pod(options: RunOptions, device_classes: Sequence[str]) -> None:
    """Build what `running.serve` builds, and run the scheduler until it has bound a pod, which asks for no device."""
    loop = asyncio.get_running_loop()
    clock, identity = LoopClock(loop), "here"
    guests = GuestPlugins(cache_dir=options.plugin_cache_dir)
    emulation = emulations(options, guests).first
    config = emulation.config
    warn(emulation, guests, is_from_file=False)
    cluster = Cluster(clock, seed=1)
    client, metrics = cluster.client(), Metrics()
    scheduler = scheduler_maker(options)(
        client,
        config,
        clock=clock,
        rng=random.Random(1),
        metrics=metrics,
        stopwatch=clock.now,
        options=scheduler_options(
            options, config.leader_election, identity, guests, RetryPauses(random.Random(1)), Outages(clock)
        ),
    )
    kube = KubeClient(Credentials(Endpoint("http://127.0.0.1:1", None), clock), clock)  # nothing is asked of it
    leadership = partial(leadership_of, None, identity)
    build_server(
        config,
        options,
        Reviewers(kube, kube),
        clock,
        metrics,
        Health(),
        scheduler.explainer(leadership),
        (scheduler, leadership),
        None,
    )
    for name in device_classes:
        cluster.create_object(DeviceClass(ObjectMeta(name=name)))
    cluster.create_node(make_node("n1").uid("").capacity(cpu="4", memory="4Gi").obj())
    cluster.create_pod(make_pod("p").uid("").req(cpu="1").obj())
    tasks = [loop.create_task(scheduler.observe()), loop.create_task(scheduler.schedule())]
    await until(lambda: all(pod.spec.node_name for pod in cluster.pods.values()))
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


if __name__ == "__main__":
    parsed = parse(["run"])
    assert isinstance(parsed, RunOptions)
    with tempfile.TemporaryDirectory() as directory:
        run_virtual(bind_a_pod(replace(parsed, cert_dir=directory), sys.argv[1:]))
    print("\n".join(sorted(sys.modules)))
