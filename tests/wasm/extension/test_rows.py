"""Many nodes, asked about by one instance or by several: the same answers, in the same order."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from kscheduler._fast import Verdicts
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.faults import CycleFault
from kscheduler.testing.wrappers import make_node
from kscheduler.wasm.extension.rows import Sharing
from kscheduler.wasm.pool import Unavailable
from tests.wasm.extension.kit import Room, info, module, score_all

OK = "(i32.const 0)"
NODES = [f"n{number}" for number in range(60)]

# The instance has to be begun, and to know which nodes passed, before it is called. n13 and n44 are out, with a reason
# that an Event repeats.
ASKED = {
    "globals_": "(global $stage (mut i32) (i32.const 0))",
    "prefilter": "(global.set $stage (i32.const 1)) (i32.const 0)",
    "prescore": "(if (i32.ne (global.get $stage) (i32.const 1)) (then unreachable)) (global.set $stage (i32.const 2)) (i32.const 0)",  # noqa: E501
    "filter": """
      (local $n i32)
      (if (i32.lt_u (global.get $stage) (i32.const 1)) (then unreachable))
      (local.set $n (call $node_name (i32.const 4096) (i32.const 100)))
      (if (result i32) (i32.or (i32.eq (i32.load16_u (i32.const 4097)) (i32.const 0x3331))
                               (i32.eq (i32.load16_u (i32.const 4097)) (i32.const 0x3434)))
        (then (call $reason (i32.const 4096) (local.get $n)) (i32.const 2))
        (else (i32.const 0)))""",
    "score": """
      (if (i32.ne (global.get $stage) (i32.const 2)) (then unreachable))
      (drop (call $node_name (i32.const 4096) (i32.const 100)))
      (i64.shl (i64.extend_i32_u (i32.load8_u (i32.const 4097))) (i64.const 32))""",
}


def room_of(data: bytes, *, threads: int, **arguments: Any) -> Room:
    room = Room(data, [make_node(name) for name in NODES], **arguments)
    room.plugin._sharing = Sharing(threads)
    for export in ("filter", "score"):
        room.plugin._sharing.note(export, 1, 1.0)  # seconds: so that sharing is worth it
    return room


def filtered(room: Room) -> dict[str, str]:
    """Node -> why it is out."""
    verdicts, state, table = Verdicts(), CycleState(), room.cache.table
    verdicts.reset(table.columns)
    if hasattr(room.plugin, "pre_filter"):
        room.plugin.pre_filter(state, info())
    room.plugin.filter_table(state, info(), table, verdicts, 1)
    fits = set(verdicts.feasible_rows())
    return {
        each.name: room.plugin.explain(state, info(), verdicts.detail(each.row)).message
        for each in table
        if each.row not in fits
    }


@pytest.mark.parametrize("arguments", [{"parallel": True}, {"pure": True}, {}])
@pytest.mark.parametrize("threads", [0, 1, 3, 100])
def test_several_instances_answer_as_one(threads: int, arguments: dict[str, bool]) -> None:
    room = room_of(module("node_name", "reason", **ASKED), threads=threads, **arguments)
    assert filtered(room) == {"n13": "n13", "n44": "n44"}
    state = CycleState()
    room.plugin.pre_score(state, info())
    assert score_all(room, state, info()) == {name: ord(name[1]) for name in NODES}
    is_shared = bool(arguments) and threads > 0
    assert (room.plugin._sharing._executor is not None) == is_shared
    room.plugin._sharing.close()


def test_what_is_soon_done_is_not_shared() -> None:
    room = room_of(module("node_name", "reason", **ASKED), threads=3, parallel=True)
    for _ in range(60):
        room.plugin._sharing.note("filter", 1000, 0.0)
    assert filtered(room) == {"n13": "n13", "n44": "n44"}
    assert room.plugin._sharing._executor is None


def test_a_fault_of_one_part_is_the_pods() -> None:
    trap = "(if (i32.eq (i32.load16_u (i32.const 4097)) (i32.const 0x3434)) (then unreachable)) (i32.const 0)"
    asks = "(drop (call $node_name (i32.const 4096) (i32.const 100)))"
    room = room_of(module("node_name", filter=asks + trap), threads=3, parallel=True)
    with pytest.raises(CycleFault, match="wasm: filter error"):
        filtered(room)
    ignored = room_of(module("node_name", filter=asks + trap), threads=3, parallel=True, failurePolicy="ignore")
    assert filtered(ignored) == {}
    for each in (room, ignored):
        each.plugin._sharing.close()


def test_the_first_error_by_row_ends_the_cycle() -> None:
    by_name = "(call $reason (i32.const 4096) (call $node_name (i32.const 4096) (i32.const 100))) (i32.const 1)"
    room = room_of(module("node_name", "reason", filter=by_name), threads=3, parallel=True)
    with pytest.raises(CycleFault) as raised:
        filtered(room)
    assert raised.value.status.reasons == ('running "guest" filter plugin: n0',)
    room.plugin._sharing.close()


def test_without_more_instances_the_first_one_does_it_all(monkeypatch: pytest.MonkeyPatch) -> None:
    room = room_of(module("node_name", "reason", **ASKED), threads=3, parallel=True)
    take, me = room.pool._take, threading.get_ident()

    def refuse(uid: str | None) -> Any:
        if uid is None and threading.get_ident() != me:
            raise Unavailable("all taken")
        return take(uid)

    monkeypatch.setattr(room.pool, "_take", refuse)
    assert filtered(room) == {"n13": "n13", "n44": "n44"}
    assert room.pool.instances == 1
    room.plugin._sharing.close()


def test_what_guests_set_going_happens_once_in_order_and_on_the_callers_thread() -> None:
    head = '{"RegardingReference": {"Kind": "Node"}, "Reason": "'
    records = f"""
      (local $n i32)
      (local.set $n (call $node_name (i32.const {16 + len(head)}) (i32.const 100)))
      (i32.store16 (i32.add (i32.const {16 + len(head)}) (local.get $n)) (i32.const 0x7d22))
      (call $eventf (i32.const 16) (i32.add (local.get $n) (i32.const {len(head) + 2})))
      (i32.const 0)"""
    room = room_of(module("node_name", "eventf", text=head, filter=records), threads=3, parallel=True)
    on: set[int] = set()
    record = room.recorder.record

    def noting(*args: Any, **fields: Any) -> None:
        on.add(threading.get_ident())
        record(*args, **fields)

    room.recorder.record = noting  # type: ignore[method-assign]
    filtered(room)
    reported = [event[2] for event in room.recorder.events]
    assert set(reported) <= set(NODES)
    assert reported == sorted(reported, key=NODES.index)
    assert on == {threading.get_ident()}
    room.plugin._sharing.close()
