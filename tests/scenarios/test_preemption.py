"""A critical pod finds no room: whom it drives out, whom it spares, and what happens when that goes wrong."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from msgspec.structs import replace

from kscheduler.api.objects import (
    LabelSelector,
    ObjectMeta,
    Pod,
    PodDisruptionBudget,
    PodDisruptionBudgetSpec,
    PodDisruptionBudgetStatus,
)
from kscheduler.config.load import default_config
from kscheduler.config.releases import RELEASE_1_36, RELEASE_1_37, Release
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.status import Code, Status
from kscheduler.simulator.cluster_client import Latency
from kscheduler.simulator.faults import FaultKind, Verb
from kscheduler.simulator.virtual_time import run_virtual
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.testing import PodBuilder, make_pod
from tests.scenarios.evicted import fill
from tests.support.changes import relabel
from tests.support.election import Follower, Leader
from tests.support.world import World, in_virtual_time


def low(name: str, cpu: str = "4", priority: int = 1) -> PodBuilder:
    return make_pod(name).req(cpu=cpu).priority(priority).grace_period(0)


def critical(name: str = "critical", cpu: str = "4") -> PodBuilder:
    return make_pod(name).req(cpu=cpu).priority(1000).grace_period(0)


def exists(world: World, name: str) -> bool:
    return f"default/{name}" in world.cluster.pods


def chosen_victims(world: World) -> float:
    """How many victims have been chosen so far."""
    return world.metrics.preemption_victims.sum


def preemptions(world: World, result: str) -> float:
    """How many preemptions have ended so."""
    return world.metrics.preemption_goroutines_execution_total.labels(result).value


# --- the ordinary course ----------------------------------------------------------------------------------------------


@in_virtual_time
async def test_a_critical_pod_takes_the_place_of_one_of_lower_priority() -> None:
    async with World() as world:
        world.add_nodes(2)
        await fill(world, low("a", priority=10), low("b", priority=5))
        node_name, uid = world.node_of("b"), world.pod("b").metadata.uid
        preemptor = world.add_pod(critical())
        await world.until(world.all_bound, within_s=3)
        assert world.node_of("critical") == node_name
        assert exists(world, "a")
        assert not exists(world, "b")
        (event,) = world.events("b", "Preempted")
        assert event.note == f"Preempted by pod {preemptor.metadata.uid} on node {node_name}"
        assert (event.type, event.action, event.regarding.uid) == ("Normal", "Preempting", uid)
        assert event.related is not None
        assert (event.related.name, event.related.uid) == ("critical", preemptor.metadata.uid)
        assert world.metrics.preemption_attempts_total.value == 1
        assert chosen_victims(world) == 1
        assert preemptions(world, "success") == 1


@in_virtual_time
async def test_while_its_victim_ends_the_pod_is_nominated_and_drives_out_nobody_else() -> None:
    async with World() as world:
        world.run_kubelets()
        world.add_nodes(2)
        await fill(world, low("a").grace_period(20), low("b").grace_period(20))
        world.add_pod(critical())
        await world.until(lambda: bool(world.pod("critical").status.nominated_node_name), within_s=3)
        nominated = world.pod("critical").status.nominated_node_name
        victims = [name for name in ("a", "b") if world.pod(name).metadata.deletion_timestamp]
        assert [world.node_of(name) for name in victims] == [nominated]
        condition = next(each for each in world.pod(victims[0]).status.conditions or () if each.type != "PodScheduled")
        assert (condition.type, condition.status, condition.reason) == (
            "DisruptionTarget", "True", "PreemptionByScheduler",
        )  # fmt: skip
        assert condition.message == "default-scheduler: preempting to accommodate a higher priority pod"
        # Another node appears and is left to it; a change of the pod makes it look again, and wait.
        world.change_pod(
            "critical", lambda pod: replace(pod, metadata=replace(pod.metadata, labels={"changed": "yes"}))
        )
        await world.sleep(10)
        assert not world.node_of("critical")
        assert sum(bool(world.pod(name).metadata.deletion_timestamp) for name in ("a", "b")) == 1
        await world.until(world.all_bound, within_s=15)
        assert world.node_of("critical") == nominated


@pytest.mark.parametrize("lag_s", [0.02, 0.04, 0.05, 0.06, 0.1])
def test_a_watch_that_lags_behind_the_deletions_makes_no_victim_be_ended_twice(lag_s: float) -> None:
    """The first victims are seen going, and wake the pod, when the last one's deletion is answered but not seen."""

    async def scenario() -> None:
        async with World(latency=Latency(write_s=0.02, bind_s=0.02)) as world:
            world.add_nodes(2)
            await fill(world, *(low(f"p{number}", "900m", number).grace_period(0) for number in range(8)))
            await world.sleep(5)
            deletions: list[object] = []

            def noted(subject: object) -> bool:
                deletions.append(subject)
                return False

            world.faults.add(FaultKind.SLOW, Verb.DELETE_POD, count=0, matches=noted)
            world.faults.add(FaultKind.DELAYED, Verb.DELIVER, resource="pods", delay_s=lag_s)
            world.add_pod(critical(cpu="3"))
            await world.until(world.all_bound, within_s=5)
            await world.sleep(5)
            assert len(deletions) == len(set(map(str, deletions))) == 3
            assert world.metrics.preemption_attempts_total.value == 1

    run_virtual(scenario())


@in_virtual_time
async def test_as_few_as_possible_have_to_go_the_least_important_first() -> None:
    async with World() as world:
        world.add_node("n1")
        await fill(world, *(low(f"p{priority}", "1", priority) for priority in (4, 3, 2, 1)))
        world.add_pod(critical(cpu="2"))
        await world.until(world.all_bound, within_s=3)
        assert [name for name in ("p4", "p3", "p2", "p1") if exists(world, name)] == ["p4", "p3"]
        assert chosen_victims(world) == 2


@in_virtual_time
async def test_priorities_beyond_those_of_users_are_compared_like_others() -> None:
    """An apiserver admits them for system classes alone; the ends of their range are those of 32 bits."""
    lowest, highest = -(2**31), 2**31 - 1
    async with World() as world:
        world.add_nodes(3)
        await fill(world, low("lowest", priority=lowest), low("user", priority=10**9), low("node", priority=highest))
        taken = world.node_of("lowest"), world.node_of("user")
        world.add_pod(low("first", priority=2 * 10**9))
        await world.until(lambda: bool(world.node_of("first")), within_s=3)
        world.add_pod(low("second", priority=highest))
        await world.until(lambda: bool(world.node_of("second")), within_s=3)
        assert (world.node_of("first"), world.node_of("second")) == taken
        assert exists(world, "node")
        assert not exists(world, "lowest")
        assert not exists(world, "user")


@in_virtual_time
async def test_a_nomination_to_a_node_that_is_gone_keeps_nobody_from_preempting() -> None:
    async with World() as world:
        world.run_kubelets()
        world.add_node("n1")
        await fill(world, low("a").grace_period(10))
        world.add_pod(critical().nominated_node("gone"))
        await world.until(lambda: world.pod("critical").status.nominated_node_name == "n1", within_s=3)
        await world.until(world.all_bound, within_s=15)
        assert chosen_victims(world) == 1


@in_virtual_time
async def test_a_disruption_budget_is_respected_where_another_node_will_do() -> None:
    async with World() as world:
        selector = LabelSelector(match_labels={"app": "db"})
        budget = PodDisruptionBudget(
            ObjectMeta(name="db", namespace="default"),
            PodDisruptionBudgetSpec(selector),
            PodDisruptionBudgetStatus(disruptions_allowed=0),
        )
        world.cluster.create_object(budget)
        world.add_nodes(2)
        await fill(world, low("db", priority=1).label(app="db"), low("web", priority=900))
        world.add_pod(critical())
        await world.until(world.all_bound, within_s=3)
        assert exists(world, "db")
        assert not exists(world, "web")
        # Where nothing else is left, the budget gives way.
        world.add_pod(critical("second"))
        await world.until(world.all_bound, within_s=3)
        assert not exists(world, "db")


@pytest.mark.parametrize(
    ("release", "text"),
    [
        (RELEASE_1_36, ""),
        (RELEASE_1_37, " preemption: found a potential placement for pod on node n1, preempting 1 victims"),
    ],
)
def test_the_condition_of_a_pod_that_preempts_names_the_node_in_1_37(release: Release, text: str) -> None:
    async def scenario() -> None:
        async with World(config=default_config(release)) as world:
            world.run_kubelets()
            world.add_node("n1")
            await fill(world, low("a").grace_period(5))
            world.add_pod(critical())
            await world.until(lambda: world.condition("critical") is not None, within_s=3)
            condition = world.condition("critical")
            assert condition is not None
            assert condition.message == f"0/1 nodes are available: 1 Insufficient cpu.{text}"
            await world.until(world.all_bound, within_s=15)
            (event,) = world.events("critical", "FailedScheduling")
            assert event.note == condition.message

    run_virtual(scenario())


@in_virtual_time
async def test_a_pod_that_never_preempts_waits_and_its_condition_says_why() -> None:
    async with World() as world:
        world.add_node("n1")
        await fill(world, low("a"))
        world.add_pod(critical().preemption_policy("Never"))
        await world.until(lambda: world.condition("critical") is not None, within_s=3)
        condition = world.condition("critical")
        assert condition is not None
        assert condition.message == (
            "0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, "
            "preemption: not eligible due to preemptionPolicy=Never."
        )
        await world.sleep(30)
        assert exists(world, "a")
        world.cluster.delete_pod("default/a")
        await world.until(world.all_bound, within_s=15)


@in_virtual_time
async def test_where_preemption_is_no_help_the_pods_condition_says_so() -> None:
    async with World() as world:
        world.add_node("n1")
        await fill(world, low("a", priority=2000))
        world.add_pod(critical())
        await world.until(lambda: world.condition("critical") is not None, within_s=3)
        condition = world.condition("critical")
        assert condition is not None
        assert condition.message == (
            "0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, "
            "preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod."
        )


@in_virtual_time
async def test_pods_of_equal_priority_do_not_take_the_room_that_was_made() -> None:
    """Another one comes while the victim ends: the room is promised."""
    async with World() as world:
        world.run_kubelets()
        world.add_node("n1")
        await fill(world, low("a").grace_period(10))
        world.add_pod(critical())
        await world.until(lambda: bool(world.pod("critical").status.nominated_node_name), within_s=3)
        world.add_pod(critical("late"))
        await world.until(lambda: bool(world.node_of("critical")), within_s=15)
        assert not world.node_of("late")


# --- several at once --------------------------------------------------------------------------------------------------


@in_virtual_time
async def test_many_critical_pods_at_once_each_find_their_place() -> None:
    async with World(latency=Latency(write_s=0.02, bind_s=0.02, watch_s=0.01)) as world:
        world.run_kubelets()
        world.add_nodes(10)
        await fill(world, *(low(f"low-{index}", "1").grace_period(index % 4) for index in range(40)))
        for index in range(20):
            world.add_pod(critical(f"critical-{index}", "2"))
        await world.until(world.all_bound, within_s=120)
        assert not any(exists(world, f"low-{index}") for index in range(40))


@in_virtual_time
async def test_a_still_more_critical_pod_takes_over_the_room_and_the_first_looks_again() -> None:
    async with World() as world:
        world.run_kubelets()
        world.add_node("n1")
        await fill(world, low("a").grace_period(10))
        world.add_pod(critical())
        await world.until(lambda: bool(world.pod("critical").status.nominated_node_name), within_s=3)
        world.add_pod(make_pod("vip").req(cpu="4").priority(5000))
        await world.until(lambda: bool(world.node_of("vip")), within_s=20)
        assert not world.node_of("critical")
        await world.until(lambda: not world.pod("critical").status.nominated_node_name, within_s=15)
        world.add_node("n2")
        await world.until(world.all_bound, within_s=15)


# --- victims that are not there yet -----------------------------------------------------------------------------------


class Holds:
    """Permit for pods labelled `hold`: wait for long."""

    name = "Holds"

    def permit(self, state: CycleState, pod: PodInfo, node_name: str) -> tuple[Status | None, float]:
        return (Status(Code.WAIT), 600.0) if "hold" in (pod.pod.metadata.labels or {}) else (None, 0.0)


class Prepares:
    """PreBind for pods labelled `hold`: takes for ever, and notes when it is cancelled."""

    name = "Prepares"

    def __init__(self) -> None:
        self.cancelled = 0

    def pre_bind_pre_flight(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        return None if "hold" in (pod.pod.metadata.labels or {}) else Status(Code.SKIP)

    async def pre_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        try:
            await asyncio.sleep(10_000)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        return None


@pytest.mark.parametrize(("point", "plugin"), [("permit", Holds()), ("preBind", Prepares())], ids=["Permit", "PreBind"])
@pytest.mark.parametrize("release", [RELEASE_1_36, RELEASE_1_37])
def test_a_victim_whose_binding_is_under_way_goes_back_to_the_queue_and_lives(
    release: Release, point: str, plugin: Holds
) -> None:
    @in_virtual_time
    async def scenario() -> None:
        async with World(plugins={point: [plugin]}, config=default_config(release)) as world:
            world.add_node("n1")
            world.add_pod(low("held").label(hold="yes"))
            await world.until(lambda: world.scheduler.cache.is_assumed(world.pod("held").metadata.uid))
            uid = world.pod("held").metadata.uid
            world.add_pod(critical())
            await world.until(lambda: bool(world.node_of("critical")), within_s=15)
            assert world.pod("held").metadata.uid == uid
            assert world.pod("held").metadata.deletion_timestamp is None
            (event,) = world.events("held", "Preempted")
            assert event.note.endswith(" on node n1 (in kube-scheduler memory).")
            assert world.faults.struck(FaultKind.SERVER_ERROR) == 0

    scenario()


def test_prebind_is_really_cancelled() -> None:
    plugin = Prepares()

    @in_virtual_time
    async def scenario() -> None:
        async with World(plugins={"preBind": [plugin]}) as world:
            world.add_node("n1")
            world.add_pod(low("held").label(hold="yes"))
            await world.sleep(1)
            world.add_pod(critical())
            await world.until(lambda: bool(world.node_of("critical")), within_s=15)
            assert plugin.cancelled == 1
            await world.until(lambda: world.condition("held") is not None)

    scenario()


# --- when it goes wrong -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", [Verb.DELETE_POD, Verb.PATCH_STATUS])
@pytest.mark.parametrize(
    "kind",
    [FaultKind.SERVER_ERROR, FaultKind.TOO_MANY_REQUESTS, FaultKind.CONFLICT, FaultKind.TIMEOUT, FaultKind.LOST_ANSWER],
)
@pytest.mark.parametrize("times", [1, 6])
def test_a_write_that_fails_is_repeated_then_everything_is(kind: FaultKind, verb: Verb, times: int) -> None:
    @in_virtual_time
    async def scenario() -> None:
        async with World() as world:
            world.add_node("n1")
            await fill(world, low("a", "2", 2), low("b", "2", 1))
            uid = world.pod("a").metadata.uid
            is_victim: Callable[[object], bool] = lambda subject: (  # noqa: E731
                subject in ("default/a", "default/b")
                or (isinstance(subject, Pod) and subject.key in ("default/a", "default/b"))
            )
            world.faults.add(kind, verb, count=times, matches=is_victim)
            world.add_pod(critical())
            await world.until(world.all_bound, within_s=60)
            assert world.faults.struck(kind) >= 1
            assert not exists(world, "a")
            assert not exists(world, "b")
            assert uid not in world.scheduler.queue._pods

    scenario()


@in_virtual_time
async def test_as_long_as_victims_cannot_be_deleted_the_pod_tries_again_and_nothing_is_lost() -> None:
    async with World() as world:
        world.add_node("n1")
        await fill(world, low("a"))
        world.faults.add(FaultKind.SERVER_ERROR, Verb.DELETE_POD)
        world.add_pod(critical())
        await world.sleep(20)
        assert exists(world, "a")
        assert not world.node_of("critical")
        assert preemptions(world, "error") > 1
        world.faults.clear()
        await world.until(world.all_bound, within_s=30)


@in_virtual_time
async def test_a_victim_that_was_replaced_by_a_namesake_is_not_hit() -> None:
    """Its controller has created it again, on another node, while the deletion was on its way."""
    async with World(latency=Latency(write_s=1.0)) as world:
        world.add_node("n1")
        world.add_node("n2", cpu="1")
        await fill(world, low("a"))
        world.add_pod(critical())
        await world.until(lambda: chosen_victims(world) == 1)
        world.cluster.delete_pod("default/a")
        again = world.add_pod(low("a", "1"))
        await world.until(world.all_bound, within_s=30)
        assert world.pod("a").metadata.uid == again.metadata.uid
        assert world.pod("a").metadata.deletion_timestamp is None


@in_virtual_time
async def test_a_node_that_vanishes_meanwhile_is_given_up() -> None:
    async with World() as world:
        world.run_kubelets()
        world.add_nodes(2)
        await fill(world, low("a").grace_period(3600), low("b", priority=5))
        victim_node = world.node_of("a")
        world.add_pod(critical())
        await world.until(lambda: world.pod("critical").status.nominated_node_name == victim_node, within_s=3)
        world.cluster.delete_node(victim_node)
        world.cluster.delete_pod("default/a")
        await world.until(world.all_bound, within_s=30)
        assert not exists(world, "b")


@in_virtual_time
async def test_a_preemptor_that_is_deleted_meanwhile_leaves_nothing_behind() -> None:
    async with World(latency=Latency(write_s=1.0)) as world:
        world.add_node("n1")
        await fill(world, low("a", "2"), low("b", "2"))
        world.add_pod(critical())
        await world.until(lambda: chosen_victims(world) == 2)
        world.cluster.delete_pod("default/critical")
        await world.until(lambda: not len(world.scheduler.preemptions), within_s=10)
        assert not world.scheduler.nominations.nodes()


@in_virtual_time
async def test_an_outage_in_the_middle_of_it_loses_nothing() -> None:
    async with World(latency=Latency(write_s=0.5)) as world:
        world.add_nodes(3)
        await fill(world, *(low(f"low-{index}", "2") for index in range(6)))
        for index in range(3):
            world.add_pod(critical(f"critical-{index}"))
        await world.until(lambda: chosen_victims(world) >= 2)
        world.cluster.stop()
        await world.sleep(5)
        world.cluster.start()
        await world.until(world.all_bound, within_s=120)


# --- held back in the meantime ----------------------------------------------------------------------------------------


@in_virtual_time
async def test_a_pod_that_would_be_tried_while_its_victims_are_being_ended_is_held_and_then_let_go() -> None:
    async with World(latency=Latency(write_s=1.0, watch_s=0.1)) as world:
        world.add_node("n1")
        await fill(world, low("a", "2"), low("b", "2"))
        uid = world.add_pod(critical()).metadata.uid
        await world.until(lambda: chosen_victims(world) == 2)
        await world.until(lambda: world.scheduler.queue.get(uid) is not None)
        world.add_node("small", cpu="3")  # the pod is worth another try, but not yet
        await world.until(lambda: world.scheduler.queue.counts().gated == 1)
        attempts = world.metrics.preemption_attempts_total.value
        await world.until(world.all_bound, within_s=15)
        assert world.metrics.preemption_attempts_total.value == attempts == 1
        assert world.node_of("critical") == "n1"


@in_virtual_time
async def test_a_pod_that_is_held_is_let_go_when_its_preemption_fails() -> None:
    async with World(latency=Latency(write_s=0.2)) as world:
        world.faults.add(FaultKind.SERVER_ERROR, Verb.DELETE_POD, count=8)
        world.add_node("n1")
        await fill(world, low("a", "2"), low("b", "2"))
        world.add_pod(critical())
        await world.until(lambda: chosen_victims(world) == 2)
        world.add_node("small", cpu="3")
        await world.until(lambda: world.scheduler.queue.counts().gated == 1)
        await world.until(world.all_bound, within_s=30)
        assert preemptions(world, "error") >= 1


@pytest.mark.parametrize(
    ("kind", "is_binding_seen"),
    [(FaultKind.LOST_ANSWER, True), (FaultKind.LOST_ANSWER, False), (FaultKind.TIMEOUT, False)],
    ids=["bound, which is seen", "bound, which nobody sees", "not bound"],
)
def test_a_victim_whose_binding_is_given_back_before_its_deletion_is_seen_keeps_nobody_waiting(
    kind: FaultKind, is_binding_seen: bool
) -> None:
    """The room it gives back wakes the preemptor, which is held. A victim that was not seen on a node wakes nobody."""

    @in_virtual_time
    async def scenario() -> None:
        async with World(latency=Latency(watch_s=1.0)) as world:
            world.faults.add(kind, Verb.BIND, count=1)
            # The second try comes to its end when the victim is gone, which nobody has seen yet.
            world.faults.add(FaultKind.SLOW, Verb.BIND, count=1, delay_s=0.6)
            world.add_node("n1")
            world.add_pod(critical().node_selector(open="yes"))
            await world.sleep(2)
            victim = world.add_pod(low("a")).metadata.uid
            await world.sleep(0.3)
            world.change_node("n1", relabel(open="yes"))
            await world.until(lambda: not exists(world, "a"), within_s=2)
            assert world.scheduler.cache.is_assumed(victim)
            await world.until(lambda: world.scheduler.queue.counts().gated == 1, within_s=0.6)
            assert not world.scheduler.cache.is_assumed(victim)
            assert "default/a" in world.scheduler.pods.store
            if not is_binding_seen:
                world.faults.add(FaultKind.CUT, Verb.DELIVER, resource="pods", count=1)
                world.cluster.compact()  # so everything is listed again
            await world.until(world.all_bound, within_s=5)
            assert chosen_victims(world) == 1

    scenario()


@in_virtual_time
async def test_without_the_lease_no_victim_is_ended_any_more() -> None:
    async with World(latency=Latency(write_s=0.5)) as world:
        world.add_node("n1")
        await fill(world, low("a", "2"), low("b", "2"))
        world.add_pod(critical())
        await world.until(lambda: chosen_victims(world) == 2)
        world.scheduler.permission.depend_on(Follower())
        await world.sleep(30)
        assert exists(world, "a")
        assert exists(world, "b")
        world.scheduler.permission.depend_on(Leader())
        await world.until(world.all_bound, within_s=30)
