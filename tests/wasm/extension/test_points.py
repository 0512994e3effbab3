"""Each export, as the extension point that it is."""

from __future__ import annotations

import json
import struct

import pytest

from kscheduler._fast import Scores, Verdicts
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.events import Action, ClusterEvent, EventResource
from kscheduler.framework.faults import CycleFault
from kscheduler.framework.fence import Fence
from kscheduler.framework.interface import EXTENSION_POINTS, PostFilterResult, PreFilterResult
from kscheduler.framework.runtime import Framework
from kscheduler.framework.search_outcomes import Rejection
from kscheduler.framework.status import SKIP, Code, Status, unschedulable
from kscheduler.observability.measurements import Measurements
from kscheduler.testing.wrappers import make_node, make_pod
from kscheduler.wasm.extension.cluster_events import DEFAULT_EVENTS
from kscheduler.wasm.extension.plugin import plugin_class
from tests.wasm.extension.kit import (
    OK,
    OK64,
    STATUS_POINTS,
    Guest,
    Room,
    guest_with,
    info,
    module,
    pair,
    reason,
    run,
    score_all,
)

_MAY_SKIP = ("prefilter", "prescore", "bind")
_LARGEST, _SMALLEST = 2**31 - 1, -(2**31)


def status_value(export: str, code: int) -> str:
    if export in ("postfilter", "score"):
        return f"(i64.const {pair(0, code)})"
    if export == "permit":
        return f"(i64.const {pair(code, 0)})"
    return f"(i32.const {code})"


@pytest.mark.parametrize("export", STATUS_POINTS)
@pytest.mark.parametrize("code", [*Code, 7, _LARGEST, _SMALLEST])
def test_a_status_code_comes_out_as_it_went_in_where_kube_scheduler_takes_it(export: str, code: int) -> None:
    room = Room(guest_with(export, reason("why") + status_value(export, code), text="why"))
    status = STATUS_POINTS[export](room)
    if code == Code.SUCCESS:
        assert status is None
    elif code not in list(Code):
        assert status == Status(Code.ERROR, (f"unknown status code {code}: why",))
    elif (code == Code.SKIP and export not in _MAY_SKIP) or (code == Code.WAIT and export != "permit"):
        assert status == Status(Code.ERROR, ("why",))
    else:
        assert status == Status(Code(code), ("why",))


@pytest.mark.parametrize(("why", "shown"), [("not mine", "not mine"), ("", "filter returned Skip, without a reason")])
def test_a_filter_that_skips_is_an_error_that_names_the_plugin_and_its_reason(why: str, shown: str) -> None:
    room = Room(module("reason", text=why, filter=f"{reason(why)} (i32.const 5)"))
    plugins = {"filter": [(Fence(room.plugin, room.handle), 1)]}
    framework = Framework("p", plugins, room.handle, observer=Measurements(), stopwatch=lambda: 0.0)
    found = framework.schedule_pod(CycleState(), info())
    assert isinstance(found, Rejection)
    assert found.status.code is Code.ERROR
    assert found.message == f'running "guest" filter plugin: {shown}'
    assert room.filter() == Status(Code.ERROR, (shown,))


# --- which points a guest has ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("exports", "points"),
    [
        (("filter",), {"filter"}),
        (("prefilter",), {"preFilter"}),
        (("prefilter", "filter", "postfilter", "addpod"), {"preFilter", "filter", "postFilter"}),
        (("score", "prescore", "normalizescore"), {"score", "preScore"}),
        (("unreserve",), {"reserve"}),
        (("reserve", "permit"), {"reserve", "permit"}),
        (("filter", "reserve", "permit"), {"filter", "reserve", "permit"}),
        (("filter", "reserve", "bind"), {"filter", "reserve", "bind"}),
        (("filter", "permit", "bind"), {"filter", "permit", "bind"}),
        (("score", "reserve", "permit"), {"score", "reserve", "permit"}),
        (("filter", "score", "reserve", "permit"), {"filter", "score", "reserve", "permit"}),
        (("filter", "reserve", "permit", "bind"), {"filter", "reserve", "permit", "bind"}),
        (("score", "reserve", "permit", "bind"), {"score", "reserve", "permit", "bind"}),
        (("bind", "prebind", "postbind", "enqueue"), {"bind", "preBind", "postBind"}),
    ],
)
def test_a_plugin_has_the_points_its_guest_exports(exports: tuple[str, ...], points: set[str]) -> None:
    bodies = {"enqueue": "", "unreserve": "", "postbind": "", **dict.fromkeys(("score", "permit", "postfilter"), OK64)}
    kind = plugin_class(Guest(module(**{name: bodies.get(name, OK) for name in exports})))
    assert {point for point, method in EXTENSION_POINTS.items() if hasattr(kind, method)} == points
    assert kind.name == "guest"


# --- enqueue --------------------------------------------------------------------------------------------------------


def test_a_guest_registers_for_events() -> None:
    data = "".join(chr(byte) for byte in struct.pack("<4I", 1, 1, 0, 2))
    room = Room(module("events", text=data, enqueue="(call $events (i32.const 16) (i32.const 17))", filter=OK))
    assert room.plugin.events_to_register() == (
        ClusterEvent(EventResource.NODE, Action.ADD),
        ClusterEvent(EventResource.POD, Action.DELETE),
    )


def test_a_guest_that_names_no_events_is_woken_by_the_usual_ones() -> None:
    assert Room(module(filter=OK)).plugin.events_to_register() == DEFAULT_EVENTS
    assert Room(module(filter=OK, enqueue="")).plugin.events_to_register() == DEFAULT_EVENTS


# --- PreFilter and what follows pods --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("recorded", "result"),
    [
        ("n1\0n2\0", PreFilterResult(frozenset({"n1", "n2"}))),
        ("n1\0\0n2", PreFilterResult(frozenset({"n1"}))),
        ("n1", None),
        ("\0", None),
    ],
)
def test_names_of_nodes_are_ended_by_nul_and_cannot_be_none_at_all(
    recorded: str, result: PreFilterResult | None
) -> None:
    body = f"(call $names (i32.const 16) (i32.const {len(recorded)})) {OK}"
    room = Room(module("names", text=recorded, prefilter=body))
    assert room.plugin.pre_filter(CycleState(), info()) == (result, None)


@pytest.mark.parametrize("export", ["addpod", "removepod"])
def test_who_comes_or_goes_is_the_target_pod(export: str) -> None:
    body = """
      (i32.sub (call $target (i32.const 4096) (i32.const 0)) (call $pod (i32.const 4096) (i32.const 0)))"""
    room = Room(module("target", "pod", prefilter=OK, **{export: body}))
    method = room.plugin.add_pod if export == "addpod" else room.plugin.remove_pod
    # In each of uid, name and its length nothing else differs: two more letters, in two fields.
    assert method(CycleState(), info(make_pod("p")), info(make_pod("pp")), room.node()) == unschedulable()
    assert method(CycleState(), info(make_pod("p")), info(make_pod("p")), room.node()) is None


# --- Filter ---------------------------------------------------------------------------------------------------------

# Rejects nodes whose name ends with an even digit.
_ODD_ONLY = """
  (drop (call $node_name (i32.const 4096) (i32.const 100)))
  (if (result i32) (i32.and (i32.load8_u (i32.const 4097)) (i32.const 1))
    (then (i32.const 0))
    (else (call $reason (i32.const 4096) (i32.const 2)) (i32.const 2)))"""


def test_all_nodes_are_filtered_as_each_of_them() -> None:
    room, state, pod = Room(module("node_name", "reason", filter=_ODD_ONLY)), CycleState(), info()
    verdicts = Verdicts()
    verdicts.reset(room.cache.table.columns)
    room.plugin.filter_table(state, pod, room.cache.table, verdicts, 1)
    assert [room.cache.table.at(row).name for row in verdicts.feasible_rows()] == ["n1", "n3"]
    row = room.node("n2").row
    assert verdicts.code(row) == 1
    assert room.plugin.explain(state, pod, verdicts.detail(row)) == unschedulable("n2")
    assert [room.filter(name) for name in ("n1", "n2", "n3")] == [None, unschedulable("n2"), None]


def test_a_filter_that_answers_with_an_error_ends_the_cycle() -> None:
    room = Room(module("reason", text="bad", filter=reason("bad") + "(i32.const 1)"))
    verdicts = Verdicts()
    verdicts.reset(room.cache.table.columns)
    with pytest.raises(CycleFault) as raised:
        room.plugin.filter_table(CycleState(), info(), room.cache.table, verdicts, 1)
    assert raised.value.status == Status(Code.ERROR, ('running "guest" filter plugin: bad',), "guest")
    assert room.pool.instances == 1  # the guest did nothing wrong


# --- PostFilter -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mode", "code", "answer"),
    [
        (0, 0, (None, None)),
        (1, 0, (PostFilterResult("n2"), None)),
        (1, 2, (PostFilterResult("n2"), unschedulable())),
        (0, 2, (None, unschedulable())),
    ],
)
def test_a_guest_may_nominate_a_node(mode: int, code: int, answer: object) -> None:
    body = f"(call $nominate (i32.const 16) (i32.const 2)) (i64.const {pair(mode, code)})"
    room = Room(module("nominate", text="n2", filter=OK, postfilter=body))
    assert room.plugin.post_filter(CycleState(), info(), {}) == answer


def test_a_guest_may_take_a_nomination_back() -> None:
    room = Room(module(filter=OK, postfilter=f"(i64.const {pair(1, 0)})"))
    assert room.plugin.post_filter(CycleState(), info(), {}) == (PostFilterResult(""), None)


def test_an_unknown_way_to_nominate_is_a_fault() -> None:
    room = Room(module(filter=OK, postfilter=f"(i64.const {pair(2, 0)})"))
    result, status = room.plugin.post_filter(CycleState(), info(), {})
    assert (result, status.message) == (None, "wasm: postfilter error: expected nominating mode 0 or 1, got 2")


def test_a_guest_reads_why_each_node_was_rejected() -> None:
    body = """
      (call $reason (i32.const 4096) (call $statuses (i32.const 4096) (i32.const 60000))) (i64.const 2)"""
    room = Room(module("statuses", "reason", filter=OK, postfilter=body))
    statuses = {"n2": unschedulable("x"), "n1": Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE)}
    _, status = room.plugin.post_filter(CycleState(), info(), statuses)
    assert status.message == '{"n1":3,"n2":2}'


# --- Score ----------------------------------------------------------------------------------------------------------

# The digit at the end of the node's name, tenfold.
_BY_DIGIT = """
  (drop (call $node_name (i32.const 4096) (i32.const 100)))
  (i64.shl (i64.extend_i32_u (i32.mul (i32.const 10)
    (i32.sub (i32.load8_u (i32.const 4097)) (i32.const 48)))) (i64.const 32))"""


def test_all_nodes_are_scored_as_each_of_them() -> None:
    room, pod = Room(module("node_name", score=_BY_DIGIT)), info()
    expected = {"n1": 10, "n2": 20, "n3": 30}
    assert score_all(room, CycleState(), pod) == expected
    assert {name: room.plugin.score(CycleState(), pod, room.node(name))[0] for name in expected} == expected


@pytest.mark.parametrize("score", [_LARGEST, _SMALLEST, -1])
def test_a_score_has_a_sign(score: int) -> None:
    room = Room(module(score=f"(i64.const {pair(score, 0)})"))
    assert room.plugin.score(CycleState(), info(), room.node()) == (score, None)
    assert set(score_all(room, CycleState(), info()).values()) == {score}


def test_a_score_with_an_error_ends_the_cycle() -> None:
    room = Room(module("reason", text="bad", score=reason("bad") + f"(i64.const {pair(5, 1)})"))
    with pytest.raises(CycleFault, match=r'^running Score plugins: plugin "guest" failed with: bad$'):
        score_all(room, CycleState(), info())


def normalizing(text: str, code: int = 0) -> bytes:
    body = f"(call $normalized (i32.const 16) (i32.const {len(text)})) (i32.const {code})"
    return module("node_name", "normalized", text=text, score=_BY_DIGIT, normalizescore=body)


def test_normalised_scores_go_by_name_whatever_their_order() -> None:
    room = Room(normalizing(json.dumps({"n3": 3, "n1": 1, "n2": 2})))
    assert score_all(room, CycleState(), info()) == {"n1": 1, "n2": 2, "n3": 3}


def test_a_node_that_the_guest_leaves_out_keeps_its_score() -> None:
    room = Room(normalizing('{"n2": 99}'))
    assert score_all(room, CycleState(), info()) == {"n1": 10, "n2": 99, "n3": 30}


def test_null_leaves_all_scores_as_they_are() -> None:
    assert score_all(Room(normalizing("null")), CycleState(), info()) == {"n1": 10, "n2": 20, "n3": 30}


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ('{"n1": 1, "stranger": 2}', "expected scores of the 3 nodes given, got 'stranger'"),
        ('{"n1": "high"}', "expected scores by node name as JSON"),
        ("[1, 2]", "expected scores by node name as JSON"),
        ("{", "expected scores by node name as JSON"),
        ('{"n1": 1e999}', "expected scores by node name as JSON"),
        ('{"n1": NaN}', "expected scores by node name as JSON"),
        ('{"n1": 9223372036854775807}', "expected scores from -"),
    ],
)
def test_scores_that_make_no_sense_are_a_fault_of_the_guest(text: str, complaint: str) -> None:
    with pytest.raises(CycleFault) as raised:
        score_all(Room(normalizing(text)), CycleState(), info())
    prefix = 'running Normalize on Score plugins: plugin "guest" failed with: wasm: normalizescore error: '
    assert str(raised.value).startswith(prefix)
    assert complaint in str(raised.value)


def test_a_guest_reads_the_scores_it_is_to_normalise() -> None:
    body = """
      (call $reason (i32.const 4096) (call $scores (i32.const 4096) (i32.const 60000))) (i32.const 1)"""
    room = Room(module("node_name", "scores", "reason", score=_BY_DIGIT, normalizescore=body))
    with pytest.raises(CycleFault) as raised:
        score_all(room, CycleState(), info())
    assert '{"n1":10,"n2":20,"n3":30}' in str(raised.value)


# --- PreScore -------------------------------------------------------------------------------------------------------


def test_a_guest_reads_at_prescore_which_nodes_passed() -> None:
    body = """
      (call $reason (i32.const 4096) (call $filtered (i32.const 4096) (i32.const 60000))) (i32.const 1)"""
    room, state, pod = Room(module("filtered", "reason", score=OK64, prescore=body)), CycleState(), info()
    table, verdicts, scores = room.cache.table, Verdicts(), Scores()
    verdicts.reset(table.columns)
    scores.reset(table.columns)
    verdicts.reject(room.node("n2").row, 1)
    assert room.plugin.pre_score(state, pod) is None
    with pytest.raises(CycleFault) as raised:
        room.plugin.score_table(state, pod, table, verdicts, scores)
    assert raised.value.status.message == 'running PreScore plugin "guest": ["n1","n3"]'


def test_a_guest_that_skips_at_prescore_is_not_asked_for_scores() -> None:
    room, state, pod = Room(module(prescore="(i32.const 5)", score="unreachable")), CycleState(), info()
    room.plugin.pre_score(state, pod)
    assert score_all(room, state, pod) == dict.fromkeys(("n1", "n2", "n3"), 0)


def test_a_guest_is_not_asked_at_prescore_if_the_profile_does_not_have_it_there() -> None:
    room = Room(module(prescore="unreachable", score=f"(i64.const {pair(7, 0)})"))
    assert score_all(room, CycleState(), info()) == dict.fromkeys(("n1", "n2", "n3"), 7)


# --- after the decision ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("milliseconds", "seconds"), [(0, 0.0), (1500, 1.5), (2**32 - 1, 4_294_967.295)])
def test_a_guest_says_for_how_many_milliseconds_to_wait(milliseconds: int, seconds: float) -> None:
    room = Room(module(permit=f"(i64.const {pair(Code.WAIT, milliseconds)})"))
    assert room.plugin.permit(CycleState(), info(), "n1") == (Status(Code.WAIT), seconds)


def test_a_guest_may_leave_the_binding_to_the_next_plugin() -> None:
    room = Room(module(bind="(i32.const 5)"))
    assert run(room.plugin.bind(CycleState(), info(), "n1")) == SKIP


@pytest.mark.parametrize("export", ["reserve", "prebind", "bind"])
def test_the_chosen_node_is_the_current_one(export: str) -> None:
    body = "(call $reason (i32.const 4096) (call $node_name (i32.const 4096) (i32.const 99))) (i32.const 2)"
    exports = {"reserve": OK, export: body}
    room = Room(module("node_name", "reason", **exports), [make_node("n1"), make_node("far-away")])
    ask = {"reserve": room.plugin.reserve} if export == "reserve" else {}
    if export == "reserve":
        assert ask["reserve"](CycleState(), info(), "far-away") == unschedulable("far-away")
    else:
        method = room.plugin.pre_bind if export == "prebind" else room.plugin.bind
        assert run(method(CycleState(), info(), "far-away")) == unschedulable("far-away")


def test_only_what_is_exported_is_called() -> None:
    """Reserve is there for the sake of Unreserve, and the other way round."""
    room = Room(module(unreserve=""))
    assert room.plugin.reserve(CycleState(), info(), "n1") is None
    room = Room(module(reserve=OK))
    room.plugin.unreserve(CycleState(), info(), "n1")


def test_a_guest_that_follows_pods_does_so_without_an_export_for_prefilter() -> None:
    room = Room(module("target", addpod="(call $target (i32.const 64) (i32.const 0))", filter="(i32.const 0)"))
    assert room.plugin.pre_filter(CycleState(), info()) == (None, None)
    status = room.plugin.add_pod(CycleState(), info(), info(make_pod("other")), room.node())
    assert "unknown status code" in status.reasons[0]  # the size of the other pod
    assert room.plugin.remove_pod(CycleState(), info(), info(make_pod("other")), room.node()) is None
