"""How preemption writes to the apiserver: the cluster in memory, its faults, and virtual time."""

from __future__ import annotations

import asyncio
import random

import pytest
from msgspec.structs import replace

from kscheduler.api.objects import PodCondition
from kscheduler.client.recorder import EventRecorder
from kscheduler.client.write_permission import WritePermission
from kscheduler.cycle.binding_tasks import BackgroundTasks, PreBindSteps
from kscheduler.cycle.evictions import REFUSED_PAUSE_S, SchedulerEvictions
from kscheduler.cycle.pod_timers import PodTimers
from kscheduler.cycle.waiting_pods import WaitingPods
from kscheduler.errors import APIError, Conflict, Forbidden, NotLeading
from kscheduler.framework.evictions import Evictions
from kscheduler.framework.status import Code
from kscheduler.observability.measurements import Measurements
from kscheduler.observability.metrics import Metrics
from kscheduler.simulator.cluster import Cluster
from kscheduler.simulator.faults import FaultKind, Verb
from kscheduler.simulator.virtual_time import LoopClock, run_virtual
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.testing import make_pod

CONDITION = PodCondition(type="DisruptionTarget", status="True", reason="PreemptionByScheduler", message="m")


class Bench:
    """Evictions on a cluster with one bound pod, `victim`, that is gone as soon as it is deleted."""

    def __init__(self) -> None:
        self.clock = LoopClock(asyncio.get_running_loop())
        self.cluster = Cluster(self.clock)
        self.client = self.cluster.client()
        self.faults = self.client.faults
        self.victim = self.cluster.create_pod(make_pod("victim").uid("").node("n1").grace_period(0).obj())
        self.waiting = WaitingPods()
        self.pre_binds = PreBindSteps()
        self.metrics = Metrics()
        self.recorder = EventRecorder(self.client, self.clock, random.Random(1), controller="other", instance="i")
        self.timers = PodTimers(self.clock, lambda: None)
        self.is_leader = True
        self.evictions: Evictions = SchedulerEvictions(
            self.client,
            self.clock,
            pods=self.cluster.pods,
            timers=self.timers,
            recorder=self.recorder,
            measurements=Measurements(self.metrics),
            waiting_pods=self.waiting,
            pre_binds=self.pre_binds,
            tasks=BackgroundTasks("a preemption", lambda: None),
            permission=WritePermission(self),
        )

    def condition(self) -> PodCondition:
        """The only one the victim has."""
        conditions = self.cluster.pods["default/victim"].status.conditions or []
        assert len(conditions) == 1
        return conditions[0]

    def exists(self) -> bool:
        return "default/victim" in self.cluster.pods


def test_a_victim_is_marked_and_deleted() -> None:
    async def main() -> None:
        bench = Bench()
        assert await bench.evictions.mark(bench.victim, CONDITION)
        condition = bench.condition()
        assert (condition.type, condition.reason) == ("DisruptionTarget", "PreemptionByScheduler")
        assert condition.last_transition_time
        assert await bench.evictions.delete(bench.victim)
        assert not bench.exists()

    run_virtual(main())


def test_a_condition_that_was_true_before_keeps_its_time() -> None:
    async def main() -> None:
        bench = Bench()
        old = replace(CONDITION, message="old", last_transition_time="2020-01-01T00:00:00Z")
        status = replace(bench.victim.status, conditions=[old])
        victim = bench.cluster.update_pod(replace(bench.victim, status=status))
        assert await bench.evictions.mark(victim, CONDITION)
        condition = bench.condition()
        assert (condition.message, condition.last_transition_time) == ("m", "2020-01-01T00:00:00Z")

    run_virtual(main())


@pytest.mark.parametrize("kind", [FaultKind.SERVER_ERROR, FaultKind.TIMEOUT, FaultKind.LOST_ANSWER, FaultKind.CONFLICT])
def test_a_write_is_tried_four_times(kind: FaultKind) -> None:
    async def main() -> None:
        bench = Bench()
        bench.faults.add(kind, Verb.DELETE_POD, count=3)
        await bench.evictions.delete(bench.victim)
        assert not bench.exists()
        again = Bench()
        again.faults.add(kind, Verb.DELETE_POD, count=4)
        if kind is FaultKind.LOST_ANSWER:  # carried out all the same
            assert await again.evictions.delete(again.victim) is False
            return
        with pytest.raises(APIError):
            await again.evictions.delete(again.victim)
        assert again.exists()

    run_virtual(main())


def test_retry_after_is_obeyed() -> None:
    async def main() -> None:
        bench = Bench()
        bench.faults.add(FaultKind.TOO_MANY_REQUESTS, Verb.DELETE_POD, count=1, retry_after_s=3.0)
        started = bench.clock.now()
        await bench.evictions.delete(bench.victim)
        assert bench.clock.now() - started == pytest.approx(3.0)

    run_virtual(main())


def test_what_will_not_pass_is_not_tried_again() -> None:
    async def main() -> None:
        bench = Bench()
        tries = 0

        async def forbid(namespace: str, name: str, uid: str) -> None:
            nonlocal tries
            tries += 1
            raise Forbidden("no", status=403)

        bench.client.delete_pod = forbid  # type: ignore[method-assign]
        started = bench.clock.now()
        with pytest.raises(Forbidden):
            await bench.evictions.delete(bench.victim)
        assert tries == 1
        assert bench.clock.now() - started == REFUSED_PAUSE_S  # else the preemptor would spin

    run_virtual(main())


def test_a_pod_that_is_gone_and_one_that_took_its_name_are_left_alone() -> None:
    async def main() -> None:
        bench = Bench()
        bench.cluster.delete_pod("default/victim")
        assert not await bench.evictions.mark(bench.victim, CONDITION)
        assert not await bench.evictions.delete(bench.victim)
        successor = bench.cluster.create_pod(make_pod("victim").uid("").node("n1").obj())
        assert successor.metadata.uid != bench.victim.metadata.uid
        assert not await bench.evictions.mark(bench.victim, CONDITION)
        assert not await bench.evictions.delete(bench.victim)
        assert bench.cluster.pods["default/victim"] == successor

    run_virtual(main())


def test_a_conflict_that_is_not_about_the_name_is_raised_in_the_end() -> None:
    async def main() -> None:
        bench = Bench()
        bench.faults.add(FaultKind.CONFLICT, Verb.PATCH_STATUS)
        with pytest.raises(Conflict):
            await bench.evictions.mark(bench.victim, CONDITION)

    run_virtual(main())


def test_without_the_lease_nothing_is_written() -> None:
    async def main() -> None:
        bench = Bench()
        bench.is_leader = False
        for write in (
            bench.evictions.mark(bench.victim, CONDITION),
            bench.evictions.delete(bench.victim),
            bench.evictions.clear_nomination(bench.victim),
        ):
            with pytest.raises(NotLeading, match="default/victim"):
                await write
        assert bench.exists()

    run_virtual(main())


def test_a_nomination_is_cleared() -> None:
    async def main() -> None:
        bench = Bench()
        pod = bench.cluster.create_pod(make_pod("low").uid("").nominated_node("n1").obj())
        await bench.evictions.clear_nomination(pod)
        assert bench.cluster.pods["default/low"].status.nominated_node_name == ""
        bench.cluster.delete_pod("default/low")
        await bench.evictions.clear_nomination(pod)

    run_virtual(main())


def test_a_pod_that_waits_on_permit_is_sent_back_with_an_error() -> None:
    async def main() -> None:
        bench = Bench()
        info = PodInfo(make_pod("p").obj())
        waiting = bench.waiting.add(info, {"Gang": 10.0})
        assert bench.evictions.stop_binding(info.uid, "DefaultPreemption")
        status = await waiting.wait()
        assert status is not None
        assert (status.code, status.message, status.plugin) == (Code.ERROR, "preempted", "DefaultPreemption")

    run_virtual(main())


def test_a_pod_in_pre_bind_is_cancelled_and_others_have_no_binding_to_stop() -> None:
    async def main() -> None:
        bench = Bench()
        work = asyncio.ensure_future(bench.pre_binds.run("u", asyncio.sleep(10, None)))
        await asyncio.sleep(1)
        assert not bench.evictions.stop_binding("other", "DefaultPreemption")
        assert bench.evictions.stop_binding("u", "DefaultPreemption")
        status = await work
        assert status is not None
        assert (status.code, status.message) == (Code.ERROR, "preempted by DefaultPreemption")

    run_virtual(main())


def test_the_event_is_the_profiles_and_names_both_pods() -> None:
    async def main() -> None:
        bench = Bench()
        preemptor = make_pod("vip").scheduler_name("mine").obj()
        running = asyncio.ensure_future(bench.recorder.run())
        bench.evictions.record_event(bench.victim, preemptor, "Preempted by pod u on node n1")
        await bench.recorder.drain(1)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        (event,) = bench.cluster.events
        assert (event.type, event.reason, event.action, event.reporting_controller) == (
            "Normal", "Preempted", "Preempting", "mine",
        )  # fmt: skip
        assert event.regarding.name == "victim"
        assert event.related is not None
        assert (event.related.kind, event.related.name) == ("Pod", "vip")

    run_virtual(main())


def test_the_rest_is_passed_on() -> None:
    async def main() -> None:
        bench = Bench()
        done: list[str] = []

        async def work() -> None:
            done.append("work")

        bench.evictions.begin(work())
        await bench.evictions.together(work(), work())
        assert done == ["work"] * 3
        bench.evictions.try_again("u")
        assert bench.timers.pop_due(bench.clock.now()) == ["u"]
        assert bench.evictions.current("default/victim") == bench.victim
        assert bench.evictions.wall() == bench.clock.wall()
        bench.evictions.attempted()
        bench.evictions.chosen(3)
        bench.evictions.ended("error", 0.5)
        assert bench.metrics.preemption_attempts_total.value == 1
        assert bench.metrics.preemption_victims.sum == 3
        assert bench.metrics.preemption_goroutines_execution_total.labels("error").value == 1
        assert bench.metrics.preemption_goroutines_duration_seconds.labels("error").sum == 0.5

    run_virtual(main())


async def test_where_no_scheduler_is_nothing_is_known_and_nothing_may_be_done() -> None:
    nowhere = Evictions()
    pod = make_pod("p").obj()
    assert nowhere.current(pod.key) is None
    for write in (nowhere.mark(pod, CONDITION), nowhere.delete(pod), nowhere.clear_nomination(pod)):
        with pytest.raises(Exception, match="where no scheduler is"):
            await write
    with pytest.raises(Exception, match="where no scheduler is"):
        nowhere.begin(asyncio.sleep(0))
