"""A simulation plays what it is given, stops when nothing can change, and notices whatever must not happen."""

from __future__ import annotations

import functools
import random

import pytest
from msgspec.structs import replace

from kscheduler.api.objects import Node, Pod, PodSchedulingGate
from kscheduler.client.kinds import NODES
from kscheduler.client.protocol import Client, EventType
from kscheduler.clock import Clock
from kscheduler.config.load import default_config, parse_config
from kscheduler.errors import InternalError
from kscheduler.quotas.stays import STAY_S
from kscheduler.scheduler import Options
from kscheduler.simulator.cluster_client import Latency
from kscheduler.simulator.object_changes import ObjectChange
from kscheduler.simulator.real_scheduler import real_scheduler
from kscheduler.simulator.report import build_report
from kscheduler.simulator.run import Ending, Outcome, RunSettings, SchedulerFactory, simulate_scenario
from kscheduler.simulator.scenario import Arrival, Scenario
from kscheduler.testing import make_pod
from tests.scenarios.share_queues import CONFIG as SHARES
from tests.scenarios.share_queues import LABEL, queue
from tests.simulator.first_fit import FirstFit, make_node
from tests.simulator.objects import pod


def simulate(
    nodes: list[Node], arrivals: list[Arrival], make: SchedulerFactory = FirstFit, **settings: object
) -> Outcome:
    return simulate_scenario(Scenario(nodes, arrivals), make, RunSettings(**settings))  # type: ignore[arg-type]


def lives(outcome: Outcome) -> dict[str, tuple[float | None, float | None]]:
    """Pod name -> when it was bound and when it left."""
    return {
        record.key.rpartition("/")[2]: (record.bound_s, record.left_s) for record in outcome.accounting.records.values()
    }


def test_it_ends_at_once_when_every_pod_has_its_place() -> None:
    outcome = simulate([make_node("n0", cpu="4")], [Arrival(0.0, pod("a")), Arrival(5.0, pod("b"))])
    assert outcome.ending is Ending.ALL_PLACED
    assert lives(outcome) == {"a": (0.0, None), "b": (5.0, None)}
    assert outcome.accounting.duration_s == 5.0
    assert outcome.violations == []


def test_a_pod_runs_from_its_binding_on_and_makes_room_for_the_next() -> None:
    arrivals = [Arrival(0.0, pod("a"), runs_s=10.0), Arrival(1.0, pod("b"), runs_s=10.0)]
    outcome = simulate([make_node("n0", cpu="1")], arrivals, latency=Latency(bind_s=1.0))
    assert lives(outcome) == {"a": (0.5, 10.5), "b": (11.0, 21.0)}
    assert outcome.ending is Ending.ALL_PLACED


def test_a_traced_pod_leaves_at_its_time_bound_or_not() -> None:
    arrivals = [Arrival(0.0, pod("a"), leaves_at_s=10.0), Arrival(1.0, pod("b"), leaves_at_s=5.0)]
    outcome = simulate([make_node("n0", cpu="1")], arrivals)
    assert lives(outcome) == {"a": (0.0, 10.0), "b": (None, 5.0)}


def test_a_pod_that_leaves_when_it_comes_is_not_tried() -> None:
    arrivals = [Arrival(0.0, pod("a")), Arrival(5.0, pod("b"), leaves_at_s=5.0), Arrival(6.0, pod("c"))]
    outcome = simulate([make_node("n0", cpu="1")], arrivals, real_scheduler(default_config(), Options()))
    assert lives(outcome)["b"] == (None, 5.0)
    assert outcome.attempts == {"scheduled": 1, "unschedulable": 1}


def test_it_ends_when_the_rest_fits_nowhere_and_says_so() -> None:
    arrivals = [Arrival(0.0, pod("a", "3")), Arrival(0.0, pod("b", "3"))]
    outcome = simulate([make_node("n0", cpu="4")], arrivals)
    assert outcome.ending is Ending.REST_UNSCHEDULABLE
    assert outcome.accounting.pending == 1
    assert outcome.accounting.now_s < 1.0
    assert outcome.violations == []


def test_idle_weeks_cost_nothing_and_are_not_sampled() -> None:
    weeks = 4 * 7 * 86_400.0
    arrivals = [Arrival(0.0, pod("a"), runs_s=60.0), Arrival(weeks, pod("b"), runs_s=60.0)]
    outcome = simulate([make_node("n0", cpu="4")], arrivals)
    assert outcome.accounting.duration_s == weeks + 60
    assert len(outcome.accounting.timeline.samples) < 10


def test_the_limit_of_virtual_time_ends_it() -> None:
    outcome = simulate([make_node("n0", cpu="4")], [Arrival(0.0, pod("a")), Arrival(100.0, pod("b"))], max_time_s=50.0)
    assert outcome.ending is Ending.TIME_LIMIT
    assert list(lives(outcome)) == ["a"]


def test_up_to_the_limit_of_virtual_time_averages_count_though_nothing_changes() -> None:
    arrivals = [Arrival(0.0, pod("a"), runs_s=1_000.0), Arrival(10.0, pod("b", "4"))]
    outcome = simulate([make_node("n0", cpu="4")], arrivals, max_time_s=100.0)
    books = outcome.accounting
    cpu = books.resources.index("cpu")
    assert books.duration_s == 100.0
    assert books.use.integrals[cpu] / books.capacity_integral[cpu] == pytest.approx(1 / 4)


def test_a_pod_that_is_ending_at_the_start_leaves() -> None:
    ends = "2026-01-01T00:00:30Z"
    ending, pending = pod("ending", "3", node_name="n0", termination_grace_period_seconds=20), pod("pending")
    arrivals = [
        Arrival(0.0, replace(each, metadata=replace(each.metadata, deletion_timestamp=ends)))
        for each in (ending, pending)
    ]
    arrivals.append(Arrival(0.0, pod("next", "3")))
    outcome = simulate([make_node("n0", cpu="4")], arrivals, real_scheduler(default_config(), Options()))
    left = {name: left_s for name, (_, left_s) in lives(outcome).items()}
    assert left == {"ending": pytest.approx(20.0), "pending": pytest.approx(0.0), "next": None}
    assert lives(outcome)["next"][0] == pytest.approx(20.0, abs=1.0)
    assert outcome.violations == []


def test_pods_that_come_are_younger_than_those_that_were_there() -> None:
    """Of equal pods, preemption evicts the one that was started last; a list of a cluster says when the others were."""
    old = pod("old", "1", node_name="n0", priority=0)
    old = replace(old, status=replace(old.status, start_time="2026-01-01T00:00:00Z"))
    arrivals = [
        Arrival(0.0, old),
        Arrival(0.0, pod("young", "1", priority=0, termination_grace_period_seconds=0)),
        Arrival(10.0, pod("high", "1", priority=10)),
    ]
    outcome = simulate([make_node("n0", cpu="2")], arrivals, real_scheduler(default_config(), Options()))
    assert set(outcome.cluster.pods) == {"default/old", "default/high"}


def test_it_goes_on_until_others_may_be_moved() -> None:
    """Nothing happens for minutes: pods stay for a while before consolidation moves them."""
    queued = [
        (name, cpu, made.metadata)
        for name, cpu in (("x", "2"), ("y", "2"), ("p", "4"))
        for made in [make_pod(name).label(LABEL, "a").owner("ReplicaSet", name).obj()]
    ]
    arrivals = [
        Arrival(float(at_s), replace(pod(name, cpu), metadata=of)) for at_s, (name, cpu, of) in enumerate(queued)
    ]
    config = parse_config(f"{SHARES}  pluginConfig: [{{name: Queues, args: {{maxConsolidationVictims: 1}}}}]\n", "test")
    scenario = Scenario(
        [make_node(name, cpu="4") for name in ("n0", "n1")], arrivals, queues=[queue("a", "", "unlimited")]
    )
    outcome = simulate_scenario(scenario, real_scheduler(config, Options()), RunSettings())
    bound_s, _ = lives(outcome)["p"]
    assert bound_s is not None
    assert bound_s > STAY_S


def test_a_report_names_the_queue_with_shares_in_which_a_pod_waits() -> None:
    arrivals = [Arrival(0.0, replace(pod("p", "8"), metadata=replace(pod("p").metadata, labels={LABEL: "a"})))]
    scenario = Scenario([make_node("n0", cpu="4")], arrivals, queues=[queue("a", "", "unlimited")])
    for config, known in ((SHARES, "a"), (SHARES[: SHARES.index("profiles")], None)):
        parsed = parse_config(config, "test")
        outcome = simulate_scenario(scenario, real_scheduler(parsed, Options()), RunSettings())
        assert [each.queue for each in build_report(scenario, outcome, {}).unplaced] == [known]


def test_pods_that_come_with_a_node_are_there_before_the_scheduler() -> None:
    arrivals = [Arrival(0.0, pod("old", "3", node_name="n0")), Arrival(0.0, pod("new", "2"))]
    outcome = simulate([make_node("n0", cpu="4"), make_node("n1", cpu="4")], arrivals)
    assert outcome.cluster.pods["default/new"].spec.node_name == "n1"
    assert outcome.accounting.bound == 1


def test_gated_pods_and_those_of_other_schedulers_do_not_keep_it_waiting() -> None:
    arrivals = [
        Arrival(0.0, pod("gated", scheduling_gates=[PodSchedulingGate("later")])),
        Arrival(0.0, pod("foreign", scheduler_name="other")),
        Arrival(0.0, pod("a")),
    ]

    class IgnoresGated(FirstFit):
        async def _place(self, pod: Pod) -> None:
            if not pod.spec.scheduling_gates:
                await super()._place(pod)

    outcome = simulate([make_node("n0", cpu="4")], arrivals, IgnoresGated)
    assert outcome.ending is Ending.REST_UNSCHEDULABLE
    assert outcome.violations == []


def test_a_node_over_its_capacity_is_a_violation() -> None:
    careless = functools.partial(FirstFit, overcommit=True)
    outcome = simulate([make_node("n0", cpu="1")], [Arrival(0.0, pod("a")), Arrival(2.0, pod("b"))], careless)
    assert outcome.violations == ["at 2 s: node n0 holds 2000 of cpu, has 1000, after pod default/b"]


def node_changes(*changes: tuple[float, EventType]) -> Outcome:
    """Two nodes of four cpu with a pod of three on each; at these times, the first one goes, comes again or changes."""
    first, second = (make_node(name, cpu="4") for name in ("n0", "n1"))
    half = replace(first, status=replace(first.status, capacity={"cpu": "2", "pods": "110"}))
    arrivals = [Arrival(0.0, pod(name, "3"), runs_s=100.0) for name in ("a", "b")]
    played = [ObjectChange(at_s, NODES, kind, half if kind is EventType.MODIFIED else first) for at_s, kind in changes]
    scenario = Scenario([first, second], arrivals, changes=played)
    return simulate_scenario(scenario, real_scheduler(default_config(), Options()), RunSettings())


def test_a_pod_whose_node_went_uses_nothing_of_the_others() -> None:
    outcome = node_changes((60.0, EventType.DELETED))
    report = build_report(Scenario(), outcome, {})
    cpu = report.resources[0]
    assert (cpu.name, cpu.peak) == ("cpu", 0.75)
    assert cpu.average == pytest.approx(0.75, abs=0.001)
    assert lives(outcome)["a"][1] == pytest.approx(100.0, abs=0.1)
    assert [note.partition(";")[0] for note in report.notes] == ["1 pod was on a node that went away meanwhile"]


def test_a_node_that_comes_again_has_the_pods_that_it_had() -> None:
    outcome = node_changes((20.0, EventType.DELETED), (60.0, EventType.ADDED))
    books = outcome.accounting
    cpu = books.resources.index("cpu")
    assert [row.name for row in books.rows] == ["n0", "n1"]
    assert books.use.integrals[cpu] / books.capacity_integral[cpu] == pytest.approx(0.75, abs=0.001)
    assert books.use.amounts[cpu] == 0


def test_the_peak_is_that_of_smaller_nodes_too() -> None:
    report = build_report(Scenario(), node_changes((60.0, EventType.MODIFIED)), {})
    assert report.resources[0].peak == 1.0
    assert report.violations == []


def test_a_pod_that_is_being_bound_when_its_node_goes_is_no_violation() -> None:
    node = make_node("n0", cpu="4")
    changes = [ObjectChange(1.0, NODES, EventType.DELETED, node)]
    scenario = Scenario([node], [Arrival(0.0, pod("a"))], changes=changes)
    settings = RunSettings(latency=Latency(bind_s=4.0))
    outcome = simulate_scenario(scenario, FirstFit, settings)
    assert outcome.cluster.pods["default/a"].spec.node_name == "n0"
    assert outcome.violations == []


def test_a_pod_that_is_bound_to_a_node_that_went_long_ago_is_a_violation() -> None:
    node = make_node("n0", cpu="4")
    changes = [ObjectChange(1.0, NODES, EventType.DELETED, node)]
    scenario = Scenario([node], [Arrival(60.0, pod("late"))], changes=changes)
    outcome = simulate_scenario(scenario, FirstFit, RunSettings())
    assert outcome.violations == ["at 60 s: pod default/late was bound to n0, which does not exist"]


def test_a_pod_left_without_a_reason_is_a_violation() -> None:
    mute = functools.partial(FirstFit, silent=True)
    outcome = simulate([make_node("n0", cpu="1")], [Arrival(0.0, pod("a", "2"))], mute)
    assert outcome.ending is Ending.FORGOTTEN
    assert outcome.violations == ["pod default/a was left without a node and without a reason"]


def test_the_error_of_a_scheduler_is_the_error_of_the_simulation() -> None:
    class Broken(FirstFit):
        async def _place(self, pod: Pod) -> None:
            raise ValueError("broken on purpose")

    with pytest.raises(ValueError, match="broken on purpose"):
        simulate([make_node("n0", cpu="1")], [Arrival(0.0, pod("a"))], Broken)


def test_a_scheduler_that_stops_is_noticed() -> None:
    class Lazy(FirstFit):
        async def run(self) -> None:
            self._synced.set()

    def make(client: Client, clock: Clock, rng: random.Random) -> Lazy:
        return Lazy(client, clock, rng)

    with pytest.raises(InternalError, match="the scheduler stopped in the middle"):
        simulate([make_node("n0", cpu="1")], [Arrival(5.0, pod("a"))], make)


def test_averages_weigh_by_time() -> None:
    arrivals = [Arrival(0.0, pod("a"), runs_s=30.0), Arrival(90.0, pod("b", "4"), runs_s=10.0)]
    books = simulate([make_node("n0", cpu="4")], arrivals).accounting
    cpu = books.resources.index("cpu")
    assert books.use.integrals[cpu] / books.capacity_integral[cpu] == pytest.approx((30 * 1 + 10 * 4) / (100 * 4))
    assert books.peak[cpu] == 1.0
    assert books.rows[0].use.integrals[cpu] == 30 * 1000 + 10 * 4000


def test_a_pod_that_is_asked_to_end_is_gone_when_its_time_is_over() -> None:
    """A pod of higher priority comes: the victim has its grace, longer than a scheduler that has nothing to do."""
    arrivals = [
        Arrival(0.0, pod("low", priority=0, termination_grace_period_seconds=100)),
        Arrival(10.0, pod("high", priority=10)),
    ]
    outcome = simulate([make_node("n0", cpu="1")], arrivals, real_scheduler(default_config(), Options()))
    assert lives(outcome) == {"low": (0.0, 110.0), "high": (110.0, None)}
    assert outcome.ending is Ending.ALL_PLACED
    assert outcome.events["Preempted"] == 1
    assert outcome.violations == []
