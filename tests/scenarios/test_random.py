"""Random clusters, random hands on them and random faults: nothing is overcommitted, bound twice, lost or forgotten.

A plan is drawn first, so that a failing one is printed whole and can be shrunk. Each step waits, then does one thing
to the cluster; faults strike all the while. Then faults end, and what must hold is checked: the judge's findings, the
cache and the queue, and that no pod waits although it fits somewhere, well before the queue's own timeout of five
minutes would have hidden a missed wake-up.
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, note, settings
from hypothesis import strategies as st

from kscheduler.errors import Conflict, NotFound
from kscheduler.scheduler import Options
from kscheduler.simulator.cluster_client import Latency
from kscheduler.simulator.faults import FaultKind, Verb
from kscheduler.simulator.virtual_time import run_virtual
from kscheduler.testing import NodeBuilder, PodBuilder, make_node, make_pod
from tests.support.changes import (
    cordon,
    heartbeat,
    label_pod,
    open_gates,
    relabel,
    resize,
    set_pod_phase,
    taint,
    tolerate,
)
from tests.support.seeds import sampled
from tests.support.world import World

EXAMPLES = int(os.environ.get("KSCHEDULER_EXAMPLES") or sampled(1200))
# After the last fault: an informer's pause of 30 s, a bind's of 5 s and a backoff of 10 s may still be running, or a
# watch be silent; far less than the 300 s after which the queue tries everything again by itself.
SETTLING_S = 120.0

SILENCE_S = 15.0  # of a dead watch, before somebody notices

GPU = "example.com/gpu"
SMALL_NAMES = st.integers(0, 11)  # few names, so that steps meet


@dataclass(frozen=True)
class NodeShape:
    cpu: int
    memory_gib: int
    pods: int
    gpus: int
    zone: str
    tainted: bool

    def build(self, name: str) -> NodeBuilder:
        node = make_node(name).label(zone=self.zone)
        node = node.capacity(cpu=str(self.cpu), memory=f"{self.memory_gib}Gi", pods=self.pods, **{GPU: str(self.gpus)})
        return node.taint("maintenance", "", "NoSchedule") if self.tainted else node


@dataclass(frozen=True)
class PodShape:
    cpu_milli: int
    memory_mib: int
    gpus: int
    priority: int
    zone: str  # "" for any
    port: int  # 0 for none
    tolerant: bool
    gated: bool
    foreign: bool
    grace_s: int  # how long it takes to end

    def build(self, name: str) -> PodBuilder:
        pod = make_pod(name).req(cpu=f"{self.cpu_milli}m", memory=f"{self.memory_mib}Mi").priority(self.priority)
        pod = pod.grace_period(self.grace_s)
        if self.gpus:
            pod = pod.req(**{GPU: str(self.gpus)})
        if self.zone:
            pod = pod.node_selector(zone=self.zone)
        if self.port:
            pod = pod.host_port(self.port)
        if self.tolerant:
            pod = pod.toleration("maintenance", "Exists")
        if self.gated:
            pod = pod.scheduling_gate("example.com/later")
        return pod.scheduler_name("other") if self.foreign else pod


@dataclass(frozen=True)
class Step:
    """Wait, then do what `act` names; `one` and `other` choose among what is there."""

    wait_s: float
    act: str
    one: int
    other: int
    pod: PodShape
    node: NodeShape


@dataclass(frozen=True)
class Struck:
    """A fault while the plan runs."""

    kind: FaultKind
    verb: Verb
    probability: float
    delay_s: float
    retry_after_s: float | None


@dataclass(frozen=True)
class Plan:
    seed: int
    latency: Latency
    bind_concurrency: int
    nodes: list[NodeShape]
    pods: list[PodShape]
    faults: list[Struck]
    steps: list[Step]


def maybe(likely: int) -> st.SearchStrategy[bool]:
    """True once in so many."""
    return st.integers(1, likely).map(lambda drawn: drawn == likely)


node_shapes = st.builds(
    NodeShape,
    cpu=st.sampled_from([1, 2, 4, 8]),
    memory_gib=st.sampled_from([1, 4, 16]),
    pods=st.sampled_from([0, 2, 5, 110]),
    gpus=st.sampled_from([0, 0, 1, 4]),
    zone=st.sampled_from("ab"),
    tainted=maybe(5),
)
pod_shapes = st.builds(
    PodShape,
    cpu_milli=st.sampled_from([0, 500, 1000, 1000, 3000]),
    memory_mib=st.sampled_from([0, 64, 512, 3000]),
    gpus=st.sampled_from([0, 0, 0, 1, 2]),
    priority=st.sampled_from([0, 0, 10]),
    zone=st.sampled_from(["", "", "a", "b"]),
    port=st.sampled_from([0, 0, 0, 80]),
    tolerant=maybe(4),
    gated=maybe(8),
    foreign=maybe(8),
    grace_s=st.sampled_from([0, 0, 1, 5]),
)
ACTS = [
    "create", "create", "create", "delete", "delete gracefully", "finish", "recreate", "bind elsewhere",
    "label pod", "tolerate", "open gates",
    "add node", "delete node", "cordon", "uncordon", "taint", "untaint", "relabel", "resize", "heartbeat",
    "outage", "compact",
]  # fmt: skip
steps = st.builds(
    Step,
    wait_s=st.sampled_from([0.0, 0.0, 0.01, 0.05, 0.3, 1.0, 4.0]),
    act=st.sampled_from(ACTS),
    one=SMALL_NAMES,
    other=SMALL_NAMES,
    pod=pod_shapes,
    node=node_shapes,
)
WRITES = (Verb.BIND, Verb.PATCH_STATUS, Verb.DELETE_POD, Verb.CREATE_EVENT)
REFUSED = (FaultKind.CONFLICT, FaultKind.TOO_MANY_REQUESTS, FaultKind.SERVER_ERROR, FaultKind.TIMEOUT)
kinds_and_verbs = st.one_of(
    st.just((FaultKind.LOST_ANSWER, Verb.BIND)),  # the one that tempts a scheduler to bind twice
    st.tuples(
        st.sampled_from([*REFUSED, FaultKind.NOT_FOUND, FaultKind.LOST_ANSWER, FaultKind.SLOW]), st.sampled_from(WRITES)
    ),
    st.tuples(st.sampled_from(REFUSED[1:]), st.sampled_from([Verb.GET_POD, Verb.LIST, Verb.WATCH])),
    st.tuples(st.just(FaultKind.GONE), st.sampled_from([Verb.LIST, Verb.WATCH])),
    st.tuples(
        st.sampled_from([FaultKind.CUT, FaultKind.SILENT, FaultKind.DUPLICATE, FaultKind.DELAYED]),
        st.just(Verb.DELIVER),
    ),
)
faults = st.builds(
    lambda pair, *rest: Struck(*pair, *rest),
    kinds_and_verbs,
    st.sampled_from([0.1, 0.3, 0.6]),
    st.sampled_from([0.0, 0.2, 5.0, 20.0]),
    st.sampled_from([None, 0.5, 3.0]),
)
plans = st.builds(
    Plan,
    seed=st.integers(0, 2**16),
    latency=st.builds(
        Latency,
        list_s=st.sampled_from([0.0, 0.05]),
        watch_s=st.sampled_from([0.0, 0.02, 1.0]),
        bind_s=st.sampled_from([0.0, 0.01, 0.5]),
        write_s=st.sampled_from([0.0, 0.01]),
        jitter=st.sampled_from([0.0, 0.8]),
    ),
    bind_concurrency=st.sampled_from([1, 4, 64]),
    nodes=st.lists(node_shapes, min_size=1, max_size=8),
    pods=st.lists(pod_shapes, min_size=4, max_size=20),
    faults=st.lists(faults, max_size=4),
    steps=st.lists(steps, min_size=10, max_size=60),
)


class Execution:
    """Does the steps of a plan to a world; a step that finds nothing to act on does nothing."""

    def __init__(self, world: World) -> None:
        self._world = world

    async def do(self, step: Step) -> None:
        await self._world.sleep(step.wait_s)
        with contextlib.suppress(Conflict, NotFound):  # the errors that kubectl would print
            await self._act(step)

    async def _act(self, step: Step) -> None:
        world, cluster = self._world, self._world.cluster
        pod_name, node_name = f"p{step.one}", f"n{step.other}"
        key = f"default/{pod_name}"
        if step.act == "create":
            world.add_pod(step.pod.build(pod_name))
        elif step.act == "delete":
            cluster.delete_pod(key)
        elif step.act == "delete gracefully":
            cluster.delete_pod(key, gracefully=True)
        elif step.act == "finish":
            if key in cluster.pods and world.node_of(pod_name):
                set_pod_phase(cluster, key, "Succeeded")
        elif step.act == "recreate":
            cluster.delete_pod(key)
            world.add_pod(step.pod.build(pod_name))
        elif step.act == "bind elsewhere":
            if key in cluster.pods:
                world.bind_elsewhere(pod_name, node_name)
        elif step.act == "outage":
            cluster.stop()
            await world.sleep(3 * step.other)
            cluster.start()
        elif step.act == "compact":
            cluster.compact()
        elif step.act in POD_CHANGES:
            if key in cluster.pods:
                world.change_pod(pod_name, POD_CHANGES[step.act])
        elif step.act == "add node":
            world.add_node(step.node.build(node_name))
        elif step.act == "delete node":
            cluster.delete_node(node_name)
        elif node_name in cluster.nodes:
            world.change_node(node_name, self._node_change(step))

    def _node_change(self, step: Step) -> Any:
        if step.act == "relabel":
            return relabel(zone=step.node.zone)
        if step.act == "resize":
            return resize(cpu=str(step.node.cpu), pods=str(step.node.pods))
        if step.act == "heartbeat":
            return heartbeat(str(self._world.clock.now()))
        return {
            "cordon": cordon(),
            "uncordon": cordon(False),
            "taint": taint(),
            "untaint": taint(None),
        }[step.act]


POD_CHANGES = {
    "label pod": label_pod(touched="yes"),
    "tolerate": tolerate("maintenance"),
    "open gates": open_gates(),
}


async def execute(plan: Plan) -> None:
    options = Options(bind_concurrency=plan.bind_concurrency)
    async with World(seed=plan.seed, latency=plan.latency, options=options) as world:
        # 1. The cluster as it is when the scheduler starts.
        world.run_kubelets()
        for index, node in enumerate(plan.nodes):
            world.add_node(node.build(f"n{index}"))
        for index, pod in enumerate(plan.pods):
            world.add_pod(pod.build(f"p{index}"))
        for fault in plan.faults:
            world.faults.add(
                fault.kind,
                fault.verb,
                probability=fault.probability,
                delay_s=fault.delay_s or (SILENCE_S if fault.kind is FaultKind.SILENT else 0.0),
                retry_after_s=fault.retry_after_s,
            )
        # 2. What happens to it.
        execution = Execution(world)
        for step in plan.steps:
            await execution.do(step)
        # 3. Peace.
        world.faults.clear()
        await world.sleep(SETTLING_S)
        assert not (overlooked := world.overlooked()), f"{overlooked[:5]}. {world.describe()}"
        note(f"{world.judge.binds.total()} bound")


RANDOM = settings(
    max_examples=-(-EXAMPLES // 8),
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@RANDOM
@given(plans)
def test_whatever_happens_to_a_cluster_no_pod_is_lost_and_no_node_overcommitted(plan: Plan) -> None:
    run_virtual(execute(plan))


@pytest.mark.slow
@settings(RANDOM, max_examples=EXAMPLES, phases=[Phase.generate, Phase.shrink])
@given(plans)
def test_the_same_with_many_more_examples(plan: Plan) -> None:
    run_virtual(execute(plan))
