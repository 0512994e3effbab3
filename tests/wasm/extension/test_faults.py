"""Guests that go wrong: everything is a status of the pod at hand, or an error when the plugin is made."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest

from kscheduler._fast import Verdicts
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.faults import CycleFault
from kscheduler.framework.status import SKIP, Code
from kscheduler.wasm.engine import GuestFault
from kscheduler.wasm.loading.fetch import LoadError
from tests.wasm.extension.kit import STATUS_POINTS, Room, compiled, guest_with, info, module, run, score_all, wasm

OK = "(i32.const 0)"
_ENDLESS = "(loop $again (br $again)) unreachable"
_DEEP = "(func $deep (result i32) (i32.add (call $deep) (i32.const 1)))"


# --- starting -------------------------------------------------------------------------------------------------------


def start_up(**exports: str) -> Room:
    return Room(module("exit", "print", text="hello\n", filter=OK, **exports))


@pytest.mark.parametrize("export", ["_start", "_initialize"])
def test_a_guest_is_started_by_what_its_language_calls_the_beginning(export: str) -> None:
    guest = module(globals_="(global $started (mut i32) (i32.const 2))",
        filter="(global.get $started)", **{export: "(global.set $started (i32.const 0))"})  # fmt: skip
    assert Room(guest).filter() is None


def test_initialize_comes_before_start() -> None:
    assert start_up(_initialize="", _start="unreachable").filter() is None


def test_exit_code_zero_is_the_end_of_main_and_no_more() -> None:
    assert start_up(_start="(call $exit (i32.const 0)) unreachable").filter() is None


_SAY_HELLO = """
  (i32.store (i32.const 0) (i32.const 16)) (i32.store (i32.const 4) (i32.const 6))
  (drop (call $print (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8)))"""


@pytest.mark.parametrize(
    ("start", "complaint"),
    [
        ("unreachable", "unreachable"),
        ("(call $exit (i32.const 3))", "exited with status 3"),
        ("(drop (i32.load (i32.const -1)))", "out of bounds memory access"),
    ],
)
def test_a_guest_that_cannot_start_is_refused_with_what_it_printed(start: str, complaint: str) -> None:
    with pytest.raises(LoadError) as raised:
        start_up(_start=_SAY_HELLO + start)
    message = str(raised.value)
    assert message.startswith(
        "failed to create a guest pool: wasm: instantiate error: hello\nmodule[1] function[_start]"
    )
    assert complaint in message


def test_a_guest_that_fails_when_asked_for_events_is_refused() -> None:
    with pytest.raises(LoadError, match=r"^wasm: enqueue error: wasm `unreachable` instruction executed"):
        Room(module(enqueue="unreachable", filter=OK))


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (b"no wasm", "wasm: error compiling guest: "),
        (
            wasm('(module (func (export "filter") (result i32) (i32.const 0)))'),
            "wasm: guest doesn't export memory[memory]",
        ),
        (wasm('(module (memory (export "memory") 1))'), "wasm: guest does not export any plugin functions"),
        (
            wasm('(module (memory (export "memory") 1) (func (export "filter") (result i64) (i64.const 0)))'),
            "wasm: guest exports the wrong signature for func[filter]. should be () -> (i32)",
        ),
        (
            wasm('(module (memory (export "memory") 1) (func (export "filter") (result i32) (i32.const 0)) '
                 '(func (export "postfilter") (result i32) (i32.const 0)))'),
            "wasm: guest exports the wrong signature for func[postfilter]. should be () -> (i64)",
        ),
        (module(prescore=OK), "wasm: filter, score, reserve, permit or bind must be exported"),
        (module(normalizescore=OK), "wasm: filter, score, reserve, permit or bind must be exported"),
        (module(enqueue=""), "wasm: filter, score, reserve, permit or bind must be exported"),
    ],
)  # fmt: skip
def test_what_is_no_guest_is_refused(data: bytes, complaint: str) -> None:
    with pytest.raises(LoadError) as raised:
        compiled(data)
    assert complaint in str(raised.value)


# --- calls ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("export", STATUS_POINTS)
@pytest.mark.parametrize("body", ["unreachable", "(drop (i32.load (i32.const -1))) unreachable", _ENDLESS])
def test_a_guest_that_fails_costs_the_pod_its_attempt(export: str, body: str) -> None:
    room = _room(export, body)
    for _ in range(2):
        status = STATUS_POINTS[export](room)
        assert status.code is Code.ERROR
        assert status.message.startswith(f"wasm: {export} error: ")
        assert isinstance(status.error, GuestFault)
        assert "Traceback" not in status.message
    assert room.pool.instances == 0


def _room(export: str, body: str, **arguments: Any) -> Room:
    """Of an endless guest nobody waits for long."""
    arguments = {"deadline": "10ms", **arguments} if body is _ENDLESS else arguments
    return Room(guest_with(export, body), **arguments)


_GREEDY = """
  (drop (memory.grow (i32.const 65000)))
  (i32.store (i32.const 0x7fffffff) (i32.const 1)) (i32.const 0)"""


@pytest.mark.parametrize("body", ["(call $deep)", _GREEDY])
def test_a_guest_may_not_use_up_its_stack_or_the_memory_of_the_machine(body: str) -> None:
    room = Room(module(globals_=_DEEP, filter=body), deadline="2s")
    assert room.filter().code is Code.ERROR


def test_what_a_guest_printed_before_it_failed_is_in_its_status() -> None:
    room = Room(module("print", text="hello\n", filter=_SAY_HELLO + "unreachable"))
    first, *others = room.filter().message.split("\n")
    assert first == "wasm: filter error: hello"
    assert others[0].startswith("wasm `unreachable` instruction executed")


def test_a_call_past_its_deadline_says_which_argument_sets_it() -> None:
    message = _room("filter", _ENDLESS).filter().message
    assert message == 'wasm: filter error: ran longer than 10 ms; the argument "deadline" of the plugin sets this limit'


def test_what_a_guest_printed_in_one_call_is_not_reported_with_the_next() -> None:
    guest = module("print", text="hello\n", globals_="(global $calls (mut i32) (i32.const 0))", filter=f"""
      (if (global.get $calls) (then unreachable))
      (global.set $calls (i32.const 1)) {_SAY_HELLO} {OK}""")  # fmt: skip
    room, state = Room(guest), CycleState()
    assert room.filter(state=state) is None
    assert "hello" not in room.filter(state=state).message


def test_a_guest_that_exits_in_a_call_has_failed() -> None:
    assert (
        "exited with status 0"
        in Room(module("exit", filter="(call $exit (i32.const 0)) (i32.const 0)")).filter().message
    )


@pytest.mark.parametrize("export", ["unreserve", "postbind"])
def test_an_export_without_an_answer_fails_into_the_log(export: str, caplog: pytest.LogCaptureFixture) -> None:
    room = Room(module(reserve=OK, **{export: "unreachable"}))
    method = room.plugin.unreserve if export == "unreserve" else room.plugin.post_bind
    method(CycleState(), info(), "n1")
    (record,) = [each for each in caplog.records if each.levelno == logging.ERROR]
    assert record.getMessage() == f"failed {export}"
    assert vars(record)["err"].startswith(f"wasm: {export} error: wasm `unreachable`")
    assert room.pool.holders == 0


@pytest.mark.parametrize("export", ["score", "prescore", "normalizescore"])
def test_a_fault_while_nodes_are_scored_ends_the_cycle(export: str) -> None:
    exports = {"score": "(i64.const 0)", "prescore": OK, "normalizescore": OK, export: "unreachable"}
    room, state = Room(module(**exports)), CycleState()
    room.plugin.pre_score(state, info())
    with pytest.raises(CycleFault) as raised:
        score_all(room, state, info())
    assert raised.value.status.code is Code.ERROR
    assert f"wasm: {export} error: " in raised.value.status.message


def test_after_some_faults_in_a_row_the_guest_is_left_alone_for_a_while() -> None:
    room = Room(module("node_name", filter="""
      (drop (call $node_name (i32.const 64) (i32.const 9)))
      (if (i32.eq (i32.load8_u (i32.const 65)) (i32.const 50)) (then unreachable)) (i32.const 0)"""))  # fmt: skip
    for _ in range(3):
        room.filter("n2")
    assert "quarantined" in room.filter("n1").message
    assert "; the latest fault: filter: wasm `unreachable` instruction executed" in room.filter("n1").message
    room.clock.advance(60.0)
    assert room.filter("n1") is None


# --- failurePolicy: ignore ------------------------------------------------------------------------------------------

_LEFT_OUT: dict[str, tuple[Callable[[Room], Any], Any]] = {
    "prefilter": (lambda room: room.plugin.pre_filter(CycleState(), info()), (None, None)),
    "addpod": (STATUS_POINTS["addpod"], None),
    "filter": (STATUS_POINTS["filter"], None),
    "score": (lambda room: room.plugin.score(CycleState(), info(), room.node()), (0, None)),
    "reserve": (STATUS_POINTS["reserve"], None),
    "permit": (lambda room: room.plugin.permit(CycleState(), info(), "n1"), (None, 0.0)),
    "prebind": (STATUS_POINTS["prebind"], None),
    "bind": (lambda room: run(room.plugin.bind(CycleState(), info(), "n1")), SKIP),
}


@pytest.mark.parametrize("export", _LEFT_OUT)
def test_a_guest_that_may_be_ignored_counts_as_not_there(export: str, caplog: pytest.LogCaptureFixture) -> None:
    ask, answer = _LEFT_OUT[export]
    room = _room(export, "unreachable", failurePolicy="ignore")
    assert ask(room) == answer
    assert "guest failed and is skipped" in caplog.text


def test_scores_of_a_guest_that_is_left_out_are_equal_for_all_nodes() -> None:
    """Those that it gave before it failed do not count."""
    guest = module("node_name", score="""
      (drop (call $node_name (i32.const 64) (i32.const 9)))
      (if (i32.eq (i32.load8_u (i32.const 65)) (i32.const 50)) (then unreachable))
      (i64.const 0x500000000)""", normalizescore="unreachable")  # fmt: skip
    room = Room(guest, failurePolicy="ignore")
    assert score_all(room, CycleState(), info()) == {"n1": 0, "n2": 0, "n3": 0}


def test_rejections_of_a_guest_that_is_left_out_do_not_count() -> None:
    """It rejects the first node, and fails at the second."""
    guest = module("node_name", filter="""
      (drop (call $node_name (i32.const 64) (i32.const 9)))
      (if (i32.eq (i32.load8_u (i32.const 65)) (i32.const 50)) (then unreachable)) (i32.const 2)""")  # fmt: skip
    room, verdicts = Room(guest, failurePolicy="ignore"), Verdicts()
    verdicts.reset(room.cache.table.columns)
    room.plugin.filter_table(CycleState(), info(), room.cache.table, verdicts, 1)
    assert verdicts.feasible_count() == 3


def test_what_a_plugin_that_is_left_out_does_at_postfilter_is_nothing() -> None:
    room = _room("postfilter", "unreachable", failurePolicy="ignore")
    result, status = room.plugin.post_filter(CycleState(), info(), {})
    assert result is None
    assert status.code is Code.UNSCHEDULABLE
