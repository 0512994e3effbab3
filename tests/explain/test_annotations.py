"""Decisions as annotations: kube-scheduler-simulator's shapes, within bounds, and never a reason to try a pod again."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kscheduler.errors import NotFound, Unreachable
from kscheduler.explain.annotations import HISTORY, MAX_WAITING, PREFIX, AnnotationLane, annotations_of
from kscheduler.explain.options import DecisionLogOptions
from kscheduler.explain.record import Outcome, Refusal
from kscheduler.scheduler import Options
from kscheduler.simulator.faults import FaultKind, Verb
from kscheduler.testing import make_node, make_pod
from tests.explain.records import make_details, make_record
from tests.support.world import World, in_virtual_time


def plain(annotations: Mapping[str, str]) -> dict[str, object]:
    """Without prefix and history, and read as JSON."""
    values = {key.removeprefix(PREFIX): value for key, value in annotations.items() if key != HISTORY}
    return {key: value if key == "selected-node" else json.loads(value) for key, value in values.items()}


def test_a_decision_has_the_simulators_keys_and_shapes() -> None:
    found = annotations_of([make_record(details=make_details())], top_nodes=2)
    everywhere = {"NodeName": "passed", "NodeResourcesFit": "passed", "InterPodAffinity": "passed"}
    assert plain(found) == {
        "filter-result": {
            "n1": everywhere,
            "n0": everywhere,
            "n3": {"NodeName": "passed", "NodeResourcesFit": "Insufficient cpu"},
        },
        "score-result": {
            "n1": {"NodeResourcesFit": "70", "ImageLocality": "9"},
            "n0": {"NodeResourcesFit": "60", "ImageLocality": "0"},
        },
        "finalscore-result": {
            "n1": {"NodeResourcesFit": "70", "ImageLocality": "100"},
            "n0": {"NodeResourcesFit": "60", "ImageLocality": "0"},
        },
        "selected-node": "n1",
    }
    assert json.loads(found[HISTORY]) == [{key: value for key, value in found.items() if key != HISTORY}]


def test_a_rejection_names_prefilter_and_preemption() -> None:
    record = make_record()
    record.node, record.outcome = "", Outcome.REJECTED
    record.refusal = Refusal("…", ("VolumeBinding",), pre_filter="claim not found", nominated="n1")
    assert plain(annotations_of([record], top_nodes=2)) == {
        "prefilter-result-status": {"VolumeBinding": "claim not found"},
        "postfilter-result": {"n1": {"DefaultPreemption": "preemption victim"}},
    }


def test_the_history_begins_with_the_earliest_attempt() -> None:
    records = [make_record(attempt=attempt) for attempt in (3, 2, 1)]
    for record, node in zip(records, ("c", "b", "a"), strict=True):
        record.node = node
    found = annotations_of(records, top_nodes=2)
    assert [entry[PREFIX + "selected-node"] for entry in json.loads(found[HISTORY])] == ["a", "b", "c"]
    assert found[PREFIX + "selected-node"] == "c"


@given(st.integers(0, 4_000), st.integers(1, 5))
def test_they_never_take_more_than_they_may(max_bytes: int, attempts: int) -> None:
    records = [make_record(attempt=attempt, details=make_details()) for attempt in range(attempts)]
    found = annotations_of(records, 2, max_bytes)
    assert sum(len(key) + len(value) for key, value in found.items()) <= max_bytes
    plain(found)


class Recorder:
    def __init__(self) -> None:
        self.written: list[tuple[str, str, str, dict[str, str]]] = []
        self.fault: Exception | None = None

    async def annotate_pod(self, namespace: str, name: str, uid: str, annotations: Mapping[str, str]) -> None:
        if self.fault is not None:
            raise self.fault
        self.written.append((namespace, name, uid, dict(annotations)))


async def let_run(lane: AnnotationLane) -> None:
    task = asyncio.ensure_future(lane.run())
    for _ in range(10):
        await asyncio.sleep(0)
    assert not task.done()
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


async def test_only_the_newest_result_of_a_pod_is_written_and_an_equal_one_only_once() -> None:
    client = Recorder()
    lane = AnnotationLane(client)
    for value in ("1", "2"):
        lane.write("u", "default/p", {"a": value})
    await let_run(lane)
    lane.write("u", "default/p", {"a": "2", HISTORY: "longer"})
    await let_run(lane)
    assert client.written == [("default", "p", "u", {"a": "2"})]


@pytest.mark.parametrize("fault", [NotFound("gone", status=404), Unreachable("nobody")])
async def test_a_pod_that_cannot_be_annotated_stops_nobody(fault: Exception) -> None:
    client = Recorder()
    lane = AnnotationLane(client)
    client.fault = fault
    lane.write("u", "default/p", {"a": "1"})
    await let_run(lane)
    client.fault = None
    lane.write("v", "default/q", {"a": "1"})
    await let_run(lane)
    assert [name for _, name, _, _ in client.written] == ["q"]


async def test_of_very_many_the_oldest_are_dropped() -> None:
    client = Recorder()
    lane = AnnotationLane(client)
    for index in range(MAX_WAITING + 3):
        lane.write(f"u{index}", f"default/p{index}", {"a": "1"})
    await let_run(lane)
    assert [name for _, name, _, _ in client.written] == [f"p{index}" for index in range(3, MAX_WAITING + 3)]


@in_virtual_time
async def test_pods_are_annotated_and_a_waiting_one_is_not_woken_by_that() -> None:
    async with World(options=Options(explain=DecisionLogOptions(annotate=True))) as world:
        for name in ("n1", "n2"):
            world.add_node(make_node(name).capacity(cpu="2", memory="4Gi"))
        world.add_pod(make_pod("small").req(cpu="1"))
        world.add_pod(make_pod("large").req(cpu="3"))
        await world.sleep(60.0)
        small, large = world.cluster.pods["default/small"], world.cluster.pods["default/large"]
        decisions = world.scheduler.decisions
        assert decisions is not None
        attempts = decisions.ring.of(large.metadata.uid)[0].attempt
        assert (small.metadata.annotations or {})[PREFIX + "selected-node"] == small.spec.node_name
        rejected = json.loads((large.metadata.annotations or {})[PREFIX + "filter-result"])
        assert rejected["n1"]["NodeResourcesFit"] == "Insufficient cpu"
        assert attempts <= 2


@in_virtual_time
async def test_an_apiserver_that_refuses_annotations_holds_up_no_binding() -> None:
    async with World(options=Options(explain=DecisionLogOptions(annotate=True))) as world:
        world.faults.add(FaultKind.SERVER_ERROR, Verb.ANNOTATE_POD)
        world.add_node(make_node("n1").capacity(cpu="20", memory="40Gi"))
        for index in range(20):
            world.add_pod(make_pod(f"p{index}").req(cpu="1"))
        await world.until(world.all_bound)
