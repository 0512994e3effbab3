"""Objects that cannot be read or make no sense, among good ones: logged with their key, left out, in no one's way."""

from __future__ import annotations

import logging

import pytest
from msgspec.structs import replace

from kscheduler.api.objects import NodeSelectorTerm, SelectorRequirement
from kscheduler.client.protocol import Binding
from kscheduler.testing import make_node, make_pod
from tests.support.changes import resize
from tests.support.world import World, in_virtual_time

ABSURD = "1" + 30 * "0"


def recorded(caplog: pytest.LogCaptureFixture, sentence: str) -> list[tuple[str, str]]:
    """(object, error) of each record with this sentence."""
    found = []
    for record in caplog.records:
        if record.message == sentence:
            fields = record.__dict__
            found.append((str(fields.get("pod") or fields.get("node")), str(fields["err"])))
    return found


def test_a_pod_with_a_malformed_quantity_is_named_in_the_log_and_the_others_go_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    @in_virtual_time
    async def scenario() -> None:
        async with World() as world:
            world.add_node("n1")
            world.exempt = {"default/bad", "default/negative"}
            world.add_pod(make_pod("bad").req(cpu="a lot").priority(100))
            world.add_pod(make_pod("negative").req(memory="-1Gi").priority(100))
            world.add_pod(make_pod("good").req(cpu="1"))
            await world.until(lambda: world.node_of("good") == "n1", within_s=1)
            await world.sleep(400)
            assert not world.node_of("bad")
            assert world.metrics.informer_bad_objects_total.labels("pods").value == 2

    with caplog.at_level(logging.ERROR):
        scenario()
    assert recorded(caplog, "pod cannot be read and is left out") == [
        ("default/bad", 'spec.containers[0].resources.requests[cpu]: expected a quantity such as "100m" or "2Gi", '
         'got "a lot"'),
        ("default/negative", 'spec.containers[0].resources.requests[memory]: expected an amount of 0 or more, '
         'got "-1Gi"'),
    ]  # fmt: skip


@in_virtual_time
async def test_a_bad_pod_that_is_mended_is_placed() -> None:
    async with World() as world:
        world.add_node("n1")
        world.add_pod(make_pod("p").req(cpu="??"))
        await world.sleep(5)
        mended = make_pod("p").req(cpu="1").obj().spec
        world.change_pod("p", lambda pod: replace(pod, spec=mended))
        await world.until(world.all_bound, within_s=1)


@in_virtual_time
async def test_a_bad_selector_operator_is_named_in_the_condition_of_its_pod_and_the_others_go_on() -> None:
    async with World() as world:
        world.add_node("n1")
        world.add_pod(make_pod("bad").node_affinity("zone", "Near", ["a"]).priority(100))
        world.add_pod(make_pod("good"))
        await world.until(lambda: world.node_of("good") == "n1", within_s=1)
        await world.until(lambda: world.condition("bad") is not None)
        condition = world.condition("bad")
        assert condition is not None
        assert "Near" in condition.message
        assert "matchExpressions[0].operator" in condition.message


@in_virtual_time
async def test_a_bad_preferred_term_costs_its_pod_the_cycle_and_says_why() -> None:
    async with World() as world:
        world.add_nodes(2)
        world.add_pod(make_pod("bad").preferred_node_affinity(5, "zone", ["a"], operator="Near"))
        world.add_pod(make_pod("good"))
        await world.until(lambda: bool(world.node_of("good")), within_s=1)
        await world.until(lambda: world.condition("bad") is not None)
        condition = world.condition("bad")
        assert condition is not None
        assert "Near" in condition.message


def test_a_node_that_cannot_be_read_takes_no_pods_and_is_named_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    @in_virtual_time
    async def scenario() -> None:
        async with World() as world:
            world.add_node(make_node("negative").capacity(cpu="-4", memory="16Gi"))
            world.add_node(make_node("malformed").capacity(cpu="4", memory="lots"))
            world.add_node("good", cpu="1")
            world.add_pod(make_pod("p0").req(cpu="1"))
            world.add_pod(make_pod("p1").req(cpu="1"))
            await world.until(lambda: len(world.pending()) == 1 and not world.unexplained())
            (waiting,) = world.pending()
            condition = world.condition(waiting.metadata.name)
            assert condition is not None
            assert condition.message.startswith("0/1 nodes are available: 1 Insufficient cpu. ")
            await world.sleep(15)
            world.change_node("negative", resize(cpu="4"))
            await world.until(world.all_bound, within_s=2)

    with caplog.at_level(logging.ERROR):
        scenario()
    assert recorded(caplog, "node cannot be read and takes no pods") == [
        ("malformed", 'status.allocatable[memory]: expected a quantity such as "100m" or "2Gi", got "lots"'),
        ("negative", 'status.allocatable[cpu]: expected an amount of 0 or more, got "-4"'),
    ]


@in_virtual_time
async def test_a_node_that_becomes_unreadable_is_left_out_until_it_is_mended_with_its_pods_kept() -> None:
    async with World() as world:
        world.add_node("n1", cpu="2")
        world.add_pod(make_pod("p0").req(cpu="1500m"))
        await world.until(world.all_bound)
        world.change_node("n1", resize(cpu="-1"))
        world.add_pod(make_pod("p1").req(cpu="500m"))
        world.add_pod(make_pod("p2").req(cpu="500m"))
        await world.until(lambda: not world.unexplained())
        await world.sleep(15)
        world.change_node("n1", resize(cpu="2"))
        await world.until(lambda: len(world.pending()) == 1, within_s=12)


@in_virtual_time
async def test_absurd_quantities_fit_nowhere_and_everywhere_without_harm() -> None:
    async with World() as world:
        world.add_node("n1", cpu="4")
        world.add_node(make_node("vast").capacity(cpu=ABSURD, memory=ABSURD, pods=ABSURD).label(size="vast"))
        world.add_pod(make_pod("greedy").req(cpu=ABSURD, memory="1"))
        world.add_pod(make_pod("greedier").req(memory=ABSURD))
        for index in range(20):
            world.add_pod(make_pod(f"p{index}").req(cpu="1000", memory="1Ti").node_selector(size="vast"))
        await world.until(lambda: len(world.pending()) == 2)
        await world.until(lambda: world.condition("greedy") is not None)
        condition = world.condition("greedy")
        assert condition is not None
        assert condition.message.startswith("0/2 nodes are available: 2 Insufficient cpu. ")


@in_virtual_time
async def test_a_bound_pod_that_cannot_be_read_harms_nobody() -> None:
    async with World() as world:
        world.add_node("n1", cpu="2")
        pod = world.add_pod(make_pod("theirs").req(cpu="nonsense").scheduler_name("other"))
        world.cluster.bind(Binding("default", "theirs", pod.metadata.uid, "n1"))
        world.exempt = {"default/theirs"}
        world.add_pod(make_pod("ours").req(cpu="1"))
        await world.until(world.all_bound)
        world.cluster.delete_pod("default/theirs")


@in_virtual_time
async def test_selectors_without_terms_match_no_node() -> None:
    async with World() as world:
        world.add_node("n1")
        empty = NodeSelectorTerm(match_expressions=[SelectorRequirement("zone", "In", ["nowhere"])])
        pod = make_pod("p").node_affinity("zone", "In", ["a"]).obj()
        assert pod.spec.affinity is not None
        affinity = pod.spec.affinity.node_affinity
        assert affinity is not None
        required = affinity.required_during_scheduling_ignored_during_execution
        assert required is not None
        for terms in ([], [NodeSelectorTerm()], [empty]):
            selector = replace(required, node_selector_terms=terms)
            node_affinity = replace(affinity, required_during_scheduling_ignored_during_execution=selector)
            spec = replace(pod.spec, affinity=replace(pod.spec.affinity, node_affinity=node_affinity))
            name = f"p{len(terms)}-{len(world.cluster.pods)}"
            world.cluster.create_pod(replace(pod, spec=spec, metadata=replace(pod.metadata, name=name, uid="")))
        await world.until(lambda: not world.unexplained())
        assert len(world.pending()) == 3


@in_virtual_time
async def test_a_bound_pod_that_becomes_unreadable_keeps_its_room_and_its_end_wakes_the_pods_that_wait(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with World() as world:
        world.add_node("n1", cpu="2")
        world.add_pod(make_pod("bad").req(cpu="1500m"))
        await world.until(world.all_bound)
        spec = make_pod("bad").req(cpu="??").node("n1").obj().spec
        world.change_pod("bad", lambda pod: replace(pod, spec=spec))
        world.add_pod(make_pod("waiting").req(cpu="1"))
        await world.until(lambda: bool(world.pending()) and not world.unexplained())
        await world.sleep(400)  # longer than pods are left alone in the queue
        assert not world.node_of("waiting")
        world.cluster.delete_pod("default/bad")
        await world.until(lambda: world.node_of("waiting") == "n1", within_s=2)
    assert {record.message for record in caplog.records if record.levelno >= logging.ERROR} == {
        "change of a bound pod cannot be read: it counts as before"
    }
