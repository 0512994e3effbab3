"""Which instance serves which attempt, and what becomes of it."""

from __future__ import annotations

import gc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.status import Code, unschedulable
from kscheduler.testing.wrappers import make_pod
from kscheduler.wasm.extension.cycles import MAX_OPEN_UNBOUND
from kscheduler.wasm.loading.fetch import LoadError
from tests.wasm.extension.attempts import STEPS, Attempt
from tests.wasm.extension.keeper import FOLLOWER, KEEPER
from tests.wasm.extension.kit import Room, compiled, info, module, run

OK = "(i32.const 0)"


def test_a_pod_keeps_its_instance_from_prefilter_to_postbind() -> None:
    room = Room(KEEPER)
    for name in ("a", "b", "a"):
        attempt = Attempt(room, info(make_pod(name)))
        for step in STEPS:
            step(attempt)
        assert (room.pool.holders, room.pool.instances) == (0, 1)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 5), st.booleans()), max_size=60))
def test_attempts_that_overlap_do_not_meet(steps: list[tuple[int, bool]]) -> None:
    """Each pod goes one step on, or gives up, in any order: the guest traps if it meets what is another's."""
    room = _room_of("keeper", KEEPER)
    attempts: dict[int, tuple[Attempt, int]] = {}  # pod -> its attempt, steps made
    for number, gives_up in steps:
        attempt, made = attempts.pop(number, (Attempt(room, info(make_pod(f"p{number}"))), 0))
        if gives_up and made:
            attempt.unreserve()
            continue
        STEPS[made](attempt)
        if made + 1 < len(STEPS):
            attempts[number] = (attempt, made + 1)
    assert room.pool.holders == len(attempts)
    for attempt, _ in attempts.values():
        attempt.unreserve()
    assert room.pool.holders == 0


_rooms: dict[str, Room] = {}


def _room_of(name: str, data: bytes) -> Room:
    """Compiled once for all examples; that the instances are used ones is the point."""
    if name not in _rooms:
        _rooms[name] = Room(data)
    return _rooms[name]


def test_an_attempt_that_ends_without_a_word_gives_its_instance_back() -> None:
    room = Room(KEEPER)
    for number in range(50):
        Attempt(room, info(make_pod(f"p{number}"))).decide()
    gc.collect()
    assert room.pool.instances <= 2


def test_an_attempt_that_nobody_ends_gives_way_to_younger_ones() -> None:
    """Its guest has no part in binding, so that all it kept can be had again."""
    guest = module("node_name", prefilter="(global.set $begun (i32.const 1)) (i32.const 0)",
        globals_="(global $begun (mut i32) (i32.const 0))",
        filter="(if (i32.eqz (global.get $begun)) (then unreachable)) (i32.const 0)")  # fmt: skip
    room = Room(guest)
    states = [CycleState() for _ in range(20)]
    for number, state in enumerate(states):
        assert room.plugin.pre_filter(state, info(make_pod(f"p{number}"))) == (None, None)
    assert room.pool.holders == MAX_OPEN_UNBOUND
    for number, state in enumerate(states):
        assert room.plugin.filter(state, info(make_pod(f"p{number}")), room.node()) is None
    assert room.pool.holders == MAX_OPEN_UNBOUND


@pytest.mark.parametrize("exports", [{"permit": "(i64.const 0)"}, {"bind": OK, "reserve": OK}])
def test_guests_without_an_end_of_binding_do_not_pile_up(exports: dict[str, str]) -> None:
    room = Room(module(**exports))
    for number in range(300):
        state, pod = CycleState(), info(make_pod(f"p{number}"))
        if "permit" in exports:
            room.plugin.permit(state, pod, "n1")
        else:
            room.plugin.reserve(state, pod, "n1")
            run(room.plugin.bind(state, pod, "n1"))
    gc.collect()
    assert room.pool.instances <= 2


def test_an_attempt_begins_with_prefilter_even_where_the_profile_has_the_plugin_at_filter_alone() -> None:
    room = Room(KEEPER)
    for name in ("a", "b", "a"):
        state = CycleState()
        assert room.filter(pod=make_pod(name), state=state) is None
        assert room.filter("n2", pod=make_pod(name), state=state) is None


def test_an_unreserve_runs_on_the_pods_own_instance() -> None:
    room = Room(KEEPER)
    first, second = Attempt(room, info(make_pod("a"))), Attempt(room, info(make_pod("b")))
    for step in STEPS[:3]:
        step(first)
    second.decide()
    first.unreserve()
    second.reserve()
    assert room.pool.holders == 1


# --- what-ifs -------------------------------------------------------------------------------------------------------


def test_what_a_guest_learns_in_a_what_if_stays_there() -> None:
    room, pod, state = Room(FOLLOWER), info(), CycleState()
    plugin, node = room.plugin, room.node()
    plugin.pre_filter(state, pod)
    one, other = state.clone(), state.clone()
    plugin.add_pod(one, pod, info(make_pod("guest")), node)
    plugin.remove_pod(other, pod, info(make_pod("victim")), node)
    assert plugin.filter(one, pod, node) == unschedulable()
    plugin.remove_pod(one, pod, info(make_pod("guest")), node)
    assert plugin.filter(one, pod, node) is None
    assert plugin.filter(other, pod, node) == unschedulable()
    assert plugin.filter(state, pod, node) is None


def test_a_what_if_of_a_guest_that_follows_no_pods_runs_on_the_attempts_instance() -> None:
    room, pod, state = Room(module(prefilter=OK, filter=OK)), info(), CycleState()
    room.plugin.pre_filter(state, pod)
    assert room.filter(pod=pod.pod, state=state.clone()) is None
    assert room.pool.instances == 1


# --- after a fault --------------------------------------------------------------------------------------------------

# Traps at the second node; a global says whether the instance was used before.
_SPOILT = {
    "globals_": "(global $spoilt (mut i32) (i32.const 0)) (global $begun (mut i32) (i32.const 0))",
    "prefilter": "(if (global.get $spoilt) (then unreachable)) (global.set $begun (i32.const 1)) (i32.const 0)",
    "filter": """
      (if (i32.eqz (global.get $begun)) (then unreachable))
      (global.set $spoilt (i32.const 1))
      (drop (call $node_name (i32.const 4096) (i32.const 9)))
      (if (i32.eq (i32.load8_u (i32.const 4097)) (i32.const 50)) (then unreachable))
      (global.set $spoilt (i32.const 0))
      (i32.const 0)""",
}


def test_after_a_trap_the_attempt_goes_on_with_a_new_instance() -> None:
    room, state = Room(module("node_name", **_SPOILT)), CycleState()
    pod = info()
    room.plugin.pre_filter(state, pod)
    assert room.plugin.filter(state, pod, room.node("n1")) is None
    assert room.plugin.filter(state, pod, room.node("n2")).code is Code.ERROR
    assert room.plugin.filter(state, pod, room.node("n3")) is None
    assert room.pool.instances == 1


def test_a_thousand_traps_leave_a_guest_that_works() -> None:
    room = Room(module("node_name", **_SPOILT))
    for number in range(1000):
        status = room.filter("n2")
        assert status is not None
        room.clock.advance(1000.0)  # past any quarantine
        if number % 100 == 0:
            assert room.filter("n1") is None
    assert room.pool.instances <= 1


# --- new versions ---------------------------------------------------------------------------------------------------


def test_an_attempt_ends_on_the_version_it_began_with() -> None:
    room = Room(module(filter="(i32.const 2)", reserve="(i32.const 2)"))
    pod, begun = info(), CycleState()
    assert room.plugin.reserve(begun, pod, "n1") == unschedulable()
    (follower,) = room.guest.followers
    version = compiled(module(filter="(i32.const 3)", reserve="(i32.const 3)"))
    follower.try_out(version)
    follower.replace(version)
    assert room.plugin.reserve(begun, pod, "n1") == unschedulable()
    assert room.plugin.reserve(CycleState(), pod, "n1").code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE


def test_a_version_that_cannot_start_is_refused() -> None:
    room = Room(module(filter=OK))
    (follower,) = room.guest.followers
    with pytest.raises(LoadError, match="failed to create a guest pool"):
        follower.try_out(compiled(module(filter=OK, _start="unreachable")))
    assert room.filter() is None
