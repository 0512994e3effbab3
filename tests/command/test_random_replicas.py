"""Two or three replicas on random machines, under random faults: never do two bind, and one leads once writes work.

A plan is drawn first, as in the random scenarios. Machines are suspended, cut off, and killed; reads and writes of the
Lease fail, take long, or are carried out after the replica has given them up. What is sent cannot be called back: a
request of a replica that was killed still arrives. Whenever a replica sends a binding, no other one may believe that it
leads. Then faults end: one replica leads within the time that a Lease takes to expire, and all pods are bound.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from kscheduler.client.kinds import Resource
from kscheduler.client.leaderelection import CONFIRM_MOST_S, JITTER_FACTOR, ElectionConfig, LeadershipLost
from kscheduler.client.protocol import ONE_TRY, Binding, BindTry, WatchEvent
from kscheduler.simulator.cluster import Cluster
from kscheduler.simulator.cluster_client import ClusterClient, Latency
from kscheduler.simulator.faults import FaultKind, Faults, Verb
from kscheduler.simulator.virtual_time import EPOCH_S, LoopClock, VirtualTimeLoop, run_virtual
from kscheduler.testing import make_node, make_pod
from tests.command.replicas import LEASE, Process
from tests.support.seeds import sampled
from tests.support.waits import until

R = TypeVar("R")
T = TypeVar("T")

EXAMPLES = sampled(400)
ELECTION = ElectionConfig("defaults")
LOOK_S = 0.05  # between two looks at who leads
RESTART_S = 0.5  # for so long a process that has ended is not started again
# The last holder's Lease expires, and a candidate tries; one whose confirmation fails pauses, and the next one tries.
LEADS_S = ELECTION.lease_duration_s + 2 * (ELECTION.retry_period_s * (1 + JITTER_FACTOR) + CONFIRM_MOST_S)
BOUND_S = 60.0  # after that; a backoff of 10 s and a pause of an informer of 30 s may be running
SILENCE_S = 15.0  # of a dead watch, before somebody notices


class MachineClock:
    """Stands still while its machine is suspended. Its wall clock is its own, and may be wrong."""

    def __init__(self, wrong_s: float) -> None:
        self._time = asyncio.get_running_loop().time
        self._wrong_s = wrong_s
        self._stands_at: float | None = None

    def now(self) -> float:
        return self._time() if self._stands_at is None else self._stands_at

    def wall(self) -> float:
        return EPOCH_S + self._wrong_s + self.now()

    def suspend(self) -> None:
        self._stands_at = self.now()

    def resume(self) -> None:
        self._stands_at = None


class MachineClient(ClusterClient):
    """Sends nothing while its machine is suspended. What is sent is carried out, whatever becomes of the sender."""

    def __init__(self, cluster: Cluster, latency: Latency, seed: int, on_bind: Callable[[], None]) -> None:
        super().__init__(cluster, latency, Faults(seed), random.Random(seed))
        self.runs = asyncio.Event()
        self.runs.set()
        self.is_cut_off = False
        self._on_bind = on_bind
        self._sent: set[asyncio.Future[Any]] = set()
        verbs = set(Verb) - {Verb.DELIVER}
        self.faults.add(FaultKind.CUT, Verb.DELIVER, matches=lambda _: self.is_cut_off)
        self.faults.add(FaultKind.TIMEOUT, verbs, delay_s=3.0, matches=lambda _: self.is_cut_off)

    @property
    def sends(self) -> bool:
        return False

    async def bind(self, binding: Binding, attempt: BindTry = ONE_TRY) -> None:
        await self.runs.wait()  # before it is asked whether this replica still leads
        await super().bind(binding, attempt)

    async def _deliver(self, resource: Resource[T], batch: list[WatchEvent[T]], timeout_s: float) -> Any:
        await self.runs.wait()  # what comes for a process that stands still is read when it goes on
        return await super()._deliver(resource, batch, timeout_s)

    async def _request(self, verb: Verb, plural: str, subject: object, latency_s: float, act: Callable[[], R]) -> R:
        await self.runs.wait()
        if verb is Verb.BIND:
            self._on_bind()
        sent = asyncio.ensure_future(super()._request(verb, plural, subject, latency_s, act))
        self._sent.add(sent)
        sent.add_done_callback(self._sent.discard)
        return await asyncio.shield(sent)


class Machine:
    """A place where one replica runs after the other."""

    def __init__(self, world: World, number: int, wrong_s: float) -> None:
        self.clock = MachineClock(wrong_s)
        self.faults: list[Struck] = []  # of each replica here
        self.is_suspended = False
        self.is_stopping = False
        self.ended_at = 0.0
        self._world = world
        self._number = number
        self._starts = 0
        self.process = self.start()

    def start(self) -> Process:
        """A new process, for one that has ended."""
        world, self.is_stopping = self._world, False
        self._starts += 1
        seed = 100 * self._number + self._starts
        self.client = MachineClient(world.cluster, world.plan.latency, seed, lambda: world.check_binding_by(self))
        for fault in world.plan.faults if world.is_troubled else ():
            if fault.replica in (self._number, None):
                self.client.faults.add(fault.kind, fault.verbs, probability=fault.probability, delay_s=fault.delay_s)
        self.process = Process(self.client, self.clock, f"replica-{self._number}-{self._starts}")
        return self.process

    @property
    def leads(self) -> bool:
        """Does the replica act as leader? One that is suspended does not act."""
        elector = self.process.elector
        assert elector is not None
        return elector.is_leader and not self.is_suspended and not self.process.task.done()

    def suspend(self) -> None:
        if not self.is_suspended:
            self.is_suspended = True
            self.clock.suspend()
            self.client.runs.clear()

    def resume(self) -> None:
        self.is_suspended = False
        self.clock.resume()
        self.client.runs.set()

    def stop(self) -> None:
        self.is_stopping = True
        self.process.replica._on_stop_signal()

    def check_end(self) -> str:
        """What is wrong about how its process has ended."""
        task = self.process.task
        if task.cancelled():
            return ""  # killed
        error = task.exception()
        if isinstance(error, LeadershipLost) or (error is None and self.is_stopping):
            return ""
        return f"{self.process.task} ended by {error!r}"


@dataclass(frozen=True)
class Step:
    """Wait, then do what `act` names to the machine of that number, or to the cluster."""

    wait_s: float
    act: str
    machine: int


@dataclass(frozen=True)
class Struck:
    replica: int | None  # None: all
    kind: FaultKind
    verbs: tuple[Verb, ...]
    probability: float
    delay_s: float


@dataclass(frozen=True)
class Plan:
    latency: Latency
    wrong_s: tuple[float, ...]  # machine -> by how much its wall clock is wrong
    faults: list[Struck]
    steps: list[Step]


READS, WRITES = (Verb.GET_LEASE,), (Verb.UPDATE_LEASE, Verb.CREATE_LEASE)
faults = st.builds(
    lambda replica, pair, *rest: Struck(replica, *pair, *rest),
    st.sampled_from([None, 0, 1, 2]),
    st.one_of(
        st.tuples(
            st.sampled_from(
                [FaultKind.TIMEOUT, FaultKind.SLOW, FaultKind.SLOW, FaultKind.SERVER_ERROR, FaultKind.TOO_MANY_REQUESTS]
            ),
            st.sampled_from([READS, WRITES, (*READS, *WRITES)]),
        ),
        st.tuples(st.sampled_from([FaultKind.LOST_ANSWER, FaultKind.CONFLICT]), st.just(WRITES)),
        st.tuples(st.sampled_from([FaultKind.SLOW, FaultKind.LOST_ANSWER]), st.just((Verb.BIND,))),
        st.tuples(st.sampled_from([FaultKind.CUT, FaultKind.SILENT, FaultKind.DELAYED]), st.just((Verb.DELIVER,))),
    ),
    st.sampled_from([0.1, 0.3, 0.6, 1.0]),
    st.sampled_from([0.0, 0.5, 3.0, 9.0, 14.0]),
)
ACTS = [
    "create pods", "create pods", "kill", "kill", "stop", "suspend", "suspend", "suspend", "resume", "resume", "resume",
    "cut off", "reconnect", "outage",
]  # fmt: skip
plans = st.builds(
    Plan,
    latency=st.builds(
        Latency,
        list_s=st.sampled_from([0.0, 0.05]),
        watch_s=st.sampled_from([0.0, 0.02, 1.0]),
        bind_s=st.sampled_from([0.0, 0.01, 0.5]),
        write_s=st.sampled_from([0.0, 0.01, 0.5]),
        jitter=st.sampled_from([0.0, 0.8]),
    ),
    wrong_s=st.lists(st.sampled_from([0.0, 3600.0, -3600.0]), min_size=2, max_size=3).map(tuple),
    faults=st.lists(faults, max_size=4),
    steps=st.lists(
        st.builds(
            Step,
            wait_s=st.sampled_from([0.0, 0.1, 1.0, 3.0, 8.0, 14.0, 20.0]),
            act=st.sampled_from(ACTS),
            machine=st.integers(0, 2),
        ),
        min_size=5,
        max_size=25,
    ),
)


class World:
    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.is_troubled = True
        self.clock = LoopClock(asyncio.get_running_loop())
        self.cluster = Cluster(self.clock)
        self.wrong: list[str] = []
        self.pods = 0
        for index in range(2):
            self.cluster.create_node(make_node(f"n{index}").capacity(cpu="1000", memory="1Ti", pods=1000).obj())
        self.machines: list[Machine] = []
        for number, wrong_s in enumerate(plan.wrong_s):
            self.machines.append(Machine(self, number, wrong_s))

    # --- what must hold -------------------------------------------------------------------------------------------

    @property
    def leaders(self) -> list[Machine]:
        return [machine for machine in self.machines if machine.leads]

    def check_binding_by(self, machine: Machine) -> None:
        """A replica that sends a binding leads, and no other one does."""
        if self.leaders != [machine]:
            self._blame(f"{self._names([machine])} binds while {self._names(self.leaders)} lead")

    def _blame(self, what: str) -> None:
        self.wrong.append(f"at {self.clock.now():g} s {what}")

    def _names(self, machines: list[Machine]) -> list[int]:
        return [self.machines.index(machine) for machine in machines]

    async def look(self) -> None:
        """See who leads, and start processes again that have ended. Never returns."""
        while True:
            if len(self.leaders) > 1:
                self._blame(f"{self._names(self.leaders)} lead")
            for machine in self.machines:
                if machine.process.task.done():
                    self._start_again(machine)
                else:
                    machine.ended_at = self.clock.now()
            await asyncio.sleep(LOOK_S)

    def _start_again(self, machine: Machine) -> None:
        if self.clock.now() - machine.ended_at < RESTART_S or machine.is_suspended:
            return
        if wrong := machine.check_end():
            self._blame(wrong)
        machine.start()

    # --- steps ----------------------------------------------------------------------------------------------------

    def create_pods(self, count: int = 3) -> None:
        for _ in range(count):
            self.pods += 1
            self.cluster.create_pod(make_pod(f"p{self.pods}").req(cpu="100m").obj())

    @property
    def pending(self) -> int:
        return sum(not pod.spec.node_name for pod in self.cluster.pods.values())

    async def do(self, step: Step) -> None:
        await asyncio.sleep(step.wait_s)
        machine = self.machines[step.machine % len(self.machines)]
        if step.act == "create pods":
            self.create_pods()
        elif step.act == "kill":
            await machine.process.kill()
        elif step.act == "stop":
            if not machine.process.task.done() and not machine.is_stopping:
                machine.stop()
        elif step.act == "suspend":
            machine.suspend()
        elif step.act == "resume":
            self.create_pods()  # for a leader that does not know yet that it is none
            machine.resume()
        elif step.act in ("cut off", "reconnect"):
            machine.client.is_cut_off = step.act == "cut off"
        elif step.act == "outage":
            self.cluster.stop()
            await asyncio.sleep(4.0)
            self.cluster.start()

    def end_troubles(self) -> None:
        self.is_troubled = False
        for machine in self.machines:
            machine.resume()
            machine.client.faults.clear()

    def describe(self) -> str:
        lease = self.cluster.leases.get(LEASE)
        holder = lease.spec.holder_identity if lease else "nobody"
        ended = [machine.process.task.done() for machine in self.machines]
        return f"At {self.clock.now():g} s {self._names(self.leaders)} lead, the Lease is of {holder}, ended: {ended}"


async def execute(plan: Plan) -> None:
    world = World(plan)
    looking = asyncio.ensure_future(world.look())
    try:
        for step in plan.steps:
            await world.do(step)
        world.end_troubles()
        world.create_pods()
        await until(lambda: len(world.leaders) == 1, LEADS_S, world.describe)
        await until(lambda: not world.pending, BOUND_S, world.describe)
    finally:
        tasks = [looking, *(machine.process.task for machine in world.machines)]
        for task in tasks:
            task.cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
    assert isinstance(results[0], asyncio.CancelledError), results[0]
    assert not world.wrong, "\n".join(world.wrong[:10])


@pytest.fixture(autouse=True, scope="module")
def _no_signals() -> Iterator[None]:
    """Virtual time knows no signals."""
    with pytest.MonkeyPatch.context() as patch:
        for method in ("add_signal_handler", "remove_signal_handler"):
            patch.setattr(VirtualTimeLoop, method, lambda *_: None, raising=False)
        yield


RANDOM = settings(
    max_examples=-(-EXAMPLES // 8),
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@RANDOM
@given(plans)
def test_whatever_happens_to_replicas_no_two_bind_and_one_leads_in_the_end(plan: Plan) -> None:
    run_virtual(execute(plan))


@pytest.mark.slow
@settings(RANDOM, max_examples=EXAMPLES, phases=[Phase.generate, Phase.shrink])
@given(plans)
def test_the_same_with_many_more_examples(plan: Plan) -> None:
    run_virtual(execute(plan))
