"""Random clusters with gangs, random hands on them and random faults: no gang stays half placed.

Pods of several gangs and of none come in any order, and so do the objects of the gangs; pods are deleted, nodes come,
bindings are refused or their answers lost, the scheduler is killed and started again. A gang may be half placed only
after something happened to one of its bindings or pods, and only until faults end and there is room; one that is so for
longer than its timeout is reported as stale.
"""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kscheduler.simulator.faults import FaultKind, Verb
from tests.scenarios.composite_world import play_composites
from tests.scenarios.gang_world import REPORTED_S, TIMEOUT_S, Rooms, is_binding_of, play
from tests.scenarios.gangs import BY_LABEL, gang, members, notes
from tests.support.seeds import sampled
from tests.support.world import World, in_virtual_time

EXAMPLES = int(os.environ.get("KSCHEDULER_EXAMPLES") or sampled(120))


@pytest.mark.slow
@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(seed=st.integers(0, (1 << 32) - 1), rooms=st.sampled_from(Rooms))
def test_without_faults_no_gang_is_ever_half_placed(seed: int, rooms: Rooms) -> None:
    play(seed, is_troubled=False, rooms=rooms)


@pytest.mark.slow
@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(seed=st.integers(0, (1 << 32) - 1), rooms=st.sampled_from(Rooms))
def test_whatever_fails_every_gang_is_whole_in_the_end(seed: int, rooms: Rooms) -> None:
    play(seed, is_troubled=True, rooms=rooms)


@pytest.mark.slow
@settings(max_examples=EXAMPLES // 2, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(seed=st.integers(0, (1 << 32) - 1), is_troubled=st.booleans())
def test_no_group_of_groups_is_ever_half_placed_without_faults_and_each_is_whole_in_the_end(
    seed: int, is_troubled: bool
) -> None:
    play_composites(seed, is_troubled=is_troubled)


@in_virtual_time
async def test_a_gang_that_lacks_a_pod_whose_bindings_are_all_refused_is_stale_although_it_is_tried_again() -> None:
    async with World(config=BY_LABEL, expect_conditions=False) as world:
        world.faults.add(FaultKind.FORBIDDEN, Verb.BIND, matches=is_binding_of("g-1"))
        world.add_nodes(2)
        world.cluster.create_object(gang("g", 2, schedule_timeout_seconds=int(TIMEOUT_S)))
        for pod in members("g", 2):
            world.add_pod(pod)
        await world.sleep(TIMEOUT_S - 1)
        assert world.node_of("g-0")
        assert not world.node_of("g-1")
        assert not [event for event in world.cluster.events if event.reason == "Stale"]
        await world.sleep(REPORTED_S)
        (event,) = (event for event in world.cluster.events if event.reason == "Stale")
        assert event.note.startswith("only 1 pod of gang default/g has a node, of at least 2, 1 more wait")
        world.faults.clear()
        await world.until(world.all_bound)
        parts = world.scheduler.gangs
        assert parts is not None
        assert not parts.mending.stale


@in_virtual_time
async def test_a_gang_is_stale_although_the_outcome_of_its_last_binding_stays_in_doubt() -> None:
    async with World(config=BY_LABEL, expect_conditions=False) as world:
        world.faults.add(FaultKind.SERVER_ERROR, Verb.BIND, count=1, matches=is_binding_of("g-1"))
        world.faults.add(FaultKind.FORBIDDEN, Verb.BIND, matches=is_binding_of("g-1"))
        world.add_nodes(2)
        world.cluster.create_object(gang("g", 2, schedule_timeout_seconds=int(TIMEOUT_S)))
        for pod in members("g", 2):
            world.add_pod(pod)
        await world.sleep(REPORTED_S)
        assert len(world.scheduler.bindings) == 1
        (note,) = notes(world, "Stale")
        assert note.startswith("only 1 pod of gang default/g has a node, of at least 2, 1 more wait, for ")
        world.faults.clear()
        await world.until(world.all_bound)
