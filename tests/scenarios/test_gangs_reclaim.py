"""Gangs of queues with shares take back what their queues may use: for the whole minimum, in units, or nothing."""

from __future__ import annotations

from collections import Counter

from msgspec.structs import replace

from kscheduler.api.pod_groups import POD_GROUP_LABEL
from kscheduler.api.share_queues import QueueObject
from kscheduler.client.times import rfc3339
from kscheduler.config.load import parse_config
from kscheduler.config.releases import RELEASE_1_37
from kscheduler.explain.explainer import Explainer, Leadership
from kscheduler.explain.options import DecisionLogOptions
from kscheduler.explain.text import explanation_text
from kscheduler.scheduler import Options
from kscheduler.testing import PodBuilder, make_node, make_pod
from tests.scenarios.evicted import budget, left
from tests.scenarios.gangs import GATES, gang, group
from tests.scenarios.share_queues import LABEL, WITH_GANGS, queue
from tests.support.world import World, in_virtual_time


def world(options: Options | None = None) -> World:
    return World(
        config=parse_config(WITH_GANGS, "test"),
        options=options or Options(),
        expect_conditions=False,
    )


def single(name: str, queue: str, priority: int = 0) -> PodBuilder:
    return make_pod(name).label(LABEL, queue).req(cpu="1").priority(priority).grace_period(0)


def add_singles(here: World, queue: str, count: int, priority: int = 0) -> None:
    for number in range(count):
        here.add_pod(single(f"{queue}{number}", queue, priority))


def add_gang(here: World, name: str, count: int, queue: str, least: int = 0, priority: int = 0) -> None:
    here.cluster.create_object(gang(name, least or count))
    add_members(here, name, count, queue, priority)


def add_members(here: World, name: str, count: int, queue: str, priority: int = 0) -> None:
    for number in range(count):
        here.add_pod(single(f"{name}-{number}", queue, priority).label(POD_GROUP_LABEL, name))


async def share(here: World, *queues: QueueObject, cpus: int) -> None:
    """Create the queues, and nodes of 4 cpu."""
    for each in queues:
        here.cluster.create_object(each)
    await here.sleep(1.0)
    for number in range(cpus // 4):
        here.add_node(make_node(f"n{number}").capacity(cpu="4", memory="32Gi", pods=110).label("host", f"n{number}"))


def bound(here: World) -> Counter[str]:
    """How many pods of each queue have a node."""
    return Counter((each.metadata.labels or {})[LABEL] for each in here.cluster.pods.values() if each.spec.node_name)


def message(here: World, pod: str) -> str:
    condition = here.condition(f"default/{pod}")
    assert condition is not None
    return condition.message


@in_virtual_time
async def test_a_gang_takes_room_of_a_queue_above_its_share_for_its_whole_minimum() -> None:
    async with world() as here:
        await share(here, queue("a"), queue("b"), cpus=8)
        add_singles(here, "a", 8)
        await here.until(here.all_bound)
        add_gang(here, "train", 4, "b")
        await here.until(lambda: bound(here) == {"a": 4, "b": 4})
        await here.sleep(60.0)
        assert bound(here) == {"a": 4, "b": 4}


@in_virtual_time
async def test_a_gang_whose_minimum_is_beyond_its_queues_share_evicts_nobody() -> None:
    async with world() as here:
        await share(here, queue("a"), queue("b"), cpus=8)
        add_singles(here, "a", 8)
        await here.until(here.all_bound)
        add_gang(here, "train", 5, "b")
        await here.sleep(60.0)
        assert bound(here) == {"a": 8}
        assert message(here, "train-0").endswith(
            "preemption: its queue may not take room of other queues for the gang, "
            "and no pod of lower priority in its own is where it would help."
        )


@in_virtual_time
async def test_pods_above_the_minimum_take_room_up_to_the_share_as_well() -> None:
    async with world() as here:
        await share(here, queue("a"), queue("b"), cpus=8)
        add_singles(here, "a", 8)
        await here.until(here.all_bound)
        add_gang(here, "train", 6, "b", least=2)
        await here.until(lambda: bound(here) == {"a": 4, "b": 4}, within_s=30.0)
        await here.sleep(400.0)
        assert bound(here) == {"a": 4, "b": 4}


@in_virtual_time
async def test_pods_whose_room_is_not_enough_stay() -> None:
    async with world() as here:
        await share(here, queue("a", deserved=2), queue("b", deserved=2), cpus=8)
        for number in range(2):  # on each node one that nobody may evict
            kept = single(f"kept{number}", "a", priority=200).label("app", "kept")
            here.add_pod(kept.pod_anti_affinity("host", {"app": "kept"}))
        await here.until(here.all_bound)
        add_singles(here, "a", 6)
        await here.until(here.all_bound)
        here.cluster.create_object(gang("train", 1))
        here.add_pod(make_pod("train-0").label(LABEL, "b").req(cpu="4").label(POD_GROUP_LABEL, "train"))
        await here.sleep(60.0)
        assert bound(here) == {"a": 8}
        assert message(here, "train-0").endswith(
            "preemption: even without all pods whose room its queue may take there would be too little room."
        )


@in_virtual_time
async def test_only_queues_above_their_share_give_room() -> None:
    async with world() as here:
        await share(here, queue("a"), queue("b"), queue("c"), cpus=12)
        add_singles(here, "a", 4)
        add_singles(here, "c", 8, priority=50)
        await here.until(here.all_bound)
        add_gang(here, "train", 4, "b")
        await here.until(lambda: bound(here) == {"a": 4, "b": 4, "c": 4})


@in_virtual_time
async def test_a_gang_gives_what_it_has_above_its_minimum() -> None:
    async with world() as here:
        await share(here, queue("a"), queue("b"), cpus=8)
        add_gang(here, "loose", 8, "a", least=3)
        await here.until(here.all_bound)
        add_gang(here, "train", 4, "b")
        await here.until(lambda: bound(here) == {"a": 4, "b": 4})


@in_virtual_time
async def test_a_gang_that_cannot_keep_its_minimum_goes_whole_and_does_not_come_back() -> None:
    async with world() as here:
        await share(here, queue("a"), queue("b"), cpus=8)
        add_gang(here, "tight", 6, "a")
        await here.until(here.all_bound)
        add_gang(here, "train", 4, "b")
        await here.until(lambda: bound(here) == {"b": 4})
        add_members(here, "tight", 6, "a")
        await here.sleep(600.0)
        assert bound(here) == {"b": 4}
        assert len(left(here, "tight")) == 6


@in_virtual_time
async def test_a_gang_within_its_queues_share_stays() -> None:
    async with world() as here:
        await share(here, queue("a"), queue("b"), cpus=8)
        add_gang(here, "tight", 4, "a")
        add_singles(here, "b", 4)
        await here.until(here.all_bound)
        add_gang(here, "train", 2, "b")
        await here.sleep(60.0)
        assert bound(here) == {"a": 4, "b": 4}


@in_virtual_time
async def test_pods_protected_by_a_budget_leave_last() -> None:
    async with world() as here:
        here.cluster.create_object(budget("guarded", 0))
        await share(here, queue("a"), queue("b"), cpus=8)
        for number in range(8):
            pod = single(f"a{number}", "a", priority=10 * (number >= 4))
            here.add_pod(pod if number >= 4 else pod.label("app", "guarded"))
        await here.until(here.all_bound)
        add_gang(here, "train", 4, "b")
        await here.until(lambda: bound(here) == {"a": 4, "b": 4})
        assert left(here, "a") == ["a0", "a1", "a2", "a3"]


@in_virtual_time
async def test_in_its_own_queue_a_gang_evicts_less_important_pods_only() -> None:
    async with world() as here:
        await share(here, queue("a"), queue("b"), cpus=8)
        add_singles(here, "a", 4, priority=10)
        add_singles(here, "b", 4)
        await here.until(here.all_bound)
        add_gang(here, "equal", 2, "a", priority=10)
        await here.sleep(30.0)
        assert bound(here) == {"a": 4, "b": 4}
        add_gang(here, "train", 2, "a", priority=50)
        await here.until(lambda: len([name for name in left(here, "train") if here.pod(name).spec.node_name]) == 2)
        assert bound(here) == {"a": 4, "b": 4}


@in_virtual_time
async def test_a_gang_at_the_limit_of_its_queue_evicts_less_important_pods_of_it_wherever_they_are() -> None:
    async with world() as here:
        await share(here, queue("a", limit=4), cpus=8)
        for number in range(4):
            here.add_pod(single(f"a{number}", "a", priority=number).node_selector(host="n0"))
        await here.until(here.all_bound)
        add_gang(here, "train", 2, "a", priority=10)
        await here.until(lambda: {here.node_of("train-0"), here.node_of("train-1")} == {"n1"}, within_s=30.0)
        assert left(here, "a") == ["a2", "a3"]


@in_virtual_time
async def test_a_limit_above_both_queues_counts_what_leaves() -> None:
    async with world() as here:
        await share(here, queue("team", limit=4), queue("a", "team"), queue("b", "team"), cpus=8)
        add_singles(here, "a", 4)
        await here.until(here.all_bound)
        add_gang(here, "train", 2, "b")
        await here.until(lambda: bound(here) == {"a": 2, "b": 2})


@in_virtual_time
async def test_a_gang_that_is_not_preemptible_takes_room_within_what_its_queue_deserves() -> None:
    async with world() as here:
        await share(here, queue("a"), queue("b", deserved=3), cpus=8)
        add_singles(here, "a", 8)
        await here.until(here.all_bound)
        add_gang(here, "large", 4, "b", priority=100)
        await here.sleep(30.0)
        assert bound(here) == {"a": 8}
        add_gang(here, "train", 3, "b", priority=100)
        await here.until(lambda: bound(here) == {"a": 5, "b": 3})


@in_virtual_time
async def test_a_gang_takes_its_share_soon_after_others_ask_for_less() -> None:
    async with world() as here:
        await share(here, queue("a"), queue("b"), queue("c"), cpus=12)
        add_singles(here, "a", 12)
        await here.until(here.all_bound)
        for number in range(6):
            here.add_pod(single(f"c{number}", "c").node_selector(disk="none"))  # they ask for a third, in vain
        add_gang(here, "train", 6, "b")
        await here.sleep(20.0)
        assert bound(here) == {"a": 12}
        for number in range(6):
            here.cluster.delete_pod(f"default/c{number}")
        await here.until(lambda: bound(here) == {"a": 6, "b": 6}, within_s=30.0)  # gangs are swept after 300


@in_virtual_time
async def test_pods_run_for_as_long_as_their_queue_says_before_a_gang_takes_their_room() -> None:
    async with world() as here:
        spec = replace(queue("a").spec, reclaim_min_runtime="60s")
        await share(here, replace(queue("a"), spec=spec), queue("b"), cpus=8)
        now = rfc3339(here.clock.wall())
        for number in range(8):
            here.add_pod(single(f"a{number}", "a").started(now))
        await here.until(here.all_bound)
        add_gang(here, "train", 4, "b")
        await here.sleep(40.0)
        assert bound(here) == {"a": 8}
        await here.until(lambda: bound(here) == {"a": 4, "b": 4}, within_s=60.0)


@in_virtual_time
async def test_nobody_takes_room_back_and_forth() -> None:
    async with world() as here:
        await share(here, queue("a"), queue("b"), queue("c"), cpus=12)
        add_singles(here, "a", 14)
        await here.until(lambda: bound(here) == {"a": 12})
        for number in range(4):
            add_gang(here, f"b{number}", 2, "b")
            add_gang(here, f"c{number}", 3, "c")
        await here.sleep(120.0)
        settled, there = bound(here), len(here.cluster.pods)
        assert settled["b"] == 4
        assert settled["c"] == 3
        await here.sleep(600.0)
        assert bound(here) == settled
        assert len(here.cluster.pods) == there


@in_virtual_time
async def test_kubernetes_pod_groups_take_room_beside_coscheduling() -> None:
    config = parse_config(WITH_GANGS, "test", release=RELEASE_1_37.with_gates(GATES))
    async with World(config=config, expect_conditions=False) as here:
        await share(here, queue("a"), queue("b"), cpus=8)
        add_singles(here, "a", 8)
        await here.until(here.all_bound)
        here.cluster.create_object(group("train", 4))
        for number in range(4):
            here.add_pod(single(f"train-{number}", "b").scheduling_group("train"))
        await here.until(lambda: bound(here) == {"a": 4, "b": 4})


@in_virtual_time
async def test_explain_says_whether_the_whole_gang_may_take_room() -> None:
    async with world(Options(explain=DecisionLogOptions(), first_on_tie=True)) as here:
        explainer = here.scheduler.explainer(lambda: Leadership("here_1", True, "here_1"))
        assert explainer is not None
        await share(here, queue("a"), queue("b"), cpus=8)
        for number in range(8):
            here.add_pod(single(f"a{number}", "a", priority=0).label("app", "x"))
        await here.until(here.all_bound)
        add_gang(here, "large", 5, "b")
        await here.sleep(20.0)
        assert _explained(explainer, "large-0").endswith(
            "  with all 5 pods that its gang needs, the queue may not take room of other queues"
        )


def _explained(explainer: Explainer, pod: str) -> str:
    found = explainer.explain(f"default/{pod}")
    assert found is not None
    lines = explanation_text(found).splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith("Shares of queue"))
    end = lines.index("", start) if "" in lines[start:] else len(lines)
    return "\n".join(lines[start:end])
