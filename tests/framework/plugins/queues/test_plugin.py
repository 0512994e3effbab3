"""Queues keep pods within limits, and get them room of queues that use more than their share."""

from __future__ import annotations

from kscheduler.api.objects import (
    LabelSelector,
    ObjectMeta,
    PodDisruptionBudgetSpec,
    PodDisruptionBudgetStatus,
)
from kscheduler.api.objects import PodDisruptionBudget as Budget
from kscheduler.api.share_queues import QueueObject
from kscheduler.framework.search_outcomes import Rejection
from kscheduler.framework.status import Code, unresolvable
from kscheduler.quotas.queues import Queue
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.testing import PodBuilder, make_pod
from tests.framework.plugins.queues.bench import LABEL, Bench, make_queue

NOT_PREEMPTIBLE = ("kscheduler.io/preemptibility", "non-preemptible")


def pod(name: str, queue: str = "a", cpu: str = "1", priority: int = 0) -> PodBuilder:
    made = make_pod(name).req(cpu=cpu).priority(priority)
    return made.label(LABEL, queue) if queue else made


def bench(*queues: QueueObject, nodes: tuple[str, ...] = ("n1",)) -> Bench:
    made = Bench(*queues)
    made.nodes(*nodes)
    return made


def fair(made: Bench) -> dict[str, Queue]:
    """The queues, with their fair shares."""
    made.queues.refresh()
    return made.queues.tree.queues


# --- PreFilter ---


def test_a_pod_without_a_queue_is_not_limited() -> None:
    assert bench(make_queue("a", limit=0)).choose(pod("p", "", "4")) == "n1"


def test_a_pod_of_a_queue_that_is_not_there_waits_for_it() -> None:
    made = bench(make_queue("team"), make_queue("a", "team"))
    assert made.why_not(pod("p", "x")) == 'queue "x" does not exist'
    assert made.why_not(pod("p", "team")).startswith('queue "team" has queues below it')
    made.queues.set("x", make_queue("x"))
    assert made.choose(pod("p", "x")) == "n1"


def test_a_pod_beyond_the_limit_of_a_queue_above_its_own_is_rejected_with_the_amounts_of_that_queue() -> None:
    made = bench(make_queue("team", deserved=2, limit=3), make_queue("a", "team"), make_queue("b", "team"))
    made.place(pod("there", "b", "2"), "n1")
    assert made.choose(pod("p")) == "n1"
    assert made.why_not(pod("p", cpu="2")) == (
        "queue team would exceed its limit of cpu (team: 2 of 2 deserved, fair share 2, limit 3, would be 4)"
    )


def test_a_pod_that_is_not_preemptible_stays_within_what_its_queue_deserves() -> None:
    made = bench(make_queue("a", deserved=1))
    made.place(pod("there").label(*NOT_PREEMPTIBLE), "n1")
    assert made.choose(pod("p")) == "n1"
    assert made.why_not(pod("p", cpu="500m").label(*NOT_PREEMPTIBLE)) == (
        "queue a deserves too little cpu for another pod that is not preemptible (a: 1 of 1 deserved, fair share 1, "
        "would be 1500m; 1 not preemptible); with the label kscheduler.io/preemptibility=preemptible it may use more"
    )


def test_assumed_pods_count_and_forgotten_ones_do_not() -> None:
    made = bench(make_queue("a", limit=2))
    assumed = PodInfo(pod("q", cpu="2").obj())
    made.cache.assume(assumed, "n1")
    assert made.why_not(pod("p"))
    made.cache.forget(assumed.uid)
    assert made.choose(pod("p")) == "n1"


def test_nominated_pods_count_unless_they_are_less_important() -> None:
    made = bench(make_queue("a", limit=2))
    made.nominate(pod("expected", cpu="2", priority=5), "n1")
    assert "would be 3" in made.why_not(pod("p", priority=5))
    assert made.choose(pod("p", priority=6)) == "n1"
    assert made.choose(pod("expected", cpu="2", priority=5)) == "n1"  # itself


def test_room_that_a_pod_of_another_queue_waits_for_is_left_to_it_whatever_the_priorities() -> None:
    made = bench(make_queue("a"), make_queue("b"), nodes=("n1", "n2"))
    made.place(pod("there", "b"), "n1")
    made.place(pod("full", "b", "4"), "n2")
    made.nominate(pod("expected", "a", "3"), "n1")
    assert isinstance(made.schedule(pod("p", "b", priority=5)), Rejection)
    assert made.choose(pod("p", "a", priority=5)) == "n1", "in one queue priorities count"
    assert made.choose(pod("p", "", priority=5)) == "n1"
    made.nominate(pod("expected", "a", "2"), "n1")
    assert made.choose(pod("p", "b", priority=5)) == "n1", "there is room for both"


# --- PostFilter: preemption within a queue ---


async def test_a_pod_evicts_less_important_preemptible_pods_of_its_queue() -> None:
    made = bench(make_queue("a"))
    made.place(pod("mine", cpu="2", priority=1), "n1")
    made.place(pod("equal", cpu="1", priority=5), "n1")
    made.place(pod("guarded", cpu="1", priority=0).label(*NOT_PREEMPTIBLE), "n1")
    assert await made.victims(pod("p", cpu="2", priority=5)) == ["mine"]


async def test_a_pod_over_the_limit_evicts_until_its_queue_takes_it_though_the_node_has_room() -> None:
    made = bench(make_queue("a", limit=2))
    made.place(pod("less", cpu="1"), "n1")
    made.place(pod("least", cpu="1", priority=-1), "n1")
    assert await made.victims(pod("p", priority=5)) == ["least"]


def test_where_no_pod_may_be_evicted_no_node_is_tried() -> None:
    made = bench(make_queue("a"), make_queue("b"), nodes=("n1", "n2"))
    made.place(pod("there", priority=5), "n1")
    made.place(pod("other", ""), "n2")
    assert made.refused(pod("p", priority=5)) == "0/2 nodes are available: 2 No victims found for preemptor pod p."


async def test_a_pod_in_no_queue_evicts_less_important_pods_of_any_queue() -> None:
    made = bench(make_queue("a"))
    made.place(pod("guarded", cpu="3").label(*NOT_PREEMPTIBLE), "n1")
    made.place(pod("other", "", priority=9), "n1")
    assert await made.victims(pod("p", "", cpu="2", priority=5)) == ["guarded"]


# --- PostFilter: reclaim ---


async def test_a_pod_within_its_queues_share_takes_room_of_a_queue_beyond_its_own() -> None:
    made = bench(make_queue("a", deserved=2), make_queue("b", deserved=2))
    for number, priority in enumerate((9, 7, 8, 7)):
        made.place(pod(f"theirs-{number}", "b", priority=priority).started(f"2026-01-01T00:00:0{number}Z"), "n1")
    assert await made.victims(pod("p", priority=0)) == ["theirs-3"]  # the least important, the latest of those


def test_a_queue_gives_room_only_down_to_its_share() -> None:
    made = bench(make_queue("a", deserved=1), make_queue("b", deserved=3))
    for number in range(3):
        made.place(pod(f"theirs-{number}", "b"), "n1")
    made.place(pod("mine"), "n1")
    assert "No victims found" in made.refused(pod("p"))


def test_a_pod_that_takes_its_queue_beyond_its_fair_share_takes_no_room() -> None:
    made = bench(make_queue("a", deserved=1), make_queue("b", deserved=1))
    made.place(pod("theirs", "b", "4"), "n1")
    assert "No victims found" in made.refused(pod("p", cpu="4"))


async def test_pods_that_are_not_preemptible_give_no_room() -> None:
    made = bench(make_queue("a", deserved=2), make_queue("b", deserved=2))
    made.place(pod("guarded", "b", "2").label(*NOT_PREEMPTIBLE), "n1")
    made.place(pod("theirs", "b", "2", priority=9), "n1")
    assert await made.victims(pod("p", cpu="2")) == ["theirs"]


async def test_the_most_saturated_queue_gives_room_first() -> None:
    made = bench(make_queue("a", deserved=2), make_queue("b", deserved=1), make_queue("c", deserved=1))
    made.place(pod("of-b", "b", "1500m", priority=1), "n1")
    made.place(pod("of-c", "c", "2500m", priority=9), "n1")
    assert await made.victims(pod("p")) == ["of-c"]


async def test_reclaim_comes_before_preemption_in_the_own_queue() -> None:
    made = bench(make_queue("a", deserved=2), make_queue("b", deserved=1))
    made.place(pod("mine", cpu="1"), "n1")
    made.place(pod("theirs", "b", "3", priority=50), "n1")
    assert await made.victims(pod("p", cpu="1", priority=9)) == ["theirs"]


async def test_victims_of_a_moment_ago_are_not_counted_on_again() -> None:
    made = bench(make_queue("a"), make_queue("b"), nodes=("n1", "n2"))
    made.place(pod("mine"), "n1")
    made.place(pod("guarded", "b").label(*NOT_PREEMPTIBLE), "n1")
    for name, node in (("x0", "n1"), ("x1", "n2"), ("x2", "n2")):
        made.place(pod(name, "b", "2"), node)
    for name in ("p", "q"):
        made.queues.pod_waits(pod(name).obj())
    assert {name: queue.shares["cpu"].fair for name, queue in fair(made).items()} == {"a": 3000, "b": 5000}
    first, _ = made.preempt(pod("p"))
    assert first is not None
    assert first.nominated_node_name == "n1"
    made.nominate(pod("p"), "n1")
    assert "No victims found" in made.refused(pod("q")), "b has given 2 of the 2 that it used beyond its share"
    await made.evictions.run()


async def test_budgets_are_respected_if_possible() -> None:
    made = bench(make_queue("a", deserved=4), make_queue("b"))
    made.place(pod("guarded", "b", "2").label("app", "x"), "n1")
    made.place(pod("free", "b", "2", priority=9), "n1")
    selector = LabelSelector(match_labels={"app": "x"})
    made.budgets.set(
        Budget(
            ObjectMeta(name="b", namespace="default"), PodDisruptionBudgetSpec(selector), PodDisruptionBudgetStatus(0)
        )
    )
    assert await made.victims(pod("p", cpu="2")) == ["free"]


# --- how long pods run at least ---


async def test_pods_give_no_room_to_other_queues_before_they_have_run_for_long_enough() -> None:
    made = bench(make_queue("team", reclaim_min="10m"), make_queue("a", "team"), make_queue("b", deserved=4))
    made.evictions.now = 1_767_225_600.0 + 60  # 2026-01-01T00:01:00Z
    made.place(pod("new", cpu="2").started("2026-01-01T00:00:30Z"), "n1")
    made.place(pod("newer", cpu="2").started("2026-01-01T00:00:40Z"), "n1")
    assert "No victims found" in made.refused(pod("p", "b"))
    assert made.retries == [("p", 570.0)]
    made.evictions.now += 570
    assert await made.victims(pod("p", "b")) == ["new"]


async def test_within_a_queue_its_own_time_counts() -> None:
    made = bench(make_queue("team", preempt_min="10m", reclaim_min="1h"), make_queue("a", "team", preempt_min="30s"))
    made.evictions.now = 1_767_225_600.0 + 60
    made.place(pod("there", cpu="3").started("2026-01-01T00:00:30Z"), "n1")
    made.place(pod("new", cpu="1", priority=-1).started("2026-01-01T00:00:31Z"), "n1")
    assert await made.victims(pod("p", priority=5)) == ["there"]


# --- eligibility ---


def test_a_pod_that_never_preempts_evicts_nobody() -> None:
    made = bench(make_queue("a", deserved=4), make_queue("b"))
    made.place(pod("theirs", "b", "4"), "n1")
    assert made.refused(pod("p").preemption_policy("Never")) == "not eligible due to preemptionPolicy=Never."


async def test_nobody_is_evicted_where_room_is_kept_for_a_pod_of_another_queue_though_the_own_queue_is_full() -> None:
    made = Bench(make_queue("a"), make_queue("b", limit=3))
    made.nodes("n1", "n2")
    made.place(pod("small", "b", "1"), "n1")
    made.nominate(pod("expected", "a", "3"), "n1")
    waits = pod("p", "b", "3", priority=9)
    assert "1 Room there is kept for pods of other queues" in made.refused(waits)
    made.place(pod("also-small", "b", "1"), "n2")
    made.cache.remove_pod("uid-default-small")
    assert await made.victims(waits) == ["also-small"]


def test_a_pod_waits_for_a_victim_that_is_ending_on_its_nominated_node() -> None:
    made = bench(make_queue("a", deserved=4), make_queue("b"))
    made.place(pod("theirs", "b", "4").terminating(), "n1")
    waits = pod("p").nominated_node("n1")
    assert made.refused(waits) == "not eligible due to a terminating pod on the nominated node."
    result, status = made.preempt(waits, {"n1": unresolvable("gone")})
    assert result is not None
    assert status is not None
    assert status.code is Code.UNSCHEDULABLE
