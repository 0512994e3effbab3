"""Replicas of a whole scheduler on one cluster in memory: who binds when, and how they end. In virtual time."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from msgspec import structs

from kscheduler.api.objects import ObjectMeta, Service
from kscheduler.client import informer
from kscheduler.client.handover import handover_of
from kscheduler.client.leaderelection import LeadershipLost
from kscheduler.command.replica import measure_lag
from kscheduler.config.releases import DEFAULT_RELEASE, RELEASE_1_36, RELEASE_1_37, Release
from kscheduler.cycle.binding_tasks import WAITING_DRAIN_S
from kscheduler.errors import InternalError, StoppedAtOnce
from kscheduler.observability.measurements import Measurements
from kscheduler.observability.metrics import Metrics
from kscheduler.scheduler import Scheduler
from kscheduler.simulator.cluster import Cluster
from kscheduler.simulator.cluster_client import Latency
from kscheduler.simulator.faults import FaultKind, Verb
from kscheduler.simulator.virtual_time import LoopClock, VirtualTimeLoop, run_virtual
from kscheduler.testing import make_node, make_pod
from tests.command.replicas import LEASE, Process, SlowToStop
from tests.framework.plugins.volumebinding.objects import make_claim, make_class, pod_with
from tests.scenarios.judge import Judge
from tests.support.waits import until


@pytest.fixture
def signals(monkeypatch: pytest.MonkeyPatch) -> list[dict[int, Callable[[], None]]]:
    """The signal handlers of each replica, in the order they were started; virtual time knows no signals."""
    handlers: list[dict[int, Callable[[], None]]] = []

    def add(loop: VirtualTimeLoop, number: int, callback: Callable[[], None]) -> None:
        if not handlers or number in handlers[-1]:
            handlers.append({})
        handlers[-1][number] = callback

    def remove(loop: VirtualTimeLoop, number: int) -> None: ...

    monkeypatch.setattr(VirtualTimeLoop, "add_signal_handler", add, raising=False)
    monkeypatch.setattr(VirtualTimeLoop, "remove_signal_handler", remove, raising=False)
    return handlers


class World:
    def __init__(self, latency: Latency | None = None, release: Release = RELEASE_1_36) -> None:
        self.release = release
        self.clock = LoopClock(asyncio.get_running_loop())
        self.cluster = Cluster(self.clock)
        self.judge = Judge(self.cluster)
        self.latency = latency
        self.processes: list[Process] = []

    async def leader_and_standby(self) -> tuple[Process, Process]:
        """Start replica a, which leads after a second, and b beside it, which has its lists after another one."""
        leader = self.start("a")
        await asyncio.sleep(1)
        standby = self.start("b")
        await asyncio.sleep(1)
        return leader, standby

    def start(
        self,
        identity: str,
        *,
        elects: bool = True,
        delay_cache: bool = False,
        release: Release = DEFAULT_RELEASE,
        endpoint: SlowToStop | None = None,
    ) -> Process:
        client = self.cluster.client(latency=self.latency, seed=len(self.processes))
        process = Process(
            client, self.clock, identity, elects=elects, delay_cache=delay_cache, release=release, endpoint=endpoint
        )
        self.processes.append(process)
        return process

    def nodes(self, count: int) -> None:
        for index in range(count):
            self.cluster.create_node(make_node(f"n{index}").capacity(cpu="8", memory="32Gi").obj())

    def pods(self, count: int, first: int = 0) -> None:
        for index in range(first, first + count):
            self.cluster.create_pod(make_pod(f"p{index}").req(cpu="100m").obj())

    @property
    def pending(self) -> int:
        return sum(not pod.spec.node_name for pod in self.cluster.pods.values())

    @property
    def holder(self) -> str:
        lease = self.cluster.leases.get(LEASE)
        return (lease.spec.holder_identity or "") if lease else ""

    async def until(self, condition: Callable[[], bool], within_s: float = 60.0) -> float:
        """Seconds until the condition held."""
        return await until(condition, within_s)

    async def end(self) -> None:
        for process in self.processes:
            process.task.cancel()
        await asyncio.gather(*(process.task for process in self.processes), return_exceptions=True)


def run(
    scenario: Callable[[World], Coroutine[Any, Any, None]],
    latency: Latency | None = None,
    release: Release = RELEASE_1_36,
) -> None:
    async def main() -> None:
        world = World(latency, release)
        try:
            await scenario(world)
        finally:
            await world.end()
        assert not world.judge.violations

    run_virtual(main())


def stop(handlers: dict[int, Callable[[], None]]) -> None:
    handlers[signal.SIGTERM]()


Signals = list[dict[int, Callable[[], None]]]


def test_a_replica_alone_schedules_without_asking_for_a_lease(signals: Signals) -> None:
    async def scenario(world: World) -> None:
        world.nodes(2)
        world.pods(20)
        world.start("a", elects=False)
        await world.until(lambda: world.pending == 0, within_s=1)
        assert world.cluster.leases == {}

    run(scenario)


def test_only_the_holder_of_the_lease_binds_and_the_other_keeps_warm(signals: Signals) -> None:
    async def scenario(world: World) -> None:
        world.nodes(2)
        world.pods(20)
        leader = world.start("a")
        await asyncio.sleep(1)
        standby = world.start("b")
        await world.until(lambda: world.pending == 0)
        await asyncio.sleep(1)
        assert world.holder == "a"
        assert leader.scheduler.cache.sizes() == standby.scheduler.cache.sizes()
        assert standby.scheduler.cache.sizes()["pods"] == 20
        assert not standby.failing("readyz")
        assert standby.scheduler.queue.counts().active == 0

    run(scenario)


def test_a_killed_leader_is_followed_when_its_lease_has_run_out_and_no_pod_is_bound_twice(signals: Signals) -> None:
    async def scenario(world: World) -> None:
        world.nodes(4)
        world.pods(200)
        leader = world.start("a")
        await asyncio.sleep(0.1)
        world.start("b")
        await world.until(lambda: world.pending < 150)
        await leader.kill()
        left = world.pending
        assert left > 0
        assert await world.until(lambda: world.pending == 0, within_s=30) > 5
        assert world.holder == "b"

    run(scenario, Latency(bind_s=0.2, jitter=0.3))


def test_a_leader_asked_to_stop_answers_its_binds_releases_the_lease_and_ends_in_peace(signals: Signals) -> None:
    async def scenario(world: World) -> None:
        world.nodes(4)
        world.pods(200)
        leader = world.start("a")
        await asyncio.sleep(0.1)
        world.start("b")
        await world.until(lambda: world.pending < 150)
        stop(signals[0])
        await leader.task
        assert len(leader.scheduler.bindings) == 0
        bound_by_leader = 200 - world.pending
        assert await world.until(lambda: 200 - world.pending > bound_by_leader, within_s=3) < 3
        await world.until(lambda: world.pending == 0)
        assert world.holder == "b"
        await world.until(lambda: world.cluster.event_counts["Scheduled"] == 200)

    run(scenario, Latency(bind_s=0.2, jitter=0.3))


def test_a_leader_asked_to_stop_whose_bindings_are_not_answered_leaves_its_lease_to_expire(signals: Signals) -> None:
    async def scenario(world: World) -> None:
        world.nodes(4)
        leader = world.start("a")
        await asyncio.sleep(1)
        world.start("b")
        leader.client.faults.add(FaultKind.SLOW, Verb.BIND, delay_s=20)
        world.pods(3)
        await world.until(lambda: len(leader.scheduler.bindings) == 3)
        stop(signals[0])
        stopped_s = world.clock.now()
        await leader.task
        assert 10 <= world.clock.now() - stopped_s < 15
        assert (world.pending, world.holder) == (3, "a")
        await world.until(lambda: world.holder == "b")
        assert world.clock.now() - stopped_s > 20
        await world.until(lambda: world.pending == 0)

    run(scenario)


def test_a_leader_asked_to_stop_while_a_volume_is_made_releases_its_lease(signals: Signals) -> None:
    async def scenario(world: World) -> None:
        world.nodes(2)
        leader = world.start("a")
        await asyncio.sleep(1)
        world.start("b")
        world.cluster.create_object(make_class("made", "csi.example.com"))
        claim = make_claim("c0", "made")
        world.cluster.create_object(structs.replace(claim, metadata=ObjectMeta(name="c0", namespace="default")))
        world.cluster.create_pod(pod_with("c0", name="p0").uid("").obj())
        await world.until(lambda: len(leader.scheduler.bindings) == 1)
        stop(signals[0])
        stopped_s = world.clock.now()
        world.pods(1, first=1)
        await leader.task
        await world.until(lambda: world.holder == "b", within_s=1)
        await world.until(lambda: world.pending == 1, within_s=1)
        assert world.clock.now() - stopped_s < WAITING_DRAIN_S + 1.0  # nobody schedules until then

    run(scenario)


def test_a_second_signal_ends_a_replica_that_waits_for_answers_at_once(signals: Signals) -> None:
    async def scenario(world: World) -> None:
        world.nodes(4)
        leader = world.start("a")
        await asyncio.sleep(1)
        leader.client.faults.add(FaultKind.TIMEOUT, Verb.BIND, delay_s=600)
        world.pods(3)
        await world.until(lambda: len(leader.scheduler.bindings) == 3)
        stop(signals[0])
        await asyncio.sleep(1)
        assert not leader.task.done()
        stopped_s = world.clock.now()
        stop(signals[0])
        with pytest.raises(StoppedAtOnce, match="stopped at once by a second signal, with 3 bindings under way"):
            await leader.task
        assert world.clock.now() - stopped_s < 0.1
        assert world.holder == "a"

    run(scenario)


def test_a_second_signal_ends_a_replica_whose_endpoint_has_yet_to_close(signals: Signals) -> None:
    async def scenario(world: World) -> None:
        endpoint = SlowToStop()
        process = world.start("a", elects=False, endpoint=endpoint)
        await asyncio.sleep(1)
        stop(signals[0])
        assert not process.ends_at_next_signal.is_set()
        await asyncio.sleep(60)
        assert process.ends_at_next_signal.is_set()
        assert not process.task.done()
        endpoint.gate.set()
        await process.task

    run(scenario)


def test_a_replica_that_nobody_asked_to_stop_is_not_ended_by_the_next_signal(signals: Signals) -> None:
    async def scenario(world: World) -> None:
        endpoint = SlowToStop()
        process = world.start("a", endpoint=endpoint)
        await asyncio.sleep(1)
        process.client.faults.add(FaultKind.TIMEOUT, {Verb.UPDATE_LEASE, Verb.GET_LEASE})
        await asyncio.sleep(60)
        assert not process.ends_at_next_signal.is_set()
        endpoint.gate.set()
        with pytest.raises(LeadershipLost):
            await process.task

    run(scenario)


def test_a_standby_asked_to_stop_ends_at_once_and_leaves_the_lease_alone(signals: Signals) -> None:
    async def scenario(world: World) -> None:
        world.nodes(1)
        world.start("a")
        await asyncio.sleep(1)
        standby = world.start("b")
        await asyncio.sleep(1)
        stop(signals[1])
        started = world.clock.now()
        await standby.task
        assert world.clock.now() == started
        assert world.holder == "a"

    run(scenario)


def test_losing_the_lease_stops_binding_at_once_and_is_a_fault(signals: Signals) -> None:
    async def scenario(world: World) -> None:
        world.nodes(4)
        leader = world.start("a")
        await asyncio.sleep(1)
        leader.client.faults.add(FaultKind.TIMEOUT, {Verb.UPDATE_LEASE, Verb.GET_LEASE})
        await asyncio.sleep(3)
        world.pods(10)
        await world.until(lambda: world.pending == 0)
        with pytest.raises(LeadershipLost):
            await asyncio.wait_for(leader.task, 30)
        world.pods(10, first=10)
        await asyncio.sleep(30)
        assert world.pending == 10

    run(scenario)


def test_a_replica_that_cannot_list_is_alive_and_not_ready_and_says_why(signals: Signals) -> None:
    async def scenario(world: World) -> None:
        world.cluster.stop()
        process = world.start("a", elects=False)
        await asyncio.sleep(5)
        assert process.failing("readyz") == ["sched-handler-sync"]
        assert process.failing("livez") == []
        world.cluster.start()
        await world.until(lambda: not process.failing("readyz"))
        stop(signals[0])
        assert process.failing("readyz") == ["shutdown"]
        await process.task

    run(scenario)


def test_a_watch_that_was_refused_once_and_is_silent_since_keeps_no_pod_waiting(signals: Signals) -> None:
    async def scenario(world: World) -> None:
        world.nodes(2)
        world.pods(20)
        process = world.start("a")
        process.client.faults.add(FaultKind.TOO_MANY_REQUESTS, Verb.WATCH, resource="services", count=1)
        await asyncio.sleep(2)
        assert any(informer.last_error for informer in process.scheduler.informers)
        await world.until(lambda: world.pending == 0, within_s=10)

    run(scenario)


@pytest.mark.parametrize("refusal", [FaultKind.NO_SUCH_PATH, FaultKind.FORBIDDEN])
def test_a_kind_that_is_not_served_or_may_not_be_read_does_not_delay_a_new_leader(
    signals: Signals, refusal: FaultKind
) -> None:
    async def scenario(world: World) -> None:
        world.nodes(4)
        leader, standby = await world.leader_and_standby()
        standby.client.faults.add(FaultKind.CUT, Verb.DELIVER, resource="services", count=1)
        standby.client.faults.add(refusal, {Verb.LIST, Verb.WATCH}, resource="services")
        world.cluster.create_object(Service(ObjectMeta(name="web", namespace="default")))
        await asyncio.sleep(30)
        assert any(informer.last_error for informer in standby.scheduler.informers)
        stop(signals[0])
        await leader.task
        world.pods(1)
        assert await world.until(lambda: world.pending == 0) < 0.2
        assert world.holder == "b"

    run(scenario)


def test_a_standby_whose_watches_of_pods_are_frozen_does_not_lead_before_one_works(signals: Signals) -> None:
    async def scenario(world: World) -> None:
        world.pods(16)
        leader, standby = await world.leader_and_standby()
        standby.client.faults.add(FaultKind.SILENT, Verb.DELIVER, resource="pods", delay_s=3600.0)
        world.cluster.create_node(make_node("full").capacity(cpu="800m", memory="32Gi").obj())
        await world.until(lambda: world.pending == 8)
        await asyncio.sleep(1)
        await leader.kill()
        await asyncio.sleep(60)
        assert world.pending == 8
        assert world.holder == "a"
        standby.client.faults.clear()
        world.cluster.create_pod(make_pod("late").obj())
        await world.until(lambda: world.pending == 8, within_s=10)
        assert world.holder == "b"

    run(scenario)


def test_a_standby_that_has_seen_as_much_as_the_last_leader_leads_at_once_however_many_pods_there_are(
    signals: Signals, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(informer, "SHORT_LIST", 0)  # as if there were too many to be listed

    async def scenario(world: World) -> None:
        world.nodes(4)
        world.pods(100)
        leader = world.start("a")
        await world.until(lambda: world.pending == 0)
        world.start("b")
        await asyncio.sleep(30)
        world.pods(100, first=100)
        await world.until(lambda: world.pending < 50)
        stop(signals[0])
        await leader.task
        left = world.pending
        assert left
        assert await world.until(lambda: world.pending < left) < 0.1
        assert world.holder == "b"

    run(scenario, Latency(bind_s=0.2, jitter=0.3))


def test_a_standby_that_has_seen_less_than_the_last_leader_does_not_lead_before_it_has(signals: Signals) -> None:
    async def scenario(world: World) -> None:
        world.pods(16)
        leader, standby = await world.leader_and_standby()
        standby.client.faults.add(FaultKind.SILENT, Verb.DELIVER, resource="pods", delay_s=3600.0)
        standby.client.faults.add(FaultKind.SERVER_ERROR, Verb.LIST, resource="pods")
        world.cluster.create_node(make_node("full").capacity(cpu="800m", memory="32Gi").obj())
        await world.until(lambda: world.pending == 8)
        stop(signals[0])
        await leader.task
        await asyncio.sleep(60)
        assert not standby.scheduler.pods.store["default/p0"].spec.node_name
        assert not standby.elector or not standby.elector.is_leader
        standby.client.faults.clear()
        await world.until(lambda: world.holder == "b", within_s=10)
        assert world.pending == 8

    run(scenario)


def test_a_leader_that_has_not_seen_a_binding_of_its_own_leaves_nothing(signals: Signals) -> None:
    async def scenario(world: World) -> None:
        world.pods(1)
        leader = world.start("a")
        await asyncio.sleep(1)
        leader.client.faults.add(FaultKind.SILENT, Verb.DELIVER, resource="pods", delay_s=3600.0)
        world.nodes(1)
        await world.until(lambda: world.pending == 0)
        stop(signals[0])
        await leader.task
        assert world.holder == ""
        assert handover_of(world.cluster.leases[LEASE]) is None

    run(scenario)


def test_a_standby_that_may_not_read_pods_leaves_the_lease_to_one_that_may(signals: Signals) -> None:
    async def scenario(world: World) -> None:
        world.nodes(2)
        leader = world.start("a")
        await asyncio.sleep(1)
        blind = world.start("b")
        await asyncio.sleep(1)
        for verb in (Verb.LIST, Verb.WATCH):
            blind.client.faults.add(FaultKind.SERVER_ERROR, verb, resource="pods")
        blind.client.faults.add(FaultKind.CUT, Verb.DELIVER, resource="pods")
        world.pods(20)
        await world.until(lambda: world.pending == 0)
        await leader.kill()
        world.pods(5, first=20)
        await asyncio.sleep(60)
        assert world.pending == 5
        assert world.holder == "a"
        world.start("c")
        await world.until(lambda: world.pending == 0, within_s=20)
        assert world.holder == "c"
        blind.client.faults.clear()
        await world.processes[2].kill()
        world.pods(5, first=25)
        await world.until(lambda: world.pending == 0, within_s=18)
        assert world.holder == "b"

    run(scenario)


def test_a_replica_alone_that_could_not_read_pods_leads_within_3_s_of_their_being_readable(signals: Signals) -> None:
    async def scenario(world: World) -> None:
        world.nodes(2)
        world.pods(5)
        only = world.start("a")
        for verb in (Verb.LIST, Verb.WATCH):
            only.client.faults.add(FaultKind.SERVER_ERROR, verb, resource="pods")
        await asyncio.sleep(100)
        assert world.pending == 5
        only.client.faults.clear()
        assert await world.until(lambda: world.pending == 0) <= 3

    run(scenario)


def test_after_an_outage_a_leader_binds_within_3_s(signals: Signals) -> None:
    async def scenario(world: World) -> None:
        world.nodes(2)
        leader = world.start("a", elects=False)
        world.pods(5)
        await world.until(lambda: world.pending == 0)
        world.cluster.stop()
        await asyncio.sleep(200)
        assert not leader.task.done()
        world.cluster.start()
        world.pods(5, first=5)
        assert await world.until(lambda: world.pending == 0) <= 3

    run(scenario)


def test_a_replica_asked_to_stop_before_it_could_list_ends_at_once(signals: Signals) -> None:
    async def scenario(world: World) -> None:
        world.cluster.stop()
        process = world.start("a", elects=False)
        await asyncio.sleep(5)
        stop(signals[0])
        await asyncio.wait_for(process.task, 0.1)

    run(scenario)


def test_a_cache_that_is_to_wait_for_the_lease_is_filled_after_it(signals: Signals) -> None:
    async def scenario(world: World) -> None:
        world.nodes(2)
        leader = world.start("a")
        await asyncio.sleep(1)
        standby = world.start("b", delay_cache=True)
        await asyncio.sleep(5)
        assert standby.scheduler.cache.sizes()["nodes"] == 0
        assert standby.failing("readyz") == []
        await leader.kill()
        world.pods(5)
        await world.until(lambda: world.pending == 0)

    run(scenario)


def test_a_task_that_ends_by_itself_is_a_bug_that_ends_the_process(
    signals: Signals, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def nothing(self: Scheduler) -> None:
        return

    monkeypatch.setattr(Scheduler, "observe", nothing)

    async def scenario(world: World) -> None:
        process = world.start("a", elects=False)
        with pytest.raises(InternalError, match="has ended"):
            await process.task

    run(scenario)


@pytest.mark.parametrize(("release", "counted"), [(RELEASE_1_36, "Pods"), (RELEASE_1_37, "Entities")])
def test_the_dump_compares_cache_and_informers_and_lists_what_waits(
    signals: Signals, caplog: pytest.LogCaptureFixture, release: Release, counted: str
) -> None:
    async def scenario(world: World) -> None:
        world.nodes(1)
        world.pods(2)
        world.cluster.create_pod(make_pod("big").req(cpu="100").obj())
        process = world.start("a", elects=False, release=release)
        await asyncio.sleep(1)
        with caplog.at_level(logging.INFO):
            signals[0][signal.SIGUSR2]()
        process.scheduler.cache.remove_pod("uid-default-p0")
        with caplog.at_level(logging.WARNING):
            signals[0][signal.SIGUSR2]()

    run(scenario, release=release)
    compared = [record for record in caplog.records if record.message == "cache comparison"]
    differences = [(record.__dict__["kind"], record.__dict__["missing"]) for record in compared]
    assert ("pods", []) in differences
    assert differences[-1] == ("pods", ["uid-default-p0"])
    (nodes,) = (record.__dict__["nodes"] for record in caplog.records if record.message == "dump of cached nodes")
    assert "node n0: cpu 200m of 8000m" in nodes[0]
    (queue,) = (record.__dict__ for record in caplog.records if record.message == "dump of scheduling queue")
    assert queue["pods"] == ["default/big"]
    assert queue["summary"] == f"activeQ:0; backoffQ:0; unschedulable{counted}:1"


class Wakings:
    """Counts the timers of the running loop that came due, and the requests of a process, from now on."""

    def __init__(self, process: Process) -> None:
        self.timers = 0
        self.requests = 0
        loop = asyncio.get_running_loop()
        call_at, call_later, succeeded = loop.call_at, loop.call_later, process.client.on_success

        def counted(callback: Callable[..., object]) -> Callable[..., None]:
            def call(*args: Any) -> None:
                self.timers += 1
                callback(*args)

            return call

        def at(when: float, callback: Callable[..., object], *args: Any, context: Any = None) -> asyncio.TimerHandle:
            return call_at(when, counted(callback), *args, context=context)

        def later(
            delay: float, callback: Callable[..., object], *args: Any, context: Any = None
        ) -> asyncio.TimerHandle:
            return call_later(delay, counted(callback), *args, context=context)

        def asked() -> None:
            self.requests += 1
            succeeded()

        loop.call_at, loop.call_later = at, later  # type: ignore[method-assign, assignment]
        process.client.on_success = asked


@pytest.mark.parametrize("waiting", [0, 1], ids=["nothing waits", "a pod waits for room"])
def test_an_idle_leader_wakes_and_asks_no_more_than_its_lease_its_watches_and_one_metric_take(
    signals: Signals, waiting: int
) -> None:
    async def scenario(world: World) -> None:
        world.nodes(3)
        for index in range(waiting):
            world.cluster.create_pod(make_pod(f"big{index}").req(cpu="100").obj())
        process = world.start("a")
        await asyncio.sleep(600)
        counted = Wakings(process)
        await asyncio.sleep(3600)
        renewals = 3600 / 2
        others = len(process.scheduler.informers) - 2
        # The ends of watches that show that they work, after 3 s, and of kinds other than pods and nodes after 30 s.
        proofs = 2 * 3600 / 3 + others * 3600 / 30
        lag = 3600  # samples of the event loop's lag
        looks = waiting * 3600 / 30  # through the queue, as kube-scheduler has it
        tries = waiting * 3600 / 300  # of the pod, with its Event
        assert counted.timers <= 1.01 * (renewals + proofs + lag + looks)
        assert counted.requests <= 1.01 * (renewals + proofs) + tries

    run(scenario)


def test_the_lag_of_the_event_loop_is_measured() -> None:
    async def main() -> None:
        metrics = Metrics()
        clock = LoopClock(asyncio.get_running_loop())
        task = asyncio.ensure_future(measure_lag(clock, Measurements(metrics)))
        await asyncio.sleep(10.5)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert metrics.event_loop_lag_seconds.count == 10
        assert metrics.event_loop_lag_seconds.sum == pytest.approx(0)

    run_virtual(main())
