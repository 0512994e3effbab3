"""Extenders have a say in where pods go: what they do to their own pods, and what they cannot do to others."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from kscheduler.client.protocol import Binding
from kscheduler.errors import PluginError
from kscheduler.explain.options import DecisionLogOptions
from kscheduler.scheduler import Options
from kscheduler.simulator.cluster_client import Latency
from kscheduler.simulator.faults import FaultKind, Verb
from kscheduler.testing import PodBuilder, make_node, make_pod
from tests.scenarios.fake_extenders import (
    Answer,
    FakeExtender,
    all_pass,
    configured,
    endpoints,
    fails,
    hangs,
    late,
    only,
    scores,
)
from tests.support.election import Follower
from tests.support.world import World, in_virtual_time

GPU = "example.com/gpu"
FOR_GPUS = {"managedResources": [{"name": GPU}]}
GPUS = {GPU: "100", "example.com/a": "100", "example.com/b": "100"}


def world_with(*extenders: FakeExtender, fields: dict[str, Any] | None = None, **settings: Any) -> World:
    return World(config=configured(*extenders, **(fields or {})), extender_endpoint=endpoints(extenders), **settings)


def gpu_pod(name: str) -> PodBuilder:
    return make_pod(name).req(**{"cpu": "100m", GPU: "1"})


def message(world: World, name: str) -> str:
    condition = world.condition(name)
    return "" if condition is None else condition.message


def requests(world: World, verb: str, result: str, url: str = "http://one") -> float:
    return world.metrics.extender_requests_total.labels(url, verb, result).value


# --- filter and prioritize -------------------------------------------------------------------------------------------


@in_virtual_time
async def test_a_pod_goes_where_its_extender_lets_it() -> None:
    one = FakeExtender(filter=only("n2"))
    async with world_with(one) as world:
        world.add_nodes(4, **GPUS)
        world.add_pod(make_pod("p"))
        await world.until(world.all_bound)
        assert world.node_of("p") == "n2"
        assert one.questions[0]["Pod"]["metadata"]["name"] == "p"
        assert sorted(one.questions[0]["NodeNames"]) == ["n0", "n1", "n2", "n3"]
        assert requests(world, "filter", "success") == 1


@in_virtual_time
async def test_an_extender_is_asked_only_about_nodes_that_plugins_leave() -> None:
    one = FakeExtender(filter=all_pass)
    async with world_with(one) as world:
        world.add_node("small", cpu="1")
        world.add_node("large")
        world.add_pod(make_pod("p").req(cpu="2"))
        await world.until(world.all_bound)
        assert one.questions[0]["NodeNames"] == ["large"]


@in_virtual_time
async def test_filters_are_asked_one_after_the_other_and_ignorable_ones_last() -> None:
    order: list[str] = []

    def noted(name: str, *names: str) -> Answer:
        def answer(question: dict[str, Any]) -> Any:
            order.append(name)
            return only(*names)(question)

        return answer

    last = FakeExtender("last", settings={"ignorable": True}, filter=noted("last", "n1"))
    first = FakeExtender("first", filter=noted("first", "n1", "n2"))
    async with world_with(last, first) as world:
        world.add_nodes(3, **GPUS)
        world.add_pod(make_pod("p"))
        await world.until(world.all_bound)
        assert (order, world.node_of("p")) == (["first", "last"], "n1")
        assert sorted(last.questions[0]["NodeNames"]) == ["n1", "n2"]


@in_virtual_time
async def test_scores_of_extenders_are_added_with_their_weight() -> None:
    one = FakeExtender("one", settings={"weight": 2}, prioritize=scores(n0=3, n1=10, nowhere=10))
    two = FakeExtender("two", settings={"weight": 7}, prioritize=scores(n2=4))
    async with world_with(one, two) as world:
        world.add_nodes(3, **GPUS)
        world.add_pod(make_pod("p"))
        await world.until(world.all_bound)
        assert world.node_of("p") == "n2"  # 7 x 4 against 2 x 10


@in_virtual_time
async def test_scores_are_asked_for_at_once_and_a_failed_one_counts_nothing() -> None:
    one = FakeExtender("one", prioritize=late(2.0, scores(n1=10)))
    two = FakeExtender("two", prioritize=late(2.0, fails("broken")))
    async with world_with(one, two) as world:
        world.add_nodes(2, **GPUS)
        world.add_pod(make_pod("p"))
        await world.until(world.all_bound)
        assert world.node_of("p") == "n1"
        assert world.clock.now() < 3.0
        assert requests(world, "prioritize", "error", "http://two") == 1


@in_virtual_time
async def test_a_single_node_left_is_not_scored() -> None:
    one = FakeExtender(filter=only("n1"), prioritize=scores())
    async with world_with(one) as world:
        world.add_nodes(3, **GPUS)
        world.add_pod(make_pod("p"))
        await world.until(world.all_bound)
        assert [verb for verb, _ in one.asked] == ["filter"]


@in_virtual_time
async def test_nodes_are_shown_whole_to_an_extender_that_does_not_know_them() -> None:
    def answer(question: dict[str, Any]) -> Any:
        items = [node for node in question["Nodes"]["items"] if node["metadata"]["labels"].get("disk") == "ssd"]
        return {"Nodes": {"items": items}}

    one = FakeExtender(settings={"nodeCacheCapable": False}, filter=answer)
    async with world_with(one) as world:
        world.add_node(make_node("spinning").label(disk="hdd").capacity(cpu="4", pods=10))
        world.add_node(make_node("fast").label(disk="ssd").capacity(cpu="4", pods=10))
        world.add_pod(make_pod("p"))
        await world.until(world.all_bound)
        assert world.node_of("p") == "fast"
        assert one.questions[0]["NodeNames"] is None
        assert one.questions[0]["Nodes"]["items"][0]["status"]["allocatable"]["cpu"] == "4"


# --- what rejects a pod ----------------------------------------------------------------------------------------------


@in_virtual_time
async def test_a_rejected_pod_reads_why_and_waits_for_any_event() -> None:
    one = FakeExtender(filter=only("later", why="no licence"))
    async with world_with(one) as world:
        world.add_nodes(2, **GPUS)
        world.add_pod(make_pod("p"))
        await world.until(lambda: bool(message(world, "p")))
        assert message(world, "p").startswith("0/2 nodes are available: 2 no licence.")
        assert world.scheduler.queue.rejections() == {("Extender", "default-scheduler"): 1}
        world.add_node("later")
        await world.until(world.all_bound)
        assert world.node_of("p") == "later"


@in_virtual_time
async def test_nodes_left_out_without_a_word_are_not_counted() -> None:
    one = FakeExtender(filter=lambda question: {"NodeNames": []})
    async with world_with(one) as world:
        world.add_nodes(2, **GPUS)
        world.add_pod(make_pod("p"))
        await world.until(lambda: bool(message(world, "p")))
        assert message(world, "p").startswith("0/2 nodes are available: no new claims to deallocate, preemption:")


FAULTS = {
    "its own words": (lambda question: {"Error": "no GPUs today"}, "no GPUs today"),
    "a status": (fails("failed filter with extender at URL http://one/filter, code 500"), "code 500"),
    "unknown nodes": (lambda question: {"NodeNames": ["n9"]}, 'claims a filtered node "n9" which is not found'),
    "no JSON": (lambda question: b"<html>", "http://one/filter: expected an ExtenderFilterResult as JSON"),
    "another type": (lambda question: {"NodeNames": "n1"}, "http://one/filter: NodeNames"),
    "silence": (hangs, "no answer within 5 s"),
}


@pytest.mark.parametrize("what", FAULTS)
def test_a_fault_is_recorded_on_the_pod_which_is_tried_again(what: str) -> None:
    answer, reported = FAULTS[what]

    @in_virtual_time
    async def scenario() -> None:
        answers = [answer, all_pass]
        one = FakeExtender(settings=FOR_GPUS, filter=lambda question: answers.pop(0)(question))
        async with world_with(one) as world:
            world.add_nodes(2, **GPUS)
            world.add_pod(gpu_pod("p"))
            await world.until(lambda: bool(message(world, "p")))
            condition = world.condition("p")
            assert condition is not None
            assert condition.reason == "SchedulerError"
            assert reported in condition.message
            assert requests(world, "filter", "error") == 1
            await world.until(world.all_bound)

    scenario()


@pytest.mark.parametrize("what", FAULTS)
def test_an_extender_that_may_be_ignored_is_left_out_when_it_fails(what: str) -> None:
    @in_virtual_time
    async def scenario() -> None:
        one = FakeExtender(settings={"ignorable": True}, filter=FAULTS[what][0])
        async with world_with(one) as world:
            world.add_nodes(2, **GPUS)
            world.add_pod(make_pod("p"))
            await world.until(world.all_bound)
            assert len(one.asked) == 1

    scenario()


@in_virtual_time
async def test_decisions_with_extenders_are_remembered_like_others() -> None:
    answers = [only(why="no licence"), fails("broken"), all_pass]
    one = FakeExtender(settings=FOR_GPUS, filter=lambda question: answers.pop(0)(question), preempt=kept())
    async with world_with(one, options=Options(explain=DecisionLogOptions())) as world:
        world.add_nodes(2, **GPUS)
        pod = world.add_pod(gpu_pod("p"))
        await world.until(lambda: bool(message(world, "p")))
        world.add_node("n2", **GPUS)
        await world.until(world.all_bound)
        assert world.scheduler.decisions is not None
        placed, broken, rejected = world.scheduler.decisions.ring.of(pod.metadata.uid)
        assert placed.node == world.node_of("p")
        assert broken.refusal is not None
        assert broken.refusal.message == "broken"
        assert rejected.refusal is not None
        assert "2 no licence" in rejected.refusal.message


# --- others go on ----------------------------------------------------------------------------------------------------


@in_virtual_time
async def test_other_pods_are_placed_while_an_extender_hangs() -> None:
    one = FakeExtender(settings=FOR_GPUS, filter=hangs)
    async with world_with(one) as world:
        world.add_nodes(3, **GPUS)
        world.add_pod(gpu_pod("stuck"))
        await world.until(lambda: bool(one.asked))
        for index in range(30):
            world.add_pod(make_pod(f"p{index}").req(cpu="100m"))
        await world.until(lambda: [pod.metadata.name for pod in world.pending()] == ["stuck"], within_s=1.0)
        assert world.clock.now() < 5.0


@in_virtual_time
async def test_an_extender_sees_one_pod_at_a_time_in_the_order_of_the_queue() -> None:
    one = FakeExtender(settings=FOR_GPUS, filter=late(0.5, all_pass))
    async with world_with(one) as world:
        world.add_nodes(3, **GPUS)
        for index in range(6):
            world.add_pod(gpu_pod(f"p{index}").priority(index))
        await world.until(world.all_bound)
        assert one.most_at_once == 1
        assert [pod for _, pod in one.asked] == ["p5", "p4", "p3", "p2", "p1", "p0"]


@in_virtual_time
async def test_pods_of_different_extenders_do_not_wait_for_each_other_and_a_pod_of_both_is_not_starved() -> None:
    def of(resource: str) -> dict[str, Any]:
        return {"managedResources": [{"name": resource}]}

    a = FakeExtender("a", settings=of("example.com/a"), filter=late(1.0, all_pass))
    b = FakeExtender("b", settings=of("example.com/b"), filter=late(1.0, all_pass))
    async with world_with(a, b) as world:
        world.add_nodes(3, **GPUS)
        for index in range(2):
            world.add_pod(make_pod(f"a{index}").req(**{"example.com/a": "1"}).priority(9 - index))
        world.add_pod(make_pod("b0").req(**{"example.com/b": "1"}).priority(9))
        world.add_pod(make_pod("both").req(**{"example.com/a": "1", "example.com/b": "1"}).priority(5))
        for index in range(1, 3):
            world.add_pod(make_pod(f"b{index}").req(**{"example.com/b": "1"}).priority(1))
        await world.until(world.all_bound)
        assert [pod for _, pod in a.asked] == ["a0", "a1", "both"]
        assert [pod for _, pod in b.asked] == ["b0", "both", "b1", "b2"]
        assert max(a.most_at_once, b.most_at_once) == 1


@in_virtual_time
async def test_room_that_is_taken_meanwhile_is_not_given_twice() -> None:
    one = FakeExtender(settings=FOR_GPUS, filter=late(2.0, all_pass))
    async with world_with(one) as world:
        world.add_node("n0", **{**GPUS, "cpu": "1"})
        world.add_pod(make_pod("slow").req(**{"cpu": "1", GPU: "1"}))
        await world.until(lambda: bool(one.asked))
        world.add_pod(make_pod("quick").req(cpu="1"))
        await world.until(lambda: bool(message(world, "slow")))
        assert (world.node_of("quick"), world.node_of("slow")) == ("n0", "")
        assert "1 Insufficient cpu" in message(world, "slow")
        world.cluster.delete_pod("default/quick")
        await world.until(world.all_bound)


@in_virtual_time
async def test_a_node_that_comes_meanwhile_waits_for_the_next_attempt() -> None:
    one = FakeExtender(filter=late(2.0, only("n1")))
    async with world_with(one) as world:
        world.add_node("n0")
        world.add_pod(make_pod("p"))
        await world.until(lambda: bool(one.asked))
        world.add_node("n1")
        await world.until(world.all_bound)
        assert one.questions[0]["NodeNames"] == ["n0"]
        assert (len(one.asked), world.node_of("p")) == (2, "n1")


@in_virtual_time
async def test_a_node_that_goes_meanwhile_takes_nobody() -> None:
    one = FakeExtender(filter=late(2.0, only("n0")))
    async with world_with(one) as world:
        world.add_nodes(2, **GPUS)
        world.add_pod(make_pod("p"))
        await world.until(lambda: bool(one.asked))
        world.cluster.delete_node("n0")
        await world.until(lambda: bool(message(world, "p")))
        assert world.node_of("p") == ""


@in_virtual_time
async def test_a_pod_that_goes_or_is_bound_meanwhile_is_let_go() -> None:
    one = FakeExtender(filter=late(2.0, all_pass))
    async with world_with(one) as world:
        world.add_nodes(2, **GPUS)
        world.add_pod(make_pod("gone"))
        await world.until(lambda: len(one.asked) == 1)
        world.cluster.delete_pod("default/gone")
        await world.sleep(3.0)
        world.add_pod(make_pod("theirs"))
        await world.until(lambda: len(one.asked) == 2)
        world.bind_elsewhere("theirs", "n1")
        await world.sleep(3.0)
        assert not list(world.scheduler.queue._in_flight)
        assert not world.events("theirs")
        assert not world.events("gone")


@in_virtual_time
async def test_a_pod_created_again_under_its_name_is_another_pod() -> None:
    one = FakeExtender(filter=late(2.0, all_pass))
    async with world_with(one) as world:
        world.add_nodes(2, **GPUS)
        first = world.add_pod(make_pod("p"))
        await world.until(lambda: len(one.asked) == 1)
        world.cluster.delete_pod("default/p")
        second = world.add_pod(make_pod("p"))
        await world.until(world.all_bound)
        uids = [question["Pod"]["metadata"]["uid"] for question in one.questions]
        assert uids == [first.metadata.uid, second.metadata.uid]


# --- nominated nodes and preemption ----------------------------------------------------------------------------------


async def crowded(world: World, nodes: int = 2) -> None:
    world.add_nodes(nodes, **GPUS)
    for index in range(nodes):
        world.add_pod(make_pod(f"low{index}").req(cpu="4").priority(1 + index).grace_period(0))
    await world.until(world.all_bound)


def high(name: str = "high") -> PodBuilder:
    return make_pod(name).req(**{"cpu": "4", GPU: "1"}).priority(1000)


def kept(*nodes: str) -> Answer:
    def answer(question: dict[str, Any]) -> Any:
        proposed = question["NodeNameToMetaVictims"]
        return {"NodeNameToMetaVictims": {name: proposed[name] for name in nodes}}

    return answer


@in_virtual_time
async def test_an_extender_has_a_say_in_whom_a_pod_preempts() -> None:
    one = FakeExtender(settings=FOR_GPUS, preempt=kept("n1", "n0"))
    two = FakeExtender("two", preempt=kept("n1"), settings={"ignorable": True})
    async with world_with(one, two) as world:
        await crowded(world)
        spared = [world.node_of(f"low{index}") for index in range(2)].index("n0")
        world.add_pod(high())
        await world.until(world.all_bound)
        assert world.node_of("high") == "n1"
        assert f"default/low{spared}" in world.cluster.pods
        (victim,) = one.questions[-1]["NodeNameToMetaVictims"]["n1"]["Pods"]
        assert set(victim) == {"UID"}
        assert set(two.questions[-1]["NodeNameToMetaVictims"]) == {"n0", "n1"}


@in_virtual_time
async def test_victims_are_shown_whole_to_an_extender_that_does_not_know_nodes() -> None:
    def answer(question: dict[str, Any]) -> Any:
        found = question["NodeNameToVictims"]
        assert found["n0"]["Pods"][0]["metadata"]["name"].startswith("low")
        metas = [{"UID": pod["metadata"]["uid"]} for pod in found["n0"]["Pods"]]
        return {"NodeNameToMetaVictims": {"n0": {"Pods": metas, "NumPDBViolations": 0}}}

    one = FakeExtender(settings={**FOR_GPUS, "nodeCacheCapable": False}, preempt=answer)
    async with world_with(one) as world:
        await crowded(world)
        world.add_pod(high())
        await world.until(world.all_bound)
        assert world.node_of("high") == "n0"


@pytest.mark.parametrize(
    ("answer", "reported"),
    [
        (lambda question: {"NodeNameToMetaVictims": {}}, "preemption: no candidate node for preemption"),
        (fails("extender broke"), "preemption: extender broke"),
        (
            lambda question: {"NodeNameToMetaVictims": {"n0": {"Pods": []}}},
            'preemption: expected at least one victim pod on node "n0"',
        ),
        (
            lambda question: {"NodeNameToMetaVictims": {"n0": {"Pods": [{"UID": "who"}]}}},
            "claims to preempt pod (UID: &{who}) on node: n0",
        ),
    ],
)
def test_nobody_is_evicted_when_the_extender_does_not_agree(answer: Answer, reported: str) -> None:
    @in_virtual_time
    async def scenario() -> None:
        one = FakeExtender(settings=FOR_GPUS, preempt=answer)
        async with world_with(one) as world:
            await crowded(world)
            world.add_pod(high())
            await world.until(lambda: bool(message(world, "high")))
            assert reported in message(world, "high")
            assert message(world, "high").startswith("0/2 nodes are available: 2 Insufficient cpu.")
            assert {"default/low0", "default/low1"} <= set(world.cluster.pods)

    scenario()


@in_virtual_time
async def test_an_ignorable_extender_that_fails_has_no_say_in_preemption() -> None:
    one = FakeExtender(settings={"ignorable": True}, preempt=fails("extender broke"))
    async with world_with(one) as world:
        await crowded(world)
        world.add_pod(high().req(cpu="4"))
        await world.until(world.all_bound)


@in_virtual_time
async def test_nobody_is_evicted_from_a_node_whose_pods_have_changed_meanwhile() -> None:
    answers = [late(2.0, kept("n0")), kept("n0")]
    one = FakeExtender(settings=FOR_GPUS, preempt=lambda question: answers.pop(0)(question))
    async with world_with(one) as world:
        await crowded(world, nodes=1)
        world.add_pod(high())
        await world.until(lambda: bool(one.asked))
        world.add_pod(make_pod("theirs").scheduler_name("another"))
        world.bind_elsewhere("theirs", "n0")
        await world.until(lambda: bool(world.events("high")))
        assert "pods came or went while extenders were asked" in world.events("high")[0].note
        await world.until(world.all_bound)
        assert world.metrics.preemption_victims.sum == 1


@in_virtual_time
async def test_a_pod_that_finds_room_while_its_victims_are_discussed_evicts_nobody() -> None:
    one = FakeExtender(settings=FOR_GPUS, preempt=late(2.0, kept("n0")))
    async with world_with(one) as world:
        await crowded(world, nodes=1)
        world.add_pod(high())
        await world.until(lambda: bool(one.asked))
        world.cluster.delete_pod("default/low0")
        await world.until(world.all_bound)
        assert world.metrics.preemption_victims.sum == 0


@in_virtual_time
async def test_a_nominated_node_is_asked_about_alone() -> None:
    one = FakeExtender(filter=all_pass)
    async with world_with(one) as world:
        world.add_nodes(3, **GPUS)
        world.add_pod(make_pod("p").nominated_node("n1"))
        await world.until(world.all_bound)
        assert ([question["NodeNames"] for question in one.questions], world.node_of("p")) == ([["n1"]], "n1")


@in_virtual_time
async def test_a_nominated_node_that_the_extender_turns_down_is_no_more_than_another() -> None:
    one = FakeExtender(filter=only("n2"))
    async with world_with(one) as world:
        world.add_nodes(3, **GPUS)
        world.add_pod(make_pod("p").nominated_node("n1"))
        await world.until(world.all_bound)
        assert len(one.asked) == 2
        assert world.node_of("p") == "n2"


# --- binding ---------------------------------------------------------------------------------------------------------


def binds(world: World) -> Answer:
    def answer(question: dict[str, Any]) -> Any:
        binding = Binding(question["PodNamespace"], question["PodName"], question["PodUID"], question["Node"])
        world.cluster.bind(binding)
        return {}

    return answer


class Binder(FakeExtender):
    """Binds as requested; `world` is set after its configuration was made."""

    def __init__(self, answer: Answer, **settings: Any) -> None:
        super().__init__(settings={**FOR_GPUS, **settings}, bind=lambda question: self.answer(question))
        self.answer = answer


@in_virtual_time
async def test_an_extender_binds_in_place_of_the_plugins() -> None:
    one = Binder(fails("not yet"))
    async with world_with(one) as world:
        one.answer = binds(world)
        world.add_nodes(2, **GPUS)
        world.add_pod(gpu_pod("theirs"))
        world.add_pod(make_pod("ours"))
        await world.until(world.all_bound)
        assert one.asked == [("bind", "theirs")]
        assert len(world.events("theirs", "Scheduled")) == 1


@in_virtual_time
async def test_a_binding_that_fails_gives_the_room_back_and_is_tried_again() -> None:
    one = Binder(lambda question: {"Error": "device busy"})
    async with world_with(one) as world:
        world.add_node("n0", **{**GPUS, "cpu": "1"})
        world.add_pod(make_pod("p").req(**{"cpu": "1", GPU: "1"}))
        await world.until(lambda: bool(message(world, "p")))
        assert message(world, "p") == "device busy"
        one.answer = binds(world)
        await world.until(world.all_bound)


@in_virtual_time
async def test_a_binding_whose_answer_was_lost_counts() -> None:
    one = Binder(fails("not yet"))

    def bound_without_a_word(question: dict[str, Any]) -> Any:
        binds(world)(question)
        return fails("connection reset")(question)

    async with world_with(one) as world:
        one.answer = bound_without_a_word
        world.add_nodes(2, **GPUS)
        world.add_pod(gpu_pod("p"))
        await world.until(world.all_bound)
        await world.sleep(1.0)
        assert len(world.events("p", "Scheduled")) == 1
        assert not message(world, "p")


@in_virtual_time
async def test_whether_an_extender_bound_a_pod_is_asked_until_the_apiserver_says_so() -> None:
    one = Binder(fails("not yet"))

    def bound_without_a_word(question: dict[str, Any]) -> Any:
        binds(world)(question)
        for kind in (FaultKind.FORBIDDEN, FaultKind.UNAUTHORIZED, FaultKind.NO_SUCH_PATH, FaultKind.UNREADABLE):
            world.faults.add(kind, Verb.GET_POD, count=2)
        return fails("connection reset")(question)

    async with world_with(one) as world:
        one.answer = bound_without_a_word
        world.add_nodes(2, **GPUS)
        world.add_pod(gpu_pod("p"))
        await world.until(lambda: bool(world.events("p", "Scheduled")))
        assert one.asked == [("bind", "p")]
        assert not message(world, "p")


@in_virtual_time
async def test_an_ignorable_binder_that_fails_leaves_it_to_the_plugins() -> None:
    one = Binder(fails("broken"), ignorable=True)
    async with world_with(one) as world:
        world.add_nodes(2, **GPUS)
        world.add_pod(gpu_pod("p"))
        await world.until(world.all_bound)
        assert one.asked == [("bind", "p")]


@in_virtual_time
async def test_a_binder_that_hangs_takes_no_room_from_other_bindings() -> None:
    one = Binder(hangs)
    async with world_with(one, options=Options(bind_concurrency=2)) as world:
        world.add_nodes(2, **GPUS)
        for index in range(5):
            world.add_pod(gpu_pod(f"stuck{index}"))
        await world.until(lambda: one.most_at_once == 5)
        world.add_pod(make_pod("quick"))
        await world.until(lambda: bool(world.node_of("quick")), within_s=1.0)
        one.answer = binds(world)
        await world.until(world.all_bound)


@in_virtual_time
async def test_without_the_lease_no_extender_is_asked_to_bind() -> None:
    def loses_the_lease(question: dict[str, Any]) -> Any:
        world.scheduler.permission.depend_on(Follower())
        return all_pass(question)

    one = FakeExtender(settings=FOR_GPUS, filter=loses_the_lease, bind=fails("must not be asked"))
    async with world_with(one, expect_conditions=False) as world:
        world.add_nodes(2, **GPUS)
        world.add_pod(gpu_pod("p"))
        await world.until(lambda: bool(one.asked))
        await world.sleep(5)
        assert one.asked == [("filter", "p")]
        assert (world.node_of("p"), world.condition("p"), world.events("p")) == ("", None, [])
        world.cluster.delete_pod("default/p")


# --- the end ---------------------------------------------------------------------------------------------------------


@in_virtual_time
async def test_losing_the_lease_stops_asking_at_once_and_loses_no_pod() -> None:
    one = FakeExtender(filter=hangs)
    async with world_with(one, expect_conditions=False) as world:
        world.add_nodes(2, **GPUS)
        world.add_pod(make_pod("p"))
        await world.until(lambda: bool(one.asked))
        observe, schedule = world._tasks
        schedule.cancel()
        await asyncio.gather(schedule, return_exceptions=True)
        assert world.clock.now() < 5.0
        assert not world.scheduler.lanes
        assert one.is_closed
        assert requests(world, "filter", "canceled") == 1
        assert world.scheduler.queue.get(world.pod("p").metadata.uid) is not None
        world._tasks = [observe]


@in_virtual_time
async def test_draining_does_not_wait_for_extenders() -> None:
    one = FakeExtender(filter=hangs)
    async with world_with(one, expect_conditions=False, latency=Latency(bind_s=1.0)) as world:
        world.add_nodes(2, **GPUS)
        world.add_pod(make_pod("p"))
        await world.until(lambda: bool(one.asked))
        started = world.clock.now()
        world.scheduler.drain()
        observe, schedule = world._tasks
        await asyncio.wait_for(schedule, 2.0)
        assert world.clock.now() - started < 2.0
        world._tasks = [observe]


@in_virtual_time
async def test_ties_among_extended_scores_follow_the_option() -> None:
    one = FakeExtender(prioritize=scores(n1=5, n2=5))
    async with world_with(one, options=Options(first_on_tie=True)) as world:
        world.add_nodes(4, **GPUS)
        world.add_pod(make_pod("p"))
        await world.until(world.all_bound)
        assert world.node_of("p") == "n1"


# --- all at once -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
def test_whatever_extenders_do_all_pods_are_placed_and_no_node_is_overcommitted(seed: int) -> None:
    draw = random.Random(seed)

    async def moody(question: dict[str, Any]) -> Any:
        await asyncio.sleep(draw.choice([0.0, 0.01, 0.3]))
        mood = draw.random()
        if mood < 0.15:
            raise PluginError("not in the mood")
        names = question["NodeNames"]
        return all_pass(question) if mood < 0.7 else only(*draw.sample(names, min(2, len(names))))(question)

    def judging(question: dict[str, Any]) -> Any:
        return [{"Host": name, "Score": draw.randrange(11)} for name in question["NodeNames"]]

    def of(resource: str, **fields: Any) -> dict[str, Any]:
        return {"managedResources": [{"name": resource}], **fields}

    a = FakeExtender("a", settings=of("example.com/a"), filter=moody, prioritize=late(0.05, judging))
    b = FakeExtender("b", settings=of("example.com/b", ignorable=True), filter=moody)

    @in_virtual_time
    async def scenario() -> None:
        async with world_with(a, b, latency=Latency(bind_s=0.05), seed=seed) as world:
            world.run_kubelets()
            world.add_nodes(5, **GPUS)
            for index in range(60):
                pod = make_pod(f"p{index}").priority(draw.randrange(3)).grace_period(1)
                resources = draw.choice([(), ("a",), ("b",), ("a", "b")])
                world.add_pod(pod.req(**{"cpu": "300m", **{f"example.com/{name}": "1" for name in resources}}))
                if draw.random() < 0.3:
                    await world.sleep(draw.random())
            world.cluster.delete_node("n0")
            world.add_node("n5", **{**GPUS, "cpu": "8"})
            await world.until(world.all_bound, within_s=600.0)
            assert (a.most_at_once, b.most_at_once) == (1, 1)

    scenario()
