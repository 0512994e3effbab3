"""Informer events in every order they can come in, and what cache and queue make of them."""

from __future__ import annotations

import logging
from collections.abc import Callable

import pytest
from msgspec import structs

from kscheduler.api.objects import (
    LabelSelector,
    Node,
    ObjectMeta,
    PodDisruptionBudget,
    PodDisruptionBudgetSpec,
    PodDisruptionBudgetStatus,
)
from kscheduler.cache.cache import Cache
from kscheduler.client.informer import KeepNewest
from kscheduler.config.releases import RELEASE_1_36, RELEASE_1_37, Release
from kscheduler.framework.events import Action, ClusterEvent, EventResource
from kscheduler.framework.nominations import Nominations
from kscheduler.framework.status import Status, unschedulable
from kscheduler.observability.measurements import Measurements
from kscheduler.observability.metrics import Metrics
from kscheduler.queue.pod_info import QueuedPodInfo
from kscheduler.queue.requeue import ANY_PROFILE
from kscheduler.queue.scheduling_queue import SchedulingQueue
from kscheduler.snapshot.disruption_budgets import DisruptionBudgets
from kscheduler.testing import PodBuilder, make_node, make_pod
from kscheduler.watch.eventhandlers import (
    NodeEvents,
    PodEvents,
)
from kscheduler.watch.past_bindings import PastBindings
from tests.support.changes import cordon, heartbeat, label_pod, relabel, resize
from tests.support.checks import check_cache
from tests.support.clocks import ManualClock

P, N = "uid-default-p", "n1"


class Bench:
    def __init__(self, stopwatch: Callable[[], float] = lambda: 0.0, release: Release = RELEASE_1_36) -> None:
        self.clock = ManualClock(now=50.0)
        self.cache = Cache()
        self.gate: Status | None = None  # what PreEnqueue says
        self.queue = SchedulingQueue(
            lambda queued: (-queued.pod_info.priority, queued.timestamp),
            lambda pod: self.gate,
            registered={
                ANY_PROFILE: {
                    "Nodes": [ClusterEvent(EventResource.NODE, Action.ALL)],
                    "NewNodes": [ClusterEvent(EventResource.NODE, Action.ADD)],
                    "Rooms": [ClusterEvent(EventResource.ASSIGNED_POD, Action.DELETE)],
                    "Assigned": [ClusterEvent(EventResource.ASSIGNED_POD, Action.ADD | Action.UPDATE)],
                }
            },
            release=release,
        )
        self.nominations = Nominations()
        self.metrics = Metrics()
        self.wakes = 0
        self.gone: list[str] = []
        measurements = Measurements(self.metrics)
        self.pods = PodEvents(
            self.cache,
            self.queue,
            {"default-scheduler", "second"},
            self.nominations,
            clock=self.clock,
            measurements=measurements,
            wake=self._wake,
            on_gone=self.gone.append,
            past_bindings=(past := PastBindings(self.clock)),
            stopwatch=stopwatch,
        )
        self.late: list[str] = []  # bindings of others since this replica schedules
        assert list(past.take(lambda pod, at: self.late.append(pod.spec.node_name or ""))) == []
        self.gone_nodes: list[str] = []
        self.nodes = NodeEvents(
            self.cache,
            self.queue,
            clock=self.clock,
            measurements=measurements,
            wake=self._wake,
            on_gone=self.gone_nodes.append,
        )

    def _wake(self) -> None:
        self.wakes += 1

    def pop(self) -> QueuedPodInfo:
        queued = self.queue.pop(self.clock.now())
        assert queued is not None
        return queued

    def wait_for(self, plugin: str) -> None:
        """A pod that this plugin turned away."""
        self.pods.on_add(make_pod("waiting").obj())
        self.queue.add_unschedulable_if_not_present(self.pop(), self.clock.now(), {plugin})
        assert self.queue.counts().unschedulable == 1

    @property
    def woke(self) -> bool:
        return self.queue.counts().unschedulable == 0

    def check(self) -> None:
        self.queue.check()
        check_cache(self.cache)


@pytest.fixture
def bench() -> Bench:
    return Bench()


def pending(version: str = "1") -> PodBuilder:
    return make_pod("p").resource_version(version)


# --- pods that wait -----------------------------------------------------------------------------------------------


def test_a_pod_of_ours_without_a_node_is_queued(bench: Bench) -> None:
    for name in ("default-scheduler", "second"):
        bench.pods.on_add(make_pod(name).scheduler_name(name).obj())
    assert bench.queue.counts().active == 2
    assert bench.wakes == 2


@pytest.mark.parametrize("is_answered", [True, False])
def test_our_own_binding_is_confirmed_whether_its_answer_has_come_or_not(bench: Bench, is_answered: bool) -> None:
    bench.nodes.on_add(make_node(N).capacity(cpu="4", memory="8Gi", pods=10).obj())
    bench.wait_for("Assigned")
    free = pending().obj()
    bench.pods.on_add(free)
    info = bench.pop().pod_info
    bench.cache.assume(info, N)
    if is_answered:
        bench.queue.done(P)
        bench.cache.finish_binding(P, bench.clock.now())
    spec = structs.replace(free.spec, node_name=N)
    bound = structs.replace(free, metadata=structs.replace(free.metadata, resource_version="2"), spec=spec)
    bench.pods.on_update(free, bound)
    state = bench.cache.get(P)
    assert state is not None
    assert (state.assumed, state.pod.pod, state.pod is info) == (False, bound, is_answered)
    assert not bench.queue.is_in_flight(P)
    assert bench.gone == ([] if is_answered else [P])  # the end of a cycle has its pod forgotten
    assert bench.woke
    assert bench.late == []
    bench.check()


def test_a_pod_of_another_scheduler_is_ignored_until_it_is_bound(bench: Bench) -> None:
    theirs = pending().scheduler_name("other")
    bench.pods.on_add(theirs.obj())
    assert (len(bench.queue), bench.cache.get(P)) == (0, None)
    bench.pods.on_update(theirs.obj(), theirs.node(N).obj())
    state = bench.cache.get(P)
    assert state is not None
    assert state.node_name == N


def test_a_change_of_a_waiting_pod_reaches_the_queue(bench: Bench) -> None:
    old, new = pending("1").obj(), pending("2").priority(7).obj()
    bench.pods.on_add(old)
    bench.pods.on_update(old, new)
    assert bench.pop().pod_info.pod is new


def test_a_waiting_pod_that_is_deleted_leaves_the_queue(bench: Bench) -> None:
    bench.pods.on_add(pending().obj())
    bench.pods.on_delete(pending().obj())
    assert len(bench.queue) == 0
    assert bench.gone == [P]


def test_a_pod_recreated_between_two_looks_is_deleted_and_added(bench: Bench) -> None:
    old, new = pending().obj(), pending().uid("another").obj()
    bench.pods.on_add(old)
    bench.pods.on_update(old, new)
    assert bench.gone == [P]
    assert [queued.uid for queued in bench.queue.pending_pods()] == ["another"]


# --- pods that are bound ------------------------------------------------------------------------------------------


def test_a_pod_bound_by_somebody_else_moves_from_the_queue_to_the_cache(bench: Bench) -> None:
    bench.pods.on_add(pending().obj())
    bench.pods.on_update(pending().obj(), pending().node(N).obj())
    assert len(bench.queue) == 0
    assert bench.cache.get(P) is not None
    assert bench.gone == [P]


def test_a_pod_assumed_by_us_and_bound_by_somebody_else_is_where_they_put_it(bench: Bench) -> None:
    bench.pods.on_add(pending().obj())
    bench.cache.assume(bench.pop().pod_info, N)
    bench.pods.on_update(pending().obj(), pending().node("n2").obj())
    state = bench.cache.get(P)
    assert state is not None
    assert (state.node_name, state.assumed) == ("n2", False)
    assert bench.late == ["n2"]  # so that its Event is not missing if the other one ended
    bench.check()


def test_a_pod_we_bound_is_confirmed_by_the_watch(bench: Bench) -> None:
    bench.pods.on_add(pending().obj())
    bench.cache.assume(bench.pop().pod_info, N)
    bench.queue.done(P)
    bench.pods.on_update(pending().obj(), pending().node(N).obj())
    assert not bench.cache.is_assumed(P)
    assert bench.cache.sizes()["assumed_pods"] == 0
    assert bench.late == []
    bench.check()


@pytest.mark.parametrize("again", ["add", "update"])
def test_what_the_watch_reports_late_of_a_pod_we_have_bound_does_not_queue_it_again(bench: Bench, again: str) -> None:
    bench.pods.on_add(pending("1").obj())
    bench.cache.assume(bench.pop().pod_info, N)
    bench.queue.done(P)  # the binding is written
    if again == "add":
        bench.pods.on_add(pending("2").obj())
    else:
        bench.pods.on_update(pending("1").obj(), pending("2").label(a="b").obj())
    assert len(bench.queue) == 0
    bench.check()


def test_a_change_while_the_binding_is_written_counts_if_the_pod_returns(bench: Bench) -> None:
    bench.pods.on_add(pending("1").obj())
    queued = bench.pop()
    bench.cache.assume(queued.pod_info, N)
    changed = pending("2").label(a="b").obj()
    bench.pods.on_update(pending("1").obj(), changed)
    assert len(bench.queue) == 0
    bench.cache.forget(P)
    bench.queue.requeue_after_error(queued, bench.clock.now())
    (waiting,) = bench.queue.pending_pods()
    assert waiting.pod_info.pod is changed


def test_a_pod_deleted_while_its_binding_is_written_is_gone_everywhere(bench: Bench) -> None:
    bench.pods.on_add(pending().obj())
    queued = bench.pop()
    bench.cache.assume(queued.pod_info, N)
    bench.pods.on_delete(pending().obj())
    assert bench.cache.get(P) is None
    bench.queue.requeue_after_error(queued, bench.clock.now())
    assert len(bench.queue) == 0
    bench.check()


def test_a_pod_that_grew_on_its_node_is_counted_again(bench: Bench) -> None:
    bench.nodes.on_add(make_node(N).capacity(cpu="8").obj())
    small, large = make_pod("p").node(N).req(cpu="1").obj(), make_pod("p").node(N).req(cpu="3").obj()
    bench.pods.on_add(small)
    bench.pods.on_update(small, large)
    info = bench.cache.table.get(N)
    assert info is not None
    assert info.requested.cpu_milli == 3000
    bench.check()


# --- who is woken -------------------------------------------------------------------------------------------------


def test_a_bound_pod_that_goes_wakes_those_who_wait_for_room(bench: Bench) -> None:
    bench.wait_for("Rooms")
    bench.pods.on_add(pending().node(N).obj())
    assert not bench.woke
    bench.pods.on_delete(pending().node(N).obj())
    assert bench.woke


def test_an_update_of_a_pod_in_flight_starts_no_decision_and_is_known_when_the_pod_returns(bench: Bench) -> None:
    bench.pods.on_add(pending().obj())
    queued, wakes = bench.pop(), bench.wakes
    nominated = pending("2").nominated_node(N).label(is_news="yes").obj()
    bench.pods.on_update(pending().obj(), nominated)
    assert bench.wakes == wakes
    bench.queue.requeue_after_error(queued, bench.clock.now())
    assert queued.pod_info.pod is nominated
    bench.pods.on_update(nominated, pending("3").nominated_node(N).obj())
    assert bench.wakes == wakes + 1  # it waits now


def test_a_pod_in_flight_that_loses_its_nomination_lets_others_be_decided(bench: Bench) -> None:
    bench.pods.on_add(pending().nominated_node(N).obj())
    bench.pop()
    wakes = bench.wakes
    bench.pods.on_update(pending().nominated_node(N).obj(), pending("2").obj())
    assert bench.wakes == wakes + 1


def test_a_waiting_pod_that_goes_wakes_nobody(bench: Bench) -> None:
    bench.wait_for("Rooms")
    bench.pods.on_add(pending().obj())
    bench.pods.on_delete(pending().obj())
    assert not bench.woke


def test_a_pod_that_gets_a_node_or_changes_there_wakes_those_who_wait_for_that(bench: Bench) -> None:
    bench.wait_for("Assigned")
    bound = pending().node(N).obj()
    bench.pods.on_add(bound)
    assert bench.woke
    other = Bench()
    other.pods.on_add(bound)
    other.wait_for("Assigned")
    other.pods.on_update(bound, label_pod(a="b")(bound))
    assert other.woke


def node() -> Node:
    return make_node(N).capacity(cpu="4", memory="8Gi").obj()


@pytest.mark.parametrize("change", [cordon(), relabel(zone="a"), resize(cpu="8")])
def test_a_node_that_changes_wakes_those_who_wait_for_nodes_if_the_change_could_help(
    bench: Bench, change: Callable[[Node], Node]
) -> None:
    bench.nodes.on_add(node())
    bench.wait_for("Nodes")
    bench.nodes.on_update(node(), change(node()))
    assert bench.woke == (change(node()).spec.unschedulable is False)


def test_a_heartbeat_wakes_only_those_who_wait_for_annotations(bench: Bench) -> None:
    bench.nodes.on_add(node())
    bench.wait_for("NewNodes")
    bench.nodes.on_update(node(), heartbeat("x")(node()))
    assert not bench.woke


def test_nodes_come_and_go_in_the_cache_and_wake(bench: Bench) -> None:
    bench.wait_for("Nodes")
    bench.nodes.on_add(node())
    assert bench.woke
    assert bench.cache.sizes()["nodes"] == 1
    bench.nodes.on_delete(node())
    bench.nodes.on_delete(node())
    assert bench.cache.sizes()["nodes"] == 0
    assert set(bench.gone_nodes) == {node().metadata.name}


# --- objects that cannot be read ----------------------------------------------------------------------------------


def bad_pod(name: str = "p") -> PodBuilder:
    return make_pod(name).req(cpu="??")


def test_a_pod_that_cannot_be_read_is_logged_counted_and_left_out(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR):
        bench.pods.on_add(bad_pod().obj())
    (record,) = caplog.records
    assert (record.message, record.__dict__["pod"]) == ("pod cannot be read and is left out", "default/p")
    assert "resources.requests[cpu]" in record.__dict__["err"]
    assert bench.metrics.informer_bad_objects_total.labels("pods").value == 1
    assert len(bench.queue) == 0


def test_a_waiting_pod_that_becomes_unreadable_leaves_the_queue_and_returns_when_mended(bench: Bench) -> None:
    good, bad = pending("1").obj(), bad_pod().resource_version("2").obj()
    bench.pods.on_add(good)
    bench.pods.on_update(good, bad)
    assert len(bench.queue) == 0
    bench.pods.on_update(bad, pending("3").obj())
    assert len(bench.queue) == 1


def test_a_bound_pod_that_cannot_be_read_can_be_deleted(bench: Bench) -> None:
    bad = bad_pod().node(N).obj()
    bench.pods.on_add(bad)
    bench.pods.on_delete(bad)
    bench.check()


def test_pods_that_wait_for_room_are_woken_when_a_bound_pod_that_cannot_be_read_is_deleted(bench: Bench) -> None:
    bad = bad_pod().node(N).obj()
    bench.pods.on_add(bad)
    bench.wait_for("Rooms")
    bench.pods.on_delete(bad)
    assert bench.woke
    bench.check()


def test_a_bound_pod_that_becomes_unreadable_keeps_its_room_until_it_goes(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    good, bad = make_pod("p").req(cpu="1").node(N).obj(), bad_pod().node(N).resource_version("2").obj()
    bench.pods.on_add(good)
    bench.wait_for("Rooms")
    wakes = bench.wakes
    with caplog.at_level(logging.ERROR):
        bench.pods.on_update(good, bad)
    (record,) = caplog.records
    assert record.message == "change of a bound pod cannot be read: it counts as before"
    assert bench.metrics.informer_bad_objects_total.labels("pods").value == 1
    assert bench.wakes == wakes
    known = bench.cache.get(good.metadata.uid)
    assert known is not None
    assert known.pod.resources.total.cpu_milli == 1000
    bench.pods.on_delete(bad)
    assert bench.cache.get(good.metadata.uid) is None
    assert bench.wakes > wakes
    bench.check()


def test_a_bound_pod_that_becomes_readable_again_takes_what_it_asks_for_now(bench: Bench) -> None:
    good, bad = make_pod("p").req(cpu="2").node(N).obj(), bad_pod().node(N).resource_version("2").obj()
    mended = make_pod("p").req(cpu="1").node(N).resource_version("3").obj()
    bench.pods.on_add(good)
    bench.pods.on_update(good, bad)
    bench.pods.on_update(bad, mended)
    known = bench.cache.get(good.metadata.uid)
    assert known is not None
    assert known.pod.resources.total.cpu_milli == 1000
    bench.check()


def test_a_pod_that_came_with_a_node_and_unreadable_takes_room_when_it_is_mended(bench: Bench) -> None:
    bad, mended = bad_pod().node(N).obj(), make_pod("p").req(cpu="1").node(N).resource_version("2").obj()
    bench.pods.on_add(bad)
    bench.pods.on_update(bad, mended)
    assert bench.cache.get(mended.metadata.uid) is not None
    bench.check()


def test_a_pod_that_another_scheduler_binds_elsewhere_unreadably_gives_its_assumed_room_back(bench: Bench) -> None:
    bench.pods.on_add(make_pod("p").req(cpu="1").resource_version("1").obj())
    bench.cache.assume(bench.pop().pod_info, N)
    bench.wait_for("Rooms")
    old = make_pod("p").req(cpu="1").resource_version("1").obj()
    bench.pods.on_update(old, bad_pod().node("n2").resource_version("2").obj())
    assert bench.cache.get(old.metadata.uid) is None
    assert bench.woke
    bench.check()


def test_a_pending_pod_that_cannot_be_read_holds_no_room_for_which_its_end_would_wake_others(bench: Bench) -> None:
    bad = bad_pod().obj()
    bench.pods.on_add(bad)
    bench.wait_for("Rooms")
    bench.pods.on_delete(bad)
    assert not bench.woke


def test_pods_that_wait_for_a_node_to_go_are_woken_when_one_cannot_be_read_any_more_and_when_that_goes(
    bench: Bench,
) -> None:
    bad = resize(cpu="-1")(node())
    bench.nodes.on_add(node())
    bench.wait_for("Nodes")
    bench.nodes.on_update(node(), bad)
    assert bench.woke
    bench.queue.add_unschedulable_if_not_present(bench.pop(), bench.clock.now(), {"Nodes"})
    bench.nodes.on_delete(bad)
    assert bench.woke
    bench.check()


def test_a_node_that_cannot_be_read_takes_no_pods(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    bad = resize(cpu="-1")(node())
    bench.nodes.on_add(node())
    with caplog.at_level(logging.ERROR):
        bench.nodes.on_update(node(), bad)
    assert bench.cache.sizes()["nodes"] == 0
    assert [record.message for record in caplog.records] == ["node cannot be read and takes no pods"]
    assert bench.metrics.informer_bad_objects_total.labels("nodes").value == 1


def test_a_node_that_is_mended_is_a_new_node_to_those_who_wait_for_one(bench: Bench) -> None:
    bad = resize(cpu="-1")(node())
    bench.nodes.on_add(bad)
    bench.wait_for("NewNodes")
    bench.nodes.on_update(bad, node())
    assert bench.cache.sizes()["nodes"] == 1
    assert bench.woke


# --- disruption budgets -------------------------------------------------------------------------------------------


def test_budgets_are_kept_as_the_watch_says() -> None:
    budgets = DisruptionBudgets()
    events: KeepNewest[PodDisruptionBudget] = KeepNewest(
        budgets.set, lambda each: budgets.remove(each.metadata.namespace, each.metadata.name)
    )
    spec = PodDisruptionBudgetSpec(LabelSelector(match_labels={"app": "web"}))
    old = PodDisruptionBudget(ObjectMeta("web", "ns"), spec, PodDisruptionBudgetStatus(disruptions_allowed=1))
    new = PodDisruptionBudget(ObjectMeta("web", "ns"), spec, PodDisruptionBudgetStatus(disruptions_allowed=2))
    events.on_add(old)
    assert [budget.allowed for budget in budgets.within("ns")] == [1]
    events.on_update(old, new)
    assert [budget.allowed for budget in budgets.within("ns")] == [2]
    events.on_delete(new)
    assert not budgets.within("ns")


# --- time ---------------------------------------------------------------------------------------------------------


def test_events_are_timed_under_kube_schedulers_names() -> None:
    clock = iter(range(100))
    bench = Bench(stopwatch=lambda: float(next(clock)))
    free, bound = pending().obj(), pending().node(N).obj()
    bench.pods.on_add(free)
    bench.pods.on_update(bound, bound)
    bench.pods.on_delete(bound)
    family = bench.metrics.event_handling_duration_seconds
    found = {labels[0]: child.sum for labels, child in family.items()}
    assert found == {"UnschedulablePodAdd": 1.0, "AssignedPodUpdate": 1.0, "AssignedPodDelete": 1.0}


def test_a_binding_counts_as_the_end_of_a_waiting_pod_and_the_addition_of_an_assigned_one() -> None:
    clock = iter(range(100))
    bench = Bench(stopwatch=lambda: float(next(clock)))
    free, bound = pending().obj(), pending().node(N).obj()
    bench.pods.on_add(free)
    bench.pods.on_update(free, bound)
    family = bench.metrics.event_handling_duration_seconds
    found = {labels[0]: child.sum for labels, child in family.items()}
    assert found == {"UnschedulablePodAdd": 1.0, "UnschedulablePodDelete": 1.0, "AssignedPodAdd": 1.0}


@pytest.mark.parametrize(("release", "pods"), [(RELEASE_1_36, "UnschedulablePod"), (RELEASE_1_37, "UnscheduledPod")])
def test_events_of_pods_without_a_node_are_timed_under_the_releases_names(release: Release, pods: str) -> None:
    bench = Bench(release=release)
    bench.pods.on_add(pending().obj())
    bench.pods.on_update(pending().obj(), pending("2").obj())
    bench.pods.on_delete(pending("2").obj())
    found = {labels[0] for labels, _ in bench.metrics.event_handling_duration_seconds.items()}
    assert found == {f"{pods}Add", f"{pods}Update", f"{pods}Delete"}


@pytest.mark.parametrize("release", [RELEASE_1_36, RELEASE_1_37])
def test_a_pod_that_grew_on_its_node_is_reported_as_such_in_1_37(release: Release) -> None:
    bench = Bench(release=release)
    small, grown = make_pod("q").node(N).req(cpu="1"), make_pod("q").node(N).req(cpu="2").resource_version("2")
    bench.pods.on_add(small.obj())
    bench.pods.on_add(pending().obj())
    flying = bench.pop()
    bench.pods.on_update(small.obj(), grown.obj())
    (missed,) = bench.queue._in_flight.missed(flying)
    expected = "AssignedPodUpdatePodScaleUp" if release is RELEASE_1_37 else "AssignedPodUpdate"
    assert missed.event.label == expected


# --- nominated pods -----------------------------------------------------------------------------------------------


def test_a_waiting_pod_whose_status_names_a_node_is_nominated_there(bench: Bench) -> None:
    bench.pods.on_add(pending().nominated_node(N).obj())
    assert bench.nominations.node_of(P) == N
    bench.pods.on_update(pending().nominated_node(N).obj(), pending("2").nominated_node("n2").obj())
    assert bench.nominations.node_of(P) == "n2"
    bench.pods.on_delete(pending("2").nominated_node("n2").obj())
    assert len(bench.nominations) == 0


def test_a_pod_of_another_scheduler_claims_nothing(bench: Bench) -> None:
    bench.pods.on_add(make_pod("theirs").scheduler_name("other").nominated_node(N).obj())
    assert len(bench.nominations) == 0


@pytest.mark.parametrize("release", [RELEASE_1_36, RELEASE_1_37])
def test_a_gated_pod_claims_its_nominated_node_in_1_37(release: Release) -> None:
    bench = Bench(release=release)
    bench.gate = unschedulable("closed").of("Gate")
    bench.pods.on_add(pending().nominated_node(N).obj())
    assert bench.queue.counts().gated == 1
    assert bench.nominations.node_of(P) == (N if release is RELEASE_1_37 else "")
    bench.pods.on_add(make_pod("free").obj())
    assert len(bench.nominations) == (release is RELEASE_1_37)  # an empty nomination is none


def test_a_pod_that_gets_a_node_or_becomes_unreadable_claims_none(bench: Bench) -> None:
    claiming = pending().nominated_node(N)
    bench.pods.on_add(claiming.obj())
    bench.pods.on_update(claiming.obj(), claiming.node("n2").obj())
    assert len(bench.nominations) == 0
    bench.pods.on_delete(claiming.node("n2").obj())
    bench.pods.on_add(claiming.obj())
    bench.pods.on_update(claiming.obj(), claiming.req(cpu="nonsense").obj())
    assert len(bench.nominations) == 0


def test_a_change_of_a_pod_in_flight_leaves_its_nomination_to_its_cycle(bench: Bench) -> None:
    bench.pods.on_add(pending().nominated_node(N).obj())
    bench.pop()
    bench.pods.on_update(pending().nominated_node(N).obj(), pending("2").nominated_node("n2").obj())
    assert bench.nominations.node_of(P) == N


@pytest.mark.parametrize(("priority", "wakes"), [(0, True), (1, True), (-1, False)])
@pytest.mark.parametrize("how", ["deleted", "taken back", "moved"])
def test_a_nomination_that_goes_wakes_those_who_had_to_leave_it_the_room(
    bench: Bench, how: str, priority: int, wakes: bool
) -> None:
    bench.wait_for("Rooms")  # of priority 0
    claiming = pending().priority(priority).nominated_node(N)
    bench.pods.on_add(claiming.obj())
    assert not bench.woke
    if how == "deleted":
        bench.pods.on_delete(claiming.obj())
    else:
        bench.pods.on_update(claiming.obj(), claiming.nominated_node("n2" if how == "moved" else "").obj())
    assert bench.woke == wakes


@pytest.mark.parametrize("binding", [False, True])
def test_a_nomination_written_or_one_of_a_pod_being_bound_wakes_nobody(bench: Bench, binding: bool) -> None:
    bench.wait_for("Rooms")
    before = pending().nominated_node(N) if binding else pending()
    bench.pods.on_add(before.obj())
    if binding:
        bench.cache.assume(bench.pop().pod_info, "n2")
    bench.pods.on_update(before.obj(), pending("2").nominated_node("n2").obj())
    assert not bench.woke
