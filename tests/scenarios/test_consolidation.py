"""Pods move together so that a waiting one fits: controllers create those that are evicted again."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kscheduler.api.objects import RawQuantity
from kscheduler.config.load import parse_config
from kscheduler.quotas.moves import SETTLE_S
from kscheduler.quotas.stays import MOST_STAY_S, STAY_S
from kscheduler.simulator.virtual_time import run_virtual
from kscheduler.testing import PodBuilder, make_pod
from tests.scenarios.controllers import Controllers
from tests.scenarios.gangs import gang, members
from tests.scenarios.share_queues import CONFIG, LABEL, WITH_GANGS, queue
from tests.support.world import World, in_virtual_time

ARGS = "  pluginConfig: [{name: Queues, args: {maxConsolidationVictims: %d}}]\n"
GRACE_S = 5


def world(most_moved: int = 2, config: str = CONFIG) -> World:
    return World(config=parse_config(config + ARGS % most_moved, "test"))


def pod(name: str, cpu: str = "1", of: str = "a", priority: int = 0) -> PodBuilder:
    made = make_pod(name).req(cpu=cpu).label(LABEL, of).priority(priority)
    return made.owner("ReplicaSet", name).grace_period(GRACE_S)


async def fragment(here: World, deserved: RawQuantity = "unlimited") -> Controllers:
    """Two nodes of four cpu with two free on each."""
    here.cluster.create_object(queue("a", "", deserved))
    here.run_kubelets()
    controllers = Controllers(here)
    controllers.run()
    await here.sleep(1.0)
    for name in ("n1", "n2"):
        here.add_node(name, cpu="4")
    for name in ("x", "y"):
        here.add_pod(pod(name, "2"))
    await here.until(here.all_bound)
    assert {here.node_of(name) for name in ("x", "y")} == {"n1", "n2"}
    return controllers


@in_virtual_time
async def test_a_pod_that_fits_on_no_node_gets_one_and_the_other_gets_another() -> None:
    async with world() as here:
        controllers = await fragment(here)
        await here.sleep(STAY_S)
        here.add_pod(pod("p", "4"))
        await here.until(lambda: controllers.created == 1 and here.all_bound())
        assert len(here.cluster.pods) == 3
        moved = next(name for name in ("x", "y") if f"default/{name}" not in here.cluster.pods)
        assert [event.note.split(" on node ")[0] for event in here.events(moved, "Preempted")] == [
            f"Preempted by pod {here.pod('p').metadata.uid}"
        ]
        await here.sleep(2 * STAY_S)
        assert controllers.created == 1


async def begin_to_move(here: World) -> Controllers:
    """Two nodes of four cpu, each with a pod of two; one of these is about to leave for a pod of four."""
    controllers = await fragment(here)
    await here.sleep(STAY_S)
    here.add_pod(pod("p", "4"))
    await here.until(lambda: any(each.metadata.deletion_timestamp for each in here.cluster.pods.values()))
    return controllers


@pytest.mark.parametrize(("of", "priority"), [("a", 0), ("b", 0), ("b", 50)])
@in_virtual_time
async def test_the_place_is_kept_from_pods_that_come_meanwhile(of: str, priority: int) -> None:
    async with world() as here:
        here.cluster.create_object(queue("b", "", "unlimited"))
        controllers = await begin_to_move(here)
        here.add_pod(pod("quick", "2", of, priority))
        await here.until(lambda: controllers.created == 1 and len(here.pending()) == 1)
        assert [each.metadata.name for each in here.pending()] == ["quick"]
        await here.sleep(STAY_S)
        assert not here.node_of("quick")


@in_virtual_time
async def test_a_place_is_not_kept_for_ever_if_no_pod_comes_again() -> None:
    async with world() as here:
        controllers = await begin_to_move(here)
        controllers.stop()
        here.add_pod(pod("quick", "2"))
        await here.sleep(GRACE_S + SETTLE_S - 2)
        assert not here.node_of("quick")
        await here.sleep(5)
        assert here.node_of("quick")


@in_virtual_time
async def test_a_gang_leaves_the_place_to_the_pod_that_moves_and_takes_it_if_none_comes() -> None:
    async with world(config=WITH_GANGS) as here:
        controllers = await begin_to_move(here)
        controllers.stop()
        here.cluster.create_object(gang("train", 2))
        for member in members("train", 2, cpu=1):
            here.add_pod(member.label(LABEL, "a"))
        await here.sleep(GRACE_S + SETTLE_S - 2)
        assert len(here.pending()) == 2
        await here.sleep(5)
        assert here.all_bound()


@in_virtual_time
async def test_a_gang_takes_no_room_beyond_the_share_of_its_queue_beside_the_pod_that_moves() -> None:
    async with world(config=WITH_GANGS) as here:
        here.cluster.create_object(queue("b"))
        await fragment(here, deserved=0)
        here.add_node("n3", cpu="4")
        here.add_pod(pod("theirs", "4", "b"))
        await here.until(here.all_bound)
        await here.sleep(STAY_S)
        here.add_pod(pod("p", "4", "b"))
        await here.until(lambda: any(each.metadata.deletion_timestamp for each in here.cluster.pods.values()))
        here.cluster.create_object(gang("train", 2))
        for member in members("train", 2, cpu=2):
            here.add_pod(member.label(LABEL, "a"))
        await here.sleep(STAY_S)
        assert not here.events("theirs", "Preempted")
        assert {each.metadata.name for each in here.pending()} == {"train-0", "train-1"}


@in_virtual_time
async def test_a_pod_in_no_queue_may_take_the_place_and_then_the_one_that_moved_waits_and_nobody_else_moves() -> None:
    async with world() as here:
        controllers = await begin_to_move(here)
        here.add_pod(make_pod("quick").req(cpu="2"))
        await here.until(lambda: bool(here.node_of("quick")))
        await here.until(lambda: bool(here.node_of("p")))
        await here.sleep(4 * STAY_S)
        assert controllers.created == 1
        (waiting,) = here.pending()
        assert waiting.metadata.name.split(".")[0] in ("x", "y")
        here.cluster.delete_pod("default/quick")
        await here.until(here.all_bound)


@in_virtual_time
async def test_pods_that_have_just_come_stay_until_they_are_old_enough() -> None:
    async with world() as here:
        controllers = await fragment(here)
        here.add_pod(pod("p", "4"))
        await here.sleep(STAY_S - 30.0)
        assert not here.node_of("p")
        assert not controllers.created
        await here.until(here.all_bound)
        await here.until(lambda: controllers.created == 1 and here.all_bound())


@pytest.mark.slow
@in_virtual_time
async def test_a_pod_that_is_moved_for_one_short_pod_after_the_other_stays_longer_each_time() -> None:
    async with world() as here:
        here.cluster.create_object(queue("a", "", "unlimited"))
        here.run_kubelets()
        controllers = Controllers(here)
        controllers.run()
        await here.sleep(1.0)
        for name in ("n1", "n2"):
            here.add_node(name, cpu="4")
            bare = make_pod(f"on-{name}").req(cpu="2").label(LABEL, "a")
            here.add_pod(bare.node_selector(**{"kubernetes.io/hostname": name}))
        here.add_pod(pod("x"))
        await here.until(here.all_bound)
        for _ in range(3 * 60 * 3):  # three hours
            # The small one goes where most room is, so that one of two cpu has the other one moved, wherever that is.
            here.add_pod(make_pod("small").req(cpu="1").label(LABEL, "a").grace_period(0))
            await here.sleep(1.0)
            here.add_pod(make_pod("large").req(cpu="2").label(LABEL, "a").grace_period(0))
            await here.sleep(14.0)
            here.cluster.delete_pod("default/small")
            here.cluster.delete_pod("default/large")
            await here.sleep(5.0)
        # After 5, 15, 35, 75 and 135 minutes.
        assert 3 <= controllers.created <= 5


@in_virtual_time
async def test_nobody_moves_unless_that_is_asked_for() -> None:
    async with world(0) as here:
        controllers = await fragment(here)
        await here.sleep(STAY_S)
        here.add_pod(pod("p", "4"))
        await here.sleep(2 * STAY_S)
        assert not here.node_of("p")
        assert not controllers.created


@in_virtual_time
async def test_pods_get_their_room_one_after_the_other() -> None:
    async with world(1) as here:
        here.cluster.create_object(queue("a", "", "unlimited"))
        here.run_kubelets()
        controllers = Controllers(here)
        controllers.run()
        await here.sleep(1.0)
        for number in range(4):
            here.add_node(f"n{number}", cpu="4")
            here.add_pod(pod(f"x{number}", "2"))
        await here.until(here.all_bound)
        await here.sleep(STAY_S)
        for number in range(2):
            here.add_pod(pod(f"p{number}", "4"))
        await here.until(lambda: controllers.created == 2 and here.all_bound())
        await here.sleep(2 * STAY_S)
        assert controllers.created == 2


@in_virtual_time
async def test_pods_that_fit_on_their_own_node_only_stay() -> None:
    async with world() as here:
        controllers = Controllers(here)
        controllers.run()
        here.cluster.create_object(queue("a", "", "unlimited"))
        await here.sleep(1.0)
        for number in range(2):
            here.add_node(f"n{number}", cpu="4")
            here.add_pod(pod(f"x{number}", "2").node_selector(**{"kubernetes.io/hostname": f"n{number}"}))
        await here.until(here.all_bound)
        await here.sleep(STAY_S)
        here.add_pod(pod("p", "4"))
        await here.sleep(STAY_S)
        assert not controllers.created
        condition = here.condition("p")
        assert condition is not None
        assert "2 Pods there that would have to move have no other place" in condition.message


async def moved_for_one(rng: random.Random) -> int:
    """Fill a cluster of which all pods have nodes, then let one come; returns how many moved."""
    async with world(rng.randint(1, 4)) as here:
        here.cluster.create_object(queue("a", "", "unlimited"))
        here.run_kubelets()
        for number in range(rng.randint(2, 5)):
            here.add_node(f"n{number}", cpu=str(rng.choice([4, 6, 8])))
        for number in range(rng.randint(4, 14)):
            here.add_pod(pod(f"x{number}", str(rng.choice([1, 1, 2, 3]))))
        await here.sleep(STAY_S + 60.0)
        for each in here.pending():
            here.cluster.delete_pod(each.key)
        controllers = Controllers(here)
        controllers.run()
        here.add_pod(pod("p", str(rng.randint(2, 7))))
        await here.sleep(60.0)
        assert here.all_bound() or not controllers.created, here.describe()
        return controllers.created


def test_all_who_move_get_a_node_again_and_so_does_the_one_that_they_move_for() -> None:
    # A plan is made so that it mostly holds in whatever order pods come again; these clusters are always the same.
    rng = random.Random(3)
    moved = [run_virtual(moved_for_one(rng)) for _ in range(40)]
    assert sum(map(bool, moved)) >= 5
    assert max(moved) > 1


@dataclass(frozen=True)
class Plan:
    nodes: list[int]  # cpu
    pods: list[tuple[int, int]]  # cpu, priority
    waiting: list[tuple[int, int]]
    most_moved: int


shapes = st.tuples(st.sampled_from([1, 1, 2, 3]), st.sampled_from([0, 0, 5]))
plans = st.builds(
    Plan,
    st.lists(st.sampled_from([4, 6, 8]), min_size=2, max_size=4),
    st.lists(shapes, min_size=2, max_size=10),
    st.lists(st.tuples(st.integers(2, 6), st.sampled_from([0, 0, 5])), min_size=1, max_size=3),
    st.integers(1, 3),
)


async def carry_out(plan: Plan) -> None:
    async with World(config=parse_config(CONFIG + ARGS % plan.most_moved, "test"), expect_conditions=False) as here:
        here.cluster.create_object(queue("a", "", "unlimited"))
        here.run_kubelets()
        controllers = Controllers(here)
        controllers.run()
        for number, cpu in enumerate(plan.nodes):
            here.add_node(f"n{number}", cpu=str(cpu))
        for number, (cpu, priority) in enumerate(plan.pods):
            here.add_pod(pod(f"x{number}", str(cpu), priority=priority))
        await here.sleep(2 * STAY_S)
        for number, (cpu, priority) in enumerate(plan.waiting):
            here.add_pod(pod(f"p{number}", str(cpu), priority=priority))
        # A pod that was moved stays for ten minutes before it moves again, then for 20, and so on up to an hour; each
        # move makes room for one more pod.
        await here.sleep((len(plan.pods) + 4 * len(plan.waiting)) * 2 * STAY_S + 2 * MOST_STAY_S)
        before = controllers.created
        await here.sleep(4 * STAY_S)
        assert controllers.created == before, f"{controllers.created} pods were evicted, and it goes on"
        assert len(here.cluster.pods) == len(plan.pods) + len(plan.waiting)
        queues = here.scheduler.share_queues
        assert queues is not None
        used: Counter[str] = Counter()
        for each in here.cluster.pods.values():
            if each.spec.node_name:
                used[each.spec.node_name] += queues.demands.amounts_of(each)["cpu"]
        assert all(used[f"n{number}"] <= 1000 * cpu for number, cpu in enumerate(plan.nodes))


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(plans)
def test_whatever_moves_comes_to_rest(plan: Plan) -> None:
    run_virtual(carry_out(plan))
