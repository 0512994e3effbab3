"""Random clusters in which gangs of different priorities evict each other, beside hands on them, faults and restarts.

Controllers make again what was evicted or lost with its node, so that nothing is ever given up.
"""

from __future__ import annotations

import asyncio
import math
import random
from collections import Counter
from dataclasses import dataclass

from kscheduler.api.objects import Pod
from kscheduler.api.pod_groups import POD_GROUP_LABEL
from kscheduler.client.kinds import PODS
from kscheduler.config.load import parse_config
from kscheduler.observability.metrics import Metrics
from kscheduler.simulator.cluster_client import Latency
from kscheduler.simulator.faults import FaultKind, Verb
from kscheduler.simulator.virtual_time import run_virtual
from kscheduler.testing.wrappers import make_pod
from tests.scenarios.gangs import BY_LABEL, gang, reserving
from tests.scenarios.quotas import CONFIG as QUOTAS
from tests.scenarios.quotas import quota
from tests.scenarios.share_queues import LABEL, WITH_GANGS, queue
from tests.support.world import PlannedScheduler, World

STEPS = 25
NODE_CPUS = 8
COMES_AGAIN_S = 1.0
REST_S = 600.0  # longer than what waits for no event is ever left alone
CALM_S = 330.0
QUEUES = ("a", "b")
MOVING = "  pluginConfig: [{name: Queues, args: {maxConsolidationVictims: 2}}]\n"
RESERVING = "  pluginConfig: [{name: Coscheduling, args: {reserveAfterSeconds: 20}}]\n"
CONFIGS = {
    "priorities": BY_LABEL,
    "queues": parse_config(WITH_GANGS, "test"),
    "moves": parse_config(WITH_GANGS + MOVING, "test"),
    "rooms": reserving(20),
    "rooms of queues": parse_config(WITH_GANGS + RESERVING, "test"),
    "quotas": parse_config(QUOTAS.rstrip() + "\n    permit: {enabled: [{name: Coscheduling}]}\n", "test"),
}
FAULTS = (
    (FaultKind.CONFLICT, Verb.BIND),
    (FaultKind.SERVER_ERROR, Verb.BIND),
    (FaultKind.LOST_ANSWER, Verb.BIND),
    (FaultKind.SERVER_ERROR, Verb.DELETE_POD),
    (FaultKind.LOST_ANSWER, Verb.DELETE_POD),
    (FaultKind.SERVER_ERROR, Verb.PATCH_STATUS),
    (FaultKind.CUT, Verb.DELIVER),
)


@dataclass(frozen=True)
class Job:
    """A gang, or a single pod if it has one member."""

    name: str
    members: int
    least: int
    cpu: int
    priority: int
    grace_s: int
    queue: str

    def names(self) -> list[str]:
        return [f"{self.name}-{number}" for number in range(self.members)]


class PreemptingWorld(World):
    def __init__(self, rng: random.Random, rules: str) -> None:
        super().__init__(
            config=CONFIGS[rules],
            latency=Latency(bind_s=0.05, jitter=0.5),
            expect_conditions=False,
            seed=rng.randint(1, 9),
        )
        self.rng = rng
        self.rules = rules
        self.has_queues = rules in ("queues", "moves", "rooms of queues")
        self.most: dict[str, int] = {}  # queue -> cpu that its pods together may use
        if rules == "quotas":
            self.most[""] = rng.choice([16, 24])
            self.cluster.create_object(quota("default", {"cpu": self.most[""]}))
        if self.has_queues:
            if rng.random() < 0.5:
                self.most["b"] = 16
            self.cluster.create_object(queue("a", deserved=rng.choice([0, 8, 16])))
            limit = self.most.get("b", "unlimited")
            self.cluster.create_object(queue("b", deserved=rng.choice([0, 8]), weight=2, limit=limit))
        self.jobs: dict[str, Job] = {}
        self.evicted = 0
        self.number = 0
        self.run_kubelets()
        self.cluster.store(PODS).subscribe(self._changed)

    # --- hands ---

    def new_job(self, least_priority: int = 0) -> Job:
        self.number += 1
        rng, members = self.rng, self.rng.choice([1, 1, 1, 1, 1, 3] if self.rules == "moves" else [1, 1, 2, 3, 4, 6])
        job = Job(
            f"j{self.number}",
            members,
            rng.randint(1, members),
            rng.choice([1, 1, 2, 3, 4]),
            rng.randint(least_priority, least_priority + 5),
            rng.choice([0, 0, 5, 20, 60]),
            rng.choice(QUEUES) if self.has_queues else "",
        )
        self.jobs[job.name] = job
        if members > 1:
            self.cluster.create_object(gang(job.name, job.least))
        for name in job.names():
            self.create(job, name)
        return job

    def create(self, job: Job, name: str) -> None:
        pod = (
            make_pod(name).req(cpu=str(job.cpu)).priority(job.priority).grace_period(job.grace_s).owner("Job", job.name)
        )
        if job.members > 1:
            pod = pod.label(POD_GROUP_LABEL, job.name)
        self.add_pod(pod.label(LABEL, job.queue) if job.queue else pod)

    def _changed(self, before: Pod | None, after: Pod | None) -> None:
        if before is not None and after is None and before.metadata.name.split("-")[0] in self.jobs:
            asyncio.get_running_loop().call_later(COMES_AGAIN_S, self._come_again, before.metadata.name)
        if before is not None and after is not None and before.metadata.deletion_timestamp is None:
            self.evicted += after.metadata.deletion_timestamp is not None
            if after.spec.node_name and not before.spec.node_name:
                for name, most in self.most.items():
                    assert self.used(name) <= most, f"{name}: {self.used(name)} of {most} are used"

    def _come_again(self, name: str) -> None:
        job = self.jobs.get(name.split("-")[0])
        if job is not None and f"default/{name}" not in self.cluster.pods:
            self.create(job, name)

    def grow(self) -> None:
        self.number += 1
        self.add_node(f"n{self.number}", cpu=str(NODE_CPUS))

    def lose_node(self) -> None:
        names = sorted(self.cluster.nodes)
        if len(names) > 2:
            lost = self.rng.choice(names)
            self.cluster.delete_node(lost)
            self.collect_garbage()

    def collect_garbage(self) -> None:
        """Remove pods of nodes that are gone; a binding that was under way may have come later."""
        nodes = self.cluster.nodes
        lost = [key for key, pod in self.cluster.pods.items() if pod.spec.node_name and pod.spec.node_name not in nodes]
        for key in lost:
            self.cluster.delete_pod(key)

    def delete_pod(self) -> None:
        key = self.rng.choice(sorted(self.cluster.pods) or [""])
        if key:
            self.cluster.delete_pod(
                key, gracefully=self.rng.random() < 0.5 and bool(self.cluster.pods[key].spec.node_name)
            )

    def end_job(self) -> None:
        if self.jobs:
            job = self.jobs.pop(self.rng.choice(sorted(self.jobs)))
            for name in job.names():
                if f"default/{name}" in self.cluster.pods:
                    self.cluster.delete_pod(f"default/{name}")

    async def restart(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []
        await asyncio.sleep(1.0)
        self.judge.forget_decisions()
        self.scheduler = PlannedScheduler(
            {"reserve": [self.judge]},
            self.client,
            self._config,
            clock=self.clock,
            rng=self.rng,
            metrics=Metrics(),
            stopwatch=self.clock.now,
        )
        self.judge.look_through(self.scheduler.nodes.store, self.scheduler.pods.store)

    async def step(self) -> None:
        draw = self.rng.random()
        if draw < 0.05:
            await self.restart()
        elif draw < 0.12:
            self.lose_node()
        elif draw < 0.2:
            self.grow()
        elif draw < 0.3:
            self.delete_pod()
        elif draw < 0.37:
            self.end_job()
        else:
            self.new_job()
        await self.sleep(self.rng.choice([0.0, 0.05, 0.5, 2.0, 15.0, 330.0 if self.rules == "moves" else 70.0]))
        self.collect_garbage()

    # --- what must hold ---

    def bound(self, job: Job) -> int:
        pods = (self.cluster.pods.get(f"default/{name}") for name in job.names())
        return sum(pod is not None and bool(pod.spec.node_name) for pod in pods)

    def free(self) -> dict[str, int]:
        free = dict.fromkeys(self.cluster.nodes, NODE_CPUS)
        for pod in self.cluster.pods.values():
            if pod.spec.node_name:
                free[pod.spec.node_name] -= self.jobs[pod.metadata.name.split("-")[0]].cpu
        return free

    def used(self, name: str) -> int:
        return sum(self.bound(job) * job.cpu for job in self.jobs.values() if job.queue == name)

    def check_at_rest(self) -> None:
        """No node has more than it can hold, and no job waits for room that is free."""
        assert not self.judge.violations, self.judge.violations[:5]
        free = self.free()
        assert min(free.values(), default=0) >= 0, free
        nominated = {each.pod.key: each.node_name for each in self.scheduler.nominations.by_pod.values()}
        assert not nominated or "rooms" in self.rules, f"room is kept: {nominated}"
        for job in self.jobs.values():
            bound = self.bound(job)
            missing = max(job.least - bound, 1)
            if bound < job.members:
                room = sum(left // job.cpu for left in free.values())
                is_kept = bool(nominated)  # for a gang that has failed for long
                assert room < missing or is_kept or self.is_refused(job, missing), (
                    f"{job} with {bound} bound is forgotten: {free}"
                )

    def is_refused(self, job: Job, missing: int) -> bool:
        """Return True if the limit of the job's queue or quota keeps it out."""
        return self.used(job.queue) + missing * job.cpu > self.most.get(job.queue, math.inf)

    def lift_limits(self) -> None:
        self.most.clear()
        if self.has_queues:
            self.cluster.update_object(queue("b", deserved=0, weight=2))
        elif self.rules == "quotas":
            self.cluster.update_object(quota("default", {"cpu": 10_000}))

    async def rest(self, seconds: float) -> None:
        await self.sleep(seconds)
        before = self.evicted
        await self.sleep(CALM_S)
        assert self.evicted == before, f"{self.evicted - before} pods were evicted at rest"
        self.check_at_rest()

    async def arrive(self) -> None:
        """One more job comes to a cluster at rest: if it evicts others it gets its minimum.

        More important ones that wait may take the room, as in kube-scheduler, and other queues may reclaim it.
        """
        half = {name for name, job in self.jobs.items() if 0 < self.bound(job) < job.least}
        waiting = [job for job in self.jobs.values() if self.bound(job) < job.members]
        job, seen = self.new_job(least_priority=self.rng.choice([0, 6])), len(self.cluster.events)
        may_be_overtaken = any(other.priority > job.priority and other.queue == job.queue for other in waiting)
        await self.sleep(150.0)
        new = list(self.cluster.events)[seen:]
        causes = [event.related.name for event in new if event.reason == "Preempted" and event.related is not None]
        has_lost = {event.regarding.name.split("-")[0] for event in new if event.reason == "Preempted"}
        if not may_be_overtaken and job.name not in has_lost and any(each.split("-")[0] == job.name for each in causes):
            assert self.bound(job) >= job.least, f"{job} has evicted others, and has {self.bound(job)} nodes"
        for name, each in self.jobs.items():
            bound = self.bound(each)
            assert name in half or not 0 < bound < each.least, f"{each}: {bound} are left for {job}"


def play(seed: int, rules: str) -> Counter[str]:
    seen = Counter[str]()

    async def scenario() -> None:
        rng = random.Random(seed)
        world = PreemptingWorld(rng, rules)
        async with world:
            for _ in range(rng.randint(3, 5)):
                world.grow()
            for kind, verb in rng.sample(FAULTS, rng.choice([0, 1, 2, 3])):
                world.faults.add(kind, verb, probability=rng.choice([0.1, 0.3]))
            for _ in range(STEPS):
                await world.step()
            world.faults.clear()
            await world.sleep(CALM_S)
            world.collect_garbage()
            await world.rest(REST_S)
            seen["turbulent"] = world.evicted
            for _ in range(3):
                await world.arrive()
            await world.rest(REST_S)
            seen["evicted"] = world.evicted
            for _ in range(sum(job.members for job in world.jobs.values())):
                world.grow()
            world.lift_limits()
            await world.until(world.all_bound, within_s=REST_S)
            world.check_at_rest()

    run_virtual(scenario())
    return seen
