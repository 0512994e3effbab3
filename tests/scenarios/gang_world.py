"""Random clusters with gangs, random hands on them and random faults, and what must hold meanwhile."""

from __future__ import annotations

import asyncio
import enum
import random
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

from kscheduler.api.objects import Pod
from kscheduler.api.pod_groups import POD_GROUP_LABEL
from kscheduler.client.kinds import PODS
from kscheduler.client.protocol import Binding
from kscheduler.config.load import parse_config
from kscheduler.config.types import SchedulerConfig
from kscheduler.gangs.mending import PAUSE_S
from kscheduler.gangs.registry import Registry
from kscheduler.observability.metrics import Metrics
from kscheduler.simulator.cluster_client import Latency
from kscheduler.simulator.faults import FaultKind, Verb
from kscheduler.simulator.virtual_time import run_virtual
from kscheduler.testing.wrappers import PodBuilder, make_node, make_pod
from tests.scenarios.gangs import BY_LABEL, near, reserving
from tests.scenarios.share_queues import LABEL, RESERVING, queue
from tests.support.world import PlannedScheduler, World

GANGS, STEPS = 5, 40
RACK, RACKS = "example.com/rack", 2
SETTLING_S = 180.0
TIMEOUT_S = 30.0  # of each gang
NODE_CPUS = 4
RESERVE_AFTER_S = 3  # gangs fail for so long until room is reserved for one of them
REPORTED_S = TIMEOUT_S + 3 * PAUSE_S  # by then a gang is reported, if it is not being bound pod by pod
REFUSALS = (FaultKind.CONFLICT, FaultKind.FORBIDDEN, FaultKind.NOT_FOUND, FaultKind.SERVER_ERROR)


def is_binding_of(pod: str) -> Callable[[object], bool]:
    """Return what says of a request whether it binds the pod."""
    return lambda about: isinstance(about, Binding) and about.name == pod


class Seen(NamedTuple):
    """At how many looks was a gang found so?"""

    stale: int  # half placed for longer than its timeout
    reserved: int  # with a reservation; each of several counts


class Rooms(enum.Enum):
    """For whom is room reserved, of the gangs that have failed for long?"""

    NONE = "none"
    ONE = "one"  # gang
    QUEUES = "queues"  # one gang of each of two queues with shares, of which one has a limit


CONFIGS = {
    Rooms.NONE: BY_LABEL,
    Rooms.ONE: reserving(RESERVE_AFTER_S),
    Rooms.QUEUES: parse_config(RESERVING.replace("AFTER", str(RESERVE_AFTER_S)), "test"),
}
QUEUES = ("a", "b")
LIMIT = 12  # CPUs of one of the queues, as long as faults come


class GangWorld(World):
    def __init__(
        self,
        rng: random.Random,
        *,
        is_troubled: bool,
        rooms: Rooms = Rooms.NONE,
        config: SchedulerConfig | None = None,
    ) -> None:
        super().__init__(
            config=config or CONFIGS[rooms],
            latency=Latency(bind_s=0.05, jitter=0.5),
            expect_conditions=False,
        )
        self.rng = rng
        self.is_troubled = is_troubled
        self.has_queues = rooms is Rooms.QUEUES
        if self.has_queues:
            self.cluster.create_object(queue("a", deserved=4, limit=LIMIT))
            self.cluster.create_object(queue("b", weight=2))
        self.sizes: dict[str, int] = {}  # name of a gang -> its minimum
        self.objects_to_come: list[str] = []
        self.pods_to_come: list[PodBuilder] = []
        self.number = 0  # of what is created next
        self.killed = 0
        self.half_since: dict[str, float] = {}  # gang of which some pods are bound, too few, and others wait -> when
        self.stale_seen = 0
        self.reserved_seen = 0  # how many reservations all looks have found
        self.near: set[str] = set()  # gangs of which all pods are to be in one rack
        for index in range(GANGS):
            name, size = f"g{index}", rng.randint(2, 6)
            self.sizes[name] = rng.randint(2, size)
            if rng.random() < 0.4:
                self.near.add(name)
            self.objects_to_come.append(name)
            self.pods_to_come += [self.member(name, rng.randint(1, 3)) for _ in range(size)]
        self.pods_to_come += [self.in_queue(make_pod(f"alone-{index}").req(cpu=1), index) for index in range(4)]
        rng.shuffle(self.pods_to_come)
        self.cluster.store(PODS).subscribe(self._pod_changed)

    @property
    def registry(self) -> Registry:
        parts = self.scheduler.gangs
        assert parts is not None
        return parts.registry

    def member(self, name: str, cpu: int) -> PodBuilder:
        self.number += 1
        made = make_pod(f"{name}-{self.number}").label(POD_GROUP_LABEL, name).req(cpu=cpu)
        return self.in_queue(made, int(name[1:]))

    def in_queue(self, pod: PodBuilder, number: int) -> PodBuilder:
        return pod.label(LABEL, QUEUES[number % len(QUEUES)]) if self.has_queues else pod

    # --- steps ----------------------------------------------------------------------------------------------------

    async def step(self) -> None:
        steps = [self.create_pod] * 5 + [self.create_gang, self.grow]
        if self.is_troubled:
            steps += [self.delete_pod]
            if self.killed < 2 and self.rng.random() < 0.04:
                await self.restart()
        self.rng.choice(steps)()
        await self.sleep(self.rng.choice([0.0, 0.01, 0.03, 0.1, 1.0, 12.0]))
        if self.is_troubled and self.rng.random() < 0.03:
            await self.sleep(2 * TIMEOUT_S)
        self.check_stale_gangs_are_reported()
        self.check_reservations()
        if not self.is_troubled:
            self.check_no_gang_is_half_placed()

    def create_pod(self) -> None:
        if self.pods_to_come:
            self.add_pod(self.pods_to_come.pop())

    def create_gang(self) -> None:
        if self.objects_to_come:
            name = self.objects_to_come.pop()
            self.create_object_of(name)
            if name in self.sizes:
                self._look(name)

    def create_object_of(self, name: str) -> None:
        rack = RACK if name in self.near else ""
        made = near(name, self.sizes[name], required=rack, schedule_timeout_seconds=int(TIMEOUT_S))
        self.cluster.create_object(made)

    def group_of(self, pod: Pod) -> str | None:
        """The name of the gang that a pod is in; None for none."""
        return (pod.metadata.labels or {}).get(POD_GROUP_LABEL)

    def grow(self) -> None:
        self.number += 1
        self.add_node_in_rack(self.number)

    def add_node_in_rack(self, number: int) -> None:
        node = make_node(f"n{number}").capacity(cpu=NODE_CPUS, memory="16Gi", pods=110)
        self.add_node(node.label(RACK, f"r{number % RACKS}"))

    def delete_pod(self) -> None:
        """A pod is deleted, and replaced."""
        key = self.rng.choice(sorted(self.cluster.pods) or [""])
        if not key:
            return
        name = self.group_of(self.cluster.pods[key])
        self.cluster.delete_pod(key)
        if name is not None:
            self.pods_to_come.append(self.member(name, 1))

    def add_faults(self) -> None:
        if not self.is_troubled:
            return
        self.faults.add(self.rng.choice(REFUSALS), Verb.BIND, probability=self.rng.choice([0.1, 0.4]))
        self.faults.add(FaultKind.LOST_ANSWER, Verb.BIND, probability=0.1)
        if self.rng.random() < 0.3:
            self.refuse_one_member_of("g0")

    def refuse_one_member_of(self, name: str) -> None:
        """Until faults end, no binding of one of the pods is carried out."""
        refused = next(pod for pod in self.pods_to_come if pod.obj().metadata.name.startswith(name)).obj().metadata.name
        self.faults.add(FaultKind.FORBIDDEN, Verb.BIND, matches=is_binding_of(refused))

    async def restart(self) -> None:
        """Kill the scheduler in the middle of its work, and start another one."""
        self.killed += 1
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []
        await asyncio.sleep(1.0)  # as long as a Lease would keep the next one out: requests under way arrive
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
        self.half_since = dict.fromkeys(self.half_since, self.clock.now())  # the new one can only count from here

    # --- what must hold -------------------------------------------------------------------------------------------

    def _pod_changed(self, before: Pod | None, after: Pod | None) -> None:
        pod = after or before
        assert pod is not None
        name = self.group_of(pod)
        if name is not None:
            self._look(name)
            self._check_rack(name)

    def _check_rack(self, name: str) -> None:
        """All pods of a gang that must be near to each other are on nodes of one rack."""
        if name in self.near and name not in self.objects_to_come:
            racks = self.racks_of(name)
            assert len(racks) <= 1, f"{name} is in {sorted(racks)}"

    def racks_of(self, name: str) -> set[str]:
        """The racks of a gang's pods that have a node."""
        nodes = [self.cluster.nodes[pod.spec.node_name] for pod in self.members_of(name) if pod.spec.node_name]
        return {(node.metadata.labels or {})[RACK] for node in nodes}

    def _look(self, name: str) -> None:
        """Take note of since when the cluster shows a gang half placed, with pods that wait."""
        members, bound = self.members_of(name), self.bound(name)
        if name not in self.objects_to_come and 0 < bound < self.sizes[name] and bound < len(members):
            self.half_since.setdefault(name, self.clock.now())
        else:
            self.half_since.pop(name, None)

    def check_stale_gangs_are_reported(self) -> None:
        parts = self.scheduler.gangs
        assert parts is not None
        with_event = {event.regarding.name for event in self.cluster.events if event.reason == "Stale"}
        reported = {key.name for key in parts.mending.stale} & with_event
        for name, since in self.half_since.items():
            is_long = self.clock.now() - since > REPORTED_S
            self.stale_seen += is_long
            assert not is_long or name in reported, f"{name} is half placed since {since:g} s. {self.describe()}"

    def check_reservations(self) -> None:
        """Room is kept for members of gangs that wait, and for nobody else: in these worlds nobody preempts.

        There is a reservation for each queue with shares at most, and no node is promised more than it has.
        """
        parts = self.scheduler.gangs
        assert parts is not None
        held = [] if parts.reservations is None else list(parts.reservations.held.values())
        self.reserved_seen += len(held)
        assert len({each.queue for each in held}) == len(held), "a queue has several reservations"
        promised = {uid: node for each in held for uid, node in each.nodes.items()}
        nominated = self.scheduler.nominations.by_pod
        nodes = {uid: each.node_name for uid, each in nominated.items()}
        assert nodes.items() <= promised.items(), f"{nodes} are nominated, beside {promised}"
        cpus = Counter[str]()
        for each in nominated.values():
            cpus[each.node_name] += each.pod.resources.total.cpu_milli
        assert all(cpu <= NODE_CPUS * 1000 for cpu in cpus.values()), f"more is promised than there is: {cpus}"
        for reservation in held:
            tracked = self.registry.get(reservation.key)
            assert tracked is not None, f"{reservation.key} is gone, and has a reservation"
            assert tracked.lack is None, f"{reservation.key} lacks {tracked.lack}, and has a reservation"
            assert tracked.missing, f"{reservation.key} is placed, and has a reservation"

    def members_of(self, name: str) -> list[Pod]:
        return [pod for pod in self.cluster.pods.values() if self.group_of(pod) == name]

    def bound(self, name: str) -> int:
        return sum(bool(pod.spec.node_name) for pod in self.members_of(name))

    def check_no_gang_is_half_placed(self) -> None:
        if len(self.scheduler.bindings):
            return
        for name, least in self.sizes.items():
            assert not 0 < self.bound(name) < least, f"{self.bound(name)} pods of {name} are bound, of at least {least}"

    async def settle(self) -> None:
        """No faults any more, room for all, and all pods and gangs exist."""
        self.faults.clear()
        if self.has_queues:
            self.cluster.update_object(queue("a", deserved=4))
        while self.objects_to_come:
            self.create_gang()
        while self.pods_to_come:
            self.create_pod()
        for _ in range(25 * RACKS):  # so many that each rack has room for all gangs
            self.grow()
        await self.until(self.all_bound, within_s=SETTLING_S)
        await self.until(self._is_calm)
        self.registry.check()
        assert not self.scheduler.nominations.by_pod, "all gangs are placed, and room is kept"
        self.check_tracked()

    def check_tracked(self) -> None:
        """All gangs are placed, and the registry knows it."""
        for tracked in self.registry:
            assert not tracked.is_broken, f"{tracked.key} is broken"
            assert tracked.placed == self.bound(tracked.key.name), f"{tracked.key} counts {tracked.placed}"


def play(seed: int, *, is_troubled: bool, rooms: Rooms = Rooms.NONE) -> Seen:
    """Play a world, and return what was seen."""
    found = Seen(0, 0)

    async def scenario() -> None:
        nonlocal found
        rng = random.Random(seed)
        world = GangWorld(rng, is_troubled=is_troubled, rooms=rooms)
        async with world:
            for number in (-2, -1):
                world.add_node_in_rack(number)
            world.add_faults()
            for _ in range(STEPS):
                await world.step()
            found = Seen(world.stale_seen, world.reserved_seen)
            await world.settle()

    run_virtual(scenario())
    return found
