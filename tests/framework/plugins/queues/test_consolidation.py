"""Pods move to other nodes for one that fits nowhere, if each of them has another place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from kscheduler.api.grace_period import DEFAULT_GRACE_S
from kscheduler.api.objects import PersistentVolumeClaimVolumeSource, Volume
from kscheduler.api.share_queues import QueueObject
from kscheduler.framework.dry_runs import DryRun
from kscheduler.framework.plugins.queues.plugin import Queues
from kscheduler.framework.search_outcomes import Rejection
from kscheduler.quotas.moves import SETTLE_S
from kscheduler.quotas.stays import STAY_S
from kscheduler.snapshot.node_info import NodeInfo
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.testing import PodBuilder, make_pod
from tests.framework.plugins.defaultpreemption.fakes import NOW, budget
from tests.framework.plugins.queues.bench import LABEL, Bench, make_queue

NOT_PREEMPTIBLE = ("kscheduler.io/preemptibility", "non-preemptible")


class EverybodyIsInAGang:
    def priority_of(self, pod: PodInfo) -> int:
        return pod.priority

    def may_outrank(self) -> bool:
        return False

    def is_member(self, pod: PodInfo) -> bool:
        return True

    def dry_run(self, singly: DryRun) -> DryRun:
        return singly

    def also_leaving(self, victims: Sequence[PodInfo], preemptor: PodInfo) -> list[tuple[PodInfo, NodeInfo]]:
        return []


def pod(name: str, queue: str = "a", cpu: str = "1", priority: int = 0, owner: str = "ReplicaSet") -> PodBuilder:
    made = make_pod(name).req(cpu=cpu).priority(priority)
    made = made.owner(owner, "x") if owner else made
    return made.label(LABEL, queue) if queue else made


def bench(most_moved: int = 2, nodes: Sequence[str] = ("n1", "n2")) -> Bench:
    """Nodes of 4 cpu; no queue is ever above its share, so that nobody reclaims anything."""
    made = Bench(make_queue("a", deserved="unlimited"), make_queue("b", deserved="unlimited"), most_moved=most_moved)
    made.nodes(*nodes)
    return made


def fragmented(moves: PodBuilder, most_moved: int = 2) -> Bench:
    """Two of four cpu are free on each of two nodes; the pod on the first is given."""
    made = bench(most_moved)
    made.place(moves, "n1")
    made.place(pod("stays", cpu="2").label(*NOT_PREEMPTIBLE), "n2")
    return made


def with_a_volume(made: PodBuilder) -> PodBuilder:
    volume = Volume(name="data", persistent_volume_claim=PersistentVolumeClaimVolumeSource("data"))
    return PodBuilder(structs.replace(made.obj(), spec=structs.replace(made.obj().spec, volumes=[volume])))


def created(seconds_ago: float) -> str:
    return datetime.fromtimestamp(NOW - seconds_ago, UTC).isoformat().replace("+00:00", "Z")


# --- who moves ---


async def test_a_pod_moves_to_another_node_where_that_gives_the_waiting_one_room() -> None:
    made = fragmented(pod("moves", cpu="2"))
    result, _ = made.preempt(pod("p", cpu="4"))
    assert result is not None
    assert result.nominated_node_name == "n1"
    await made.evictions.run()
    assert "deleted moves" in made.evictions.log


@pytest.mark.parametrize("priority", [0, 50])
async def test_pods_of_other_queues_move_whatever_their_priority(priority: int) -> None:
    assert await fragmented(pod("moves", "b", "2", priority)).victims(pod("p", cpu="4")) == ["moves"]


def test_nobody_moves_unless_that_is_asked_for() -> None:
    made = fragmented(pod("moves", cpu="2"), most_moved=0)
    assert made.refused(pod("p", cpu="4")) == "0/2 nodes are available: 2 No victims found for preemptor pod p."


def test_nobody_moves_who_would_have_no_other_place() -> None:
    made = fragmented(pod("large", cpu="3"))
    text = made.refused(pod("p", cpu="3"))
    assert text == "0/2 nodes are available: 2 No victims found for preemptor pod p."


def test_where_there_is_too_little_room_in_sum_nobody_moves() -> None:
    made = bench()
    made.place(pod("x"), "n1")
    made.place(pod("y", cpu="4"), "n2")
    assert "No victims found" in made.refused(pod("p", cpu="4"))


@pytest.mark.parametrize(
    "stays",
    [
        pod("bare", cpu="2", owner=""),
        pod("daemon", cpu="2", owner="DaemonSet"),
        pod("static", cpu="2", owner="Node"),
        pod("guarded", cpu="2").label(*NOT_PREEMPTIBLE),
        pod("important", cpu="2", priority=50),
        pod("in-no-queue", "", cpu="2"),
        pod("of-another-scheduler", cpu="2").scheduler_name("other"),
        with_a_volume(pod("with-a-volume", cpu="2")),
        pod("ending", cpu="2").terminating(),
        pod("young", cpu="2").created(created(STAY_S - 1)),
    ],
    ids=lambda stays: stays.obj().metadata.name,
)
def test_a_pod_that_must_stay_is_never_moved(stays: PodBuilder) -> None:
    assert "No victims found" in fragmented(stays).refused(pod("p", cpu="4"))


async def test_a_pod_that_is_old_enough_moves_and_the_waiting_one_is_tried_again_then() -> None:
    made = fragmented(pod("moves", cpu="2").created(created(STAY_S - 7)))
    made.refused(pod("p", cpu="4"))
    assert made.retries == [("p", 7.0)]
    made.evictions.now += 7.0
    assert await made.victims(pod("p", cpu="4")) == ["moves"]


@pytest.mark.parametrize(
    "waiting",
    [pod("p", cpu="4").label(*NOT_PREEMPTIBLE), pod("p", "", cpu="4"), pod("p", cpu="4", priority=200)],
    ids=["not preemptible", "in no queue", "not preemptible by its priority"],
)
async def test_nobody_moves_for_pods_that_would_not_move_themselves(waiting: PodBuilder) -> None:
    # Pods in no queue, and the most important ones, may evict the pod; they do so wherever it could go.
    made = fragmented(pod("moves", "b", cpu="2", priority=99))
    made.preempt(waiting)
    assert not made.queues.moves.is_moving("uid-default-moves")
    await made.evictions.run()


def test_a_disruption_budget_is_kept() -> None:
    made = fragmented(pod("moves", cpu="2").label(app="x"))
    made.budgets.set(budget("x", 0, {"app": "x"}))
    assert "No victims found" in made.refused(pod("p", cpu="4"))


def test_a_budget_is_kept_by_all_that_move_together() -> None:
    made = bench(nodes=("n1", "n2", "n3"))
    for name in ("x", "y"):
        made.place(pod(name).label(app="x"), "n1")
    for node in ("n2", "n3"):
        made.place(pod(f"stays-on-{node}", cpu="3").label(*NOT_PREEMPTIBLE), node)
    made.budgets.set(budget("x", 1, {"app": "x"}))
    text = made.refused(pod("p", cpu="4"))
    assert "1 Pods there that would have to move have no other place" in text


def test_pods_of_gangs_stay() -> None:
    made = fragmented(pod("member", cpu="2"))
    made.handle = replace(made.handle, victim_groups=EverybodyIsInAGang())
    made.plugin = Queues(made.handle)
    assert "No victims found" in made.refused(pod("p", cpu="4"))


# --- how many, and which ---


async def test_no_more_pods_move_than_are_allowed_to() -> None:
    def full_nodes(most_moved: int) -> Bench:
        made = bench(most_moved)
        for number in range(3):
            made.place(pod(f"x{number}"), "n1")
        made.place(pod("stays").label(*NOT_PREEMPTIBLE), "n2")
        return made

    assert "No victims found" in full_nodes(2).refused(pod("p", cpu="4"))
    assert sorted(await full_nodes(3).victims(pod("p", cpu="4"))) == ["x0", "x1", "x2"]


async def test_only_those_move_that_have_to() -> None:
    made = bench(most_moved=4)
    for name, cpu in (("half", "500m"), ("one", "1"), ("two", "2")):
        made.place(pod(name, cpu=cpu), "n1")
    made.place(pod("stays", cpu="2").label(*NOT_PREEMPTIBLE), "n2")
    assert await made.victims(pod("p", cpu="1500m")) == ["one"]


async def test_small_pods_move_where_a_large_one_has_no_other_place() -> None:
    made = bench(most_moved=2)
    for name, cpu in (("large", "2"), ("x", "1"), ("y", "1")):
        made.place(pod(name, cpu=cpu), "n1")
    made.nodes("n3")
    for node in ("n2", "n3"):
        made.place(pod(f"stays-on-{node}", cpu="3").label(*NOT_PREEMPTIBLE), node)
    assert sorted(await made.victims(pod("p", cpu="2"))) == ["x", "y"]


def test_a_plan_must_hold_in_whatever_order_the_pods_come_again() -> None:
    made = bench(most_moved=3, nodes=("n1", "n2", "n3"))
    for name, cpu in (("x", "1"), ("y", "1"), ("large", "2")):
        made.place(pod(name, cpu=cpu), "n1")
    for node in ("n2", "n3"):
        made.place(pod(f"stays-on-{node}", cpu="2").label(*NOT_PREEMPTIBLE), node)
    # If the small ones come first, and each goes where most is free, the large one fits nowhere.
    assert "1 Pods there that would have to move have no other place" in made.refused(pod("p", cpu="4"))


async def test_a_pod_goes_only_where_its_own_plugins_let_it() -> None:
    made = fragmented(pod("moves", "b", cpu="2"))
    made.nominate(pod("expected", "a", cpu="2", priority=-1), "n2")  # the room on n2 is kept for another queue
    assert "1 Pods there that would have to move have no other place" in made.refused(pod("p", cpu="4"))


async def test_a_queue_at_its_limit_moves_its_pods_nevertheless() -> None:
    made = Bench(make_queue("a"), make_queue("b", limit=2), most_moved=1)
    made.nodes("n1", "n2")
    made.place(pod("moves", "b", cpu="2"), "n1")
    made.place(pod("stays", cpu="2").label(*NOT_PREEMPTIBLE), "n2")
    before = made.queues.tree.queues["b"].shares["cpu"].allocated
    assert await made.victims(pod("p", cpu="4")) == ["moves"]
    assert made.queues.tree.queues["b"].shares["cpu"].allocated == before


def test_nobody_moves_for_a_pod_that_its_queue_does_not_take() -> None:
    made = Bench(make_queue("a", limit=3), make_queue("b"), most_moved=1)
    made.nodes("n1", "n2")
    made.place(pod("moves", "b", cpu="2"), "n1")
    made.preempt(pod("p", cpu="4"))
    assert not made.queues.moves.is_moving("uid-default-moves")


# --- when ---


async def test_pods_move_rather_than_others_lose_their_room() -> None:
    made = Bench(make_queue("a", deserved=8), make_queue("b"), most_moved=1)
    made.nodes("n1", "n2")
    made.place(pod("moves", cpu="2"), "n1")
    made.place(pod("theirs", "b", cpu="2", owner=""), "n2")
    assert await made.victims(pod("p", cpu="4")) == ["moves"]


async def test_while_pods_are_on_their_way_no_others_move() -> None:
    made = bench(most_moved=1, nodes=("n1", "n2", "n3", "n4"))
    for node in ("n1", "n2"):
        made.place(pod(f"moves-from-{node}", cpu="2"), node)
    for node in ("n3", "n4"):
        made.place(pod(f"stays-on-{node}", cpu="2").label(*NOT_PREEMPTIBLE), node)
    first, _ = made.preempt(pod("p", cpu="4"))
    assert first is not None
    assert first.nominated_node_name == "n1"
    assert made.refused(pod("q", cpu="4")).endswith("4 Whether pods there could move is tried later.")
    await made.evictions.run()
    assert made.refused(pod("q", cpu="4")).endswith("4 Whether pods there could move is tried later.")
    assert [name for name, _ in made.retries] == ["q", "q"]
    made.evictions.now += SETTLE_S
    assert await made.victims(pod("q", cpu="4")) == ["moves-from-n1", "moves-from-n2"]


async def test_after_a_search_in_vain_the_next_one_waits_a_little() -> None:
    made = fragmented(pod("moves", cpu="2"))
    made.place(pod("tiny", cpu="100m"), "n2")
    made.refused(pod("p", cpu="4"))
    assert not made.retries
    made.refused(pod("q", cpu="4"))
    assert [name for name, _ in made.retries] == ["q"]
    made.evictions.now += made.retries[0][1]
    made.refused(pod("q", cpu="4"))
    assert len(made.retries) == 1


# --- the places of those that move ---


def other(cpu: str = "2", queue: str = "a") -> PodBuilder:
    """A pod that no move concerns."""
    return pod("other", queue, cpu, owner="")


async def moving(made: Bench, waiting: PodBuilder | None = None) -> Bench:
    """The pod leaves for the waiting one, and has another place."""
    waiting = waiting or pod("p", cpu="4")
    assert await made.victims(waiting) == ["moves"]
    made.nominate(waiting, "n1")
    return made


async def test_a_place_is_kept_from_others_until_the_pod_should_have_come_again() -> None:
    made = await moving(fragmented(pod("moves", cpu="2")))
    assert isinstance(made.schedule(other()), Rejection)
    assert made.choose(pod("comes-again", cpu="2")) == "n2"
    made.evictions.now += SETTLE_S
    assert made.choose(other()) == "n2"


async def test_a_pod_that_leaves_a_place_to_another_is_tried_again_when_that_should_have_come() -> None:
    made = await moving(fragmented(pod("moves", cpu="2")))
    assert not made.retries
    made.preempt(other())
    assert ("other", DEFAULT_GRACE_S + SETTLE_S) in made.retries


async def test_a_place_is_given_up_when_the_pod_has_got_a_node_elsewhere() -> None:
    made = fragmented(pod("moves", cpu="2"))
    made.nodes("n3", cpu="2")
    await moving(made)
    assert made.choose(other()) == "n3"
    made.cache.assume(PodInfo(pod("comes-again", cpu="2").obj()), "n3")
    assert made.choose(other()) == "n2"


async def test_a_place_counts_beside_pods_that_are_nominated_to_its_node() -> None:
    made = bench()
    made.place(pod("moves"), "n1")
    made.place(pod("stays").label(*NOT_PREEMPTIBLE), "n2")
    await moving(made)
    assert made.choose(other()) == "n2"
    made.nominate(pod("expected", owner=""), "n2")
    assert isinstance(made.schedule(other()), Rejection)


async def test_the_limit_of_a_queue_leaves_room_for_its_pod_that_moves() -> None:
    made = Bench(make_queue("a"), make_queue("b", limit=2), most_moved=1)
    made.nodes("n1", "n2", "n3")
    made.place(pod("moves", "b", "2"), "n1")
    for node in ("n2", "n3"):
        made.place(pod(f"stays-on-{node}", cpu="2").label(*NOT_PREEMPTIBLE), node)
    await moving(made)
    made.cache.remove_pod("uid-default-moves")
    assert "limit" in made.why_not(other(queue="b", cpu="1"))
    assert made.choose(pod("comes-again", "b", "2"))
    made.evictions.now += SETTLE_S
    assert made.choose(other(queue="b", cpu="1"))


async def test_kernels_place_no_pods_in_queues_while_places_are_kept() -> None:
    made = fragmented(pod("moves", cpu="2"))
    assert await made.victims(pod("p", cpu="4")) == ["moves"]
    pods = [PodInfo(other(queue="").obj()), PodInfo(other().obj())]
    assert made.plugin.admitted("default-scheduler", pods) == 1
    made.evictions.now += SETTLE_S
    assert made.plugin.admitted("default-scheduler", pods) == 2


async def sharing(*queues: QueueObject) -> Bench:
    """Of twelve cpu queue a uses four, of which two are about to move, and b four; a pod of b waits for four more."""
    made = Bench(*(queues or (make_queue("a"), make_queue("b"))), most_moved=1)
    made.nodes("n1", "n2", "n3")
    made.place(pod("moves", cpu="2"), "n1")
    made.place(pod("stays", cpu="2", priority=5, owner=""), "n2")
    made.place(pod("theirs", "b", "4", owner=""), "n3")
    return await moving(made, pod("p", "b", "4"))


async def test_a_queue_takes_no_room_beyond_its_share_beside_its_pod_that_moves() -> None:
    made = await sharing()
    assert await made.victims(other("4")) == ["moves"]
    made.cache.remove_pod("uid-default-moves")
    assert await made.victims(other("4")) == ["moves"]
    made.evictions.now += SETTLE_S
    assert await made.victims(other("4")) == ["moves", "theirs"]


async def test_a_queue_takes_room_within_its_share_beside_its_pod_that_moves() -> None:
    made = await sharing()
    assert await made.victims(other("2")) == ["moves", "theirs"]


async def test_the_pod_that_comes_again_takes_room_within_the_share_of_its_queue() -> None:
    made = await sharing()
    made.cache.remove_pod("uid-default-moves")
    assert await made.victims(pod("comes-again", cpu="4")) == ["moves", "theirs"]


async def test_a_pod_that_moves_counts_for_the_queues_above_its_own_as_well() -> None:
    top = make_queue("top"), make_queue("a", "top"), make_queue("c", "top", weight=10)
    made = await sharing(*top, make_queue("b"))
    assert await made.victims(other("4", "c")) == ["moves"]
    made.cache.remove_pod("uid-default-moves")
    made.evictions.now += SETTLE_S
    assert await made.victims(other("4", "c")) == ["moves", "theirs"]


async def test_a_queue_loses_nothing_while_its_pod_that_moves_is_not_there_to_ask_for_room() -> None:
    made = await sharing()
    made.cache.remove_pod("uid-default-moves")
    assert await made.victims(other("2", "b")) == ["moves"]


async def test_a_pod_whose_queue_has_no_more_share_beside_one_that_moves_is_tried_when_that_should_have_come() -> None:
    made = await sharing(make_queue("a", deserved=4), make_queue("b", deserved=4))
    important = pod("important", cpu="4", priority=5, owner="").label(*NOT_PREEMPTIBLE)
    assert await made.victims(important) == ["moves"]
    assert made.retries == [("important", DEFAULT_GRACE_S + SETTLE_S)]


# --- whatever there is ---

Shape = tuple[int, bool]  # cpu, may it move?
shapes = st.tuples(st.integers(1, 4), st.booleans())


@given(
    st.lists(st.tuples(st.integers(4, 8), st.lists(shapes, max_size=5)), min_size=2, max_size=4),
    st.integers(2, 6),
    st.integers(1, 3),
)
def test_pods_that_move_have_another_place_and_the_waiting_pod_has_theirs(
    nodes: list[tuple[int, list[Shape]]], cpu: int, most: int
) -> None:
    made = bench(most, nodes=())
    free: dict[str, int] = {}
    at: dict[str, tuple[str, Shape]] = {}
    for number, (capacity, pods) in enumerate(nodes):
        node = f"n{number}"
        made.nodes(node, cpu=str(capacity))
        free[node] = capacity
        for each in pods:
            if free[node] >= each[0]:
                name = f"p{len(at)}"
                made.place(pod(name, cpu=str(each[0]), owner="ReplicaSet" if each[1] else ""), node)
                at[name] = node, each
                free[node] -= each[0]
    if max(free.values()) >= cpu:
        return
    result, _ = made.preempt(pod("p", cpu=str(cpu)))
    for work in made.evictions.work:
        work.close()
    moved = [name for name in at if made.queues.moves.is_moving(f"uid-default-{name}")]
    node = "" if result is None else result.nominated_node_name or ""
    assert bool(moved) is bool(node)
    if not moved:
        return
    assert len(moved) <= most
    assert all(at[name] == (node, (at[name][1][0], True)) for name in moved)
    assert free[node] + sum(at[name][1][0] for name in moved) >= cpu
    others = [name for name in free if name != node]
    assert any(
        all(
            sum(at[name][1][0] for name, where in zip(moved, places, strict=True) if where == other) <= free[other]
            for other in others
        )
        for places in product(others, repeat=len(moved))
    )
