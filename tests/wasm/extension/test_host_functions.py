"""What guests are given when they ask, and what becomes of what they hand over."""

from __future__ import annotations

import json
import logging
import struct
from typing import Any

import pytest

from kscheduler.client.protocol import Regarding
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.status import Code, Status, unschedulable
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.testing.wrappers import make_node, make_pod
from kscheduler.wasm.extension.encoding.objects import ObjectEncoder
from kscheduler.wasm.extension.host.klog import MAX_LINES
from kscheduler.wasm.guest_log import LogRules
from tests.wasm.extension.kit import Room, info, module, reason

_OK = "(i32.const 0)"

# Asks with a buffer that is too small, then with one that is large enough, and gives the answer as the reason.
_ASK = """
  (local $n i32)
  (if
    (i32.ne (call ${name} {before} (i32.const 4096) (i32.const 1))
      (call ${name} {before} (i32.const 4096) (i32.const 60000)))
    (then unreachable))
  (local.set $n (call ${name} {before} (i32.const 4096) (i32.const 60000)))
  (call $reason (i32.const 4096) (local.get $n))
  {result}
"""


def asking(name: str, before: str = "", result: str = "(i32.const 2)") -> str:
    return _ASK.format(name=name, before=before, result=result)


def recorded(status: Status | None) -> str:
    assert status is not None
    return status.message


# --- inputs ---------------------------------------------------------------------------------------------------------


def test_a_guest_reads_its_configuration_as_it_stands_in_the_file() -> None:
    room = Room(module("config", "reason", filter=asking("config")), guestConfig='{"a": "ä"}')
    assert recorded(room.filter()) == '{"a": "ä"}'


def test_a_guest_reads_its_configuration_while_it_starts() -> None:
    start = "(i32.store (i32.const 0) (call $config (i32.const 16) (i32.const 100)))"
    reported = "(call $reason (i32.const 16) (i32.load (i32.const 0))) (i32.const 2)"
    room = Room(module("config", "reason", _start=start, filter=reported), guestConfig="early")
    assert recorded(room.filter()) == "early"


def test_a_guest_reads_the_name_of_the_node() -> None:
    room = Room(module("node_name", "reason", filter=asking("node_name")))
    assert recorded(room.filter("n2")) == "n2"


def test_nothing_is_written_to_a_buffer_that_is_too_small() -> None:
    body = """
      (i32.store (i32.const 4096) (i32.const 0x2e2e2e2e))
      (drop (call $node_name (i32.const 4096) (i32.const 1)))
      (call $reason (i32.const 4096) (i32.const 4)) (i32.const 2)"""
    assert recorded(Room(module("node_name", "reason", filter=body)).filter("n1")) == "...."


def test_a_limit_is_unsigned() -> None:
    body = """
      (drop (call $node_name (i32.const 4096) (i32.const -1)))
      (call $reason (i32.const 4096) (i32.const 2)) (i32.const 2)"""
    assert recorded(Room(module("node_name", "reason", filter=body)).filter("n1")) == "n1"


@pytest.mark.parametrize("length_of", ["pod", "node", "node_list"])
def test_objects_have_the_length_that_the_encoder_gives_them(length_of: str) -> None:
    asks = {
        "pod": "(call $pod (i32.const 4096) (i32.const 0))",
        "node": "(call $node (i32.const 16) (i32.const 2) (i32.const 4096) (i32.const 0))",
        "node_list": "(call $node_list (i32.const 4096) (i32.const 0))",
    }
    guest = module("pod", "node", "node_list", "config", text="n2", score=f"""
      (i64.shl (i64.extend_i32_u {asks[length_of]}) (i64.const 32))""")  # fmt: skip
    nodes = [make_node("n1").obj(), make_node("n2").label(zone="a").obj()]
    room, pod = Room(guest, nodes), info()
    encoder = ObjectEncoder()
    expected = {
        "pod": encoder.pod(pod.pod),
        "node": encoder.node(nodes[1]),
        "node_list": encoder.node_list(nodes),
    }
    assert room.plugin.score(CycleState(), pod, room.node()) == (len(expected[length_of]), None)


def test_a_pod_is_written_to_the_guests_memory_whole() -> None:
    """The guest adds up the bytes."""
    body = """
      (local $n i32) (local $i i32) (local $sum i64)
      (local.set $n (call $pod (i32.const 4096) (i32.const 60000)))
      (loop $next (if (i32.lt_u (local.get $i) (local.get $n)) (then
        (local.set $sum (i64.add (local.get $sum) (i64.load8_u offset=4096 (local.get $i))))
        (local.set $i (i32.add (local.get $i) (i32.const 1))) (br $next))))
      (i64.shl (local.get $sum) (i64.const 32))"""
    room, pod = Room(module("pod", score=body)), info()
    score, _ = room.plugin.score(CycleState(), pod, room.node())
    assert score == sum(ObjectEncoder().pod(pod.pod))


def test_a_node_that_is_not_there_is_empty() -> None:
    body = "(call $node (i32.const 16) (i32.const 4) (i32.const 4096) (i32.const 60000))"
    assert Room(module("node", text="gone", filter=body)).filter() is None


def test_the_list_of_nodes_follows_the_cluster() -> None:
    guest = module("node_list", score="""
      (i64.shl (i64.extend_i32_u (call $node_list (i32.const 4096) (i32.const 0))) (i64.const 32))""")  # fmt: skip
    room, pod = Room(guest), info()
    before, _ = room.plugin.score(CycleState(), pod, room.node())
    room.cache.set_node(make_node("n1").label(zone="far-away").obj())
    changed, _ = room.plugin.score(CycleState(), pod, room.node())
    room.cache.set_node(make_node("n4").obj())
    longer, _ = room.plugin.score(CycleState(), pod, room.node())
    assert before < changed < longer


def test_a_guest_reads_what_is_known_of_a_nodes_images() -> None:
    nodes = [make_node("n1").image("nginx:1", 500).obj(), make_node("n2").image("nginx:1", 700).obj()]
    where = "(i32.const 16) (i32.const 2)"
    room = Room(module("images", "reason", text="n1", filter=asking("images", where)), nodes)
    assert json.loads(recorded(room.filter())) == {"nginx:1": {"Size": 500, "NumNodes": 2, "Nodes": None}}


def test_of_a_node_that_is_not_there_no_images_are_known() -> None:
    where = "(i32.const 16) (i32.const 2)"
    room = Room(module("images", "reason", text="nX", filter=asking("images", where)))
    assert recorded(room.filter()) == "null"


@pytest.mark.parametrize(
    ("name", "nothing"),
    [("filtered", "[]"), ("statuses", "{}"), ("scores", "{}"), ("target", ""), ("node_name", ""), ("pod", "")],
)
def test_inputs_that_an_export_has_no_use_for_are_empty(name: str, nothing: str) -> None:
    """Asked by `enqueue`, which has none; what it is given becomes the text of an Event."""
    start = f"""
      (local $n i32)
      (local.set $n (call ${name} (i32.const 4096) (i32.const 60000)))
      (call $log (i32.const 0) (i32.const 4096) (local.get $n))"""
    with Logged() as lines:
        Room(module(name, "log", enqueue=start, filter=_OK))
    assert lines == [nothing]


class Logged:
    """What guests log meanwhile."""

    def __enter__(self) -> list[str]:
        self.lines: list[str] = []
        self.handler = logging.Handler()
        self.handler.emit = lambda record: self.lines.append(record.getMessage())  # type: ignore[method-assign]
        self.log = logging.getLogger("kscheduler.wasm.guest")
        self.level = self.log.level
        self.log.setLevel(logging.INFO)
        self.log.addHandler(self.handler)
        return self.lines

    def __exit__(self, *fault: object) -> None:
        self.log.removeHandler(self.handler)
        self.log.setLevel(self.level)


# --- answers --------------------------------------------------------------------------------------------------------


def test_the_reason_of_one_call_is_not_that_of_the_next() -> None:
    body = f"""
      (if (result i32) (global.get $asked) (then (i32.const 2))
        (else (global.set $asked (i32.const 1)) {reason("first")} (i32.const 2)))"""
    guest = module("reason", text="first", globals_="(global $asked (mut i32) (i32.const 0))", filter=body)
    room, state = Room(guest), CycleState()
    assert recorded(room.filter(state=state)) == "first"
    assert room.filter(state=state) == Status(Code.UNSCHEDULABLE)


@pytest.mark.parametrize(("address", "size"), [(1 << 17, 1), (0, (1 << 17) + 1), (-1, 2), (0, -1)])
def test_a_reason_outside_of_memory_is_reported_as_such(address: int, size: int) -> None:
    body = f"(call $reason (i32.const {address}) (i32.const {size})) (i32.const 2)"
    assert recorded(Room(module("reason", filter=body)).filter()) == "BUG: out of memory reading message"


def test_a_long_reason_is_cut() -> None:
    body = "(call $reason (i32.const 0) (i32.const 100000)) (i32.const 2)"
    assert len(recorded(Room(module("reason", filter=body)).filter())) == 4096 + len("...")


@pytest.mark.parametrize("function", ["names", "nominate", "normalized", "events", "eventf"])
@pytest.mark.parametrize(("address", "size"), [(1 << 17, 1), (0, (1 << 17) + 1), (-1, 2), (0, -1)])
def test_an_answer_outside_of_memory_stops_the_guest(function: str, address: int, size: int) -> None:
    body = f"(call ${function} (i32.const {address}) (i32.const {size})) {_OK}"
    status = Room(module(function, filter=body)).filter()
    assert status.code is Code.ERROR
    assert status.message.startswith("wasm: filter error: ")


@pytest.mark.parametrize("function", ["pod", "node_name", "node_list", "scores"])
@pytest.mark.parametrize("address", [1 << 17, -1, (1 << 17) - 1])
def test_a_buffer_outside_of_memory_stops_the_guest(function: str, address: int) -> None:
    body = f"(drop (call ${function} (i32.const {address}) (i32.const 60000))) {_OK}"
    assert Room(module(function, filter=body)).filter().code is Code.ERROR


# --- actions --------------------------------------------------------------------------------------------------------


def event(**fields: object) -> str:
    return json.dumps({"Eventtype": "Normal", "Reason": "R", "Action": "A", "Note": "N", **fields})


_REFERENCE = {"Kind": "Pod", "APIVersion": "v1", "Name": "p", "Namespace": "ns", "UID": "u", "ResourceVersion": "7"}
_NOBODY = dict.fromkeys(_REFERENCE, "")


def test_a_guest_records_events() -> None:
    text = event(RegardingReference=_REFERENCE, RelatedReference=_NOBODY)
    room = Room(module("eventf", text=text, filter=f"(call $eventf (i32.const 16) (i32.const {len(text)})) {_OK}"))
    assert room.filter() is None
    subject = Regarding("Pod", "v1", "ns", "p", "u", "7")
    assert room.recorder.events == [(subject, "Normal", "R", "A", "N", None)]


def test_an_event_may_name_a_second_object() -> None:
    text = event(RegardingReference=_REFERENCE, RelatedReference={**_REFERENCE, "Kind": "Node"})
    room = Room(module("eventf", text=text, filter=f"(call $eventf (i32.const 16) (i32.const {len(text)})) {_OK}"))
    room.filter()
    assert room.recorder.events[0][5] == Regarding("Node", "v1", "ns", "p", "u", "7")


@pytest.mark.parametrize("text", ["", "[]", "{", '{"Note": 5}', "\x00"])
def test_an_event_that_cannot_be_read_is_a_fault_of_the_guest(text: str) -> None:
    room = Room(module("eventf", text=text, filter=f"(call $eventf (i32.const 16) (i32.const {len(text)})) {_OK}"))
    assert "expected an Event as JSON" in recorded(room.filter())


def test_a_guest_records_only_so_many_events_in_a_call() -> None:
    text = event(RegardingReference=_REFERENCE)
    body = f"""
      (local $i i32)
      (loop $again
        (call $eventf (i32.const 16) (i32.const {len(text)}))
        (local.set $i (i32.add (local.get $i) (i32.const 1)))
        (br_if $again (i32.lt_u (local.get $i) (i32.const 100))))
      {_OK}"""
    room = Room(module("eventf", text=text, filter=body))
    room.filter()
    assert len(room.recorder.events) == 16


class _Wait:
    def __init__(self, pod: PodInfo) -> None:
        self.pod = pod
        self.pending_plugins: list[str] = []
        self.rejections: list[tuple[str, str]] = []

    def allow(self, plugin: str) -> None: ...

    def reject(self, plugin: str, message: str) -> None:
        self.rejections.append((plugin, message))


class _Waits(dict[str, _Wait]):
    def __iter__(self) -> Any:
        return iter(self.values())


_UID = "uid-default-waiting"


@pytest.mark.parametrize("is_waiting", [True, False])
def test_a_guest_rejects_a_pod_that_waits_and_learns_whether_it_did(is_waiting: bool) -> None:
    wait = _Wait(info(make_pod("waiting")))
    body = f"""
      (call $reject (i32.const 16) (i32.const {len(_UID)}) (i32.const 4096) (i32.const 8))
      (i64.shl (i64.load (i32.const 4096)) (i64.const 32))"""
    room = Room(module("reject", text=_UID, score=body), waiting_pods=_Waits({_UID: wait} if is_waiting else {}))
    assert room.plugin.score(CycleState(), info(), room.node()) == (int(is_waiting), None)
    assert wait.rejections == ([("guest", "removed")] if is_waiting else [])


@pytest.mark.parametrize("is_waiting", [True, False])
def test_a_guest_looks_at_a_pod_that_waits(is_waiting: bool) -> None:
    wait = _Wait(info(make_pod("waiting")))
    body = f"""
      (i64.store (i32.const 4096) (i64.const -1))
      (call $waiting (i32.const 16) (i32.const {len(_UID)}) (i32.const 4096) (i32.const 60000))
      (i64.shl (i64.load32_u (i32.const 4096)) (i64.const 32))"""
    room = Room(module("waiting", text=_UID, score=body), waiting_pods=_Waits({_UID: wait} if is_waiting else {}))
    begins = ObjectEncoder().pod(wait.pod.pod)[:4] if is_waiting else bytes(4)
    score, _ = room.plugin.score(CycleState(), info(), room.node())
    assert struct.pack("<i", score) == begins


# --- klog -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("threshold", [0, 1, 2, 3])
@pytest.mark.parametrize("function", ["log", "logs"])
def test_messages_at_least_as_severe_as_the_threshold_areLogged(function: str, threshold: int) -> None:
    more = " (i32.const 0) (i32.const 0)" if function == "logs" else ""
    calls = "".join(
        f"(call ${function} (i32.const {severity}) (i32.const {16 + severity}) (i32.const 1){more})"
        for severity in range(4)
    )
    with Logged() as lines:
        Room(module(function, text="0123", filter=calls + _OK), logSeverity=threshold).filter()
    assert lines == [str(severity) for severity in range(threshold, 4)]


def test_a_guest_asks_for_the_threshold() -> None:
    assert Room(module("severity", filter="(call $severity)"), logSeverity=2).filter() == unschedulable()


def test_keys_and_values_areLogged_beside_the_message(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    text = "hello\nkey\0value\0odd\0"
    body = f"(call $logs (i32.const 0) (i32.const 16) (i32.const 6) (i32.const 22) (i32.const 14)) {_OK}"
    Room(module("logs", text=text, filter=body)).filter()
    (record,) = [each for each in caplog.records if each.name == "kscheduler.wasm.guest"]
    assert (record.getMessage(), vars(record)["plugin"], vars(record)["values"]) == ("hello", "guest", "key=value odd=")


def test_a_guest_that_logs_in_a_loop_is_cut_off() -> None:
    body = f"""
      (local $i i32)
      (loop $again
        (call $log (i32.const 2) (i32.const 16) (i32.const 1))
        (local.set $i (i32.add (local.get $i) (i32.const 1)))
        (br_if $again (i32.lt_u (local.get $i) (i32.const 1000))))
      {_OK}"""
    with Logged() as lines:
        Room(module("log", text="x", filter=body)).filter()
    assert len(lines) == MAX_LINES
    assert lines[-1] == "guest logs too much in one call; the rest is left out"


def test_a_guest_that_logs_at_each_call_is_limited_too() -> None:
    room = Room(module("log", text="x", filter=f"(call $log (i32.const 2) (i32.const 16) (i32.const 1)) {_OK}"))
    rules = LogRules()
    with Logged() as lines:
        for _ in range(rules.burst + 100):
            room.filter()
        room.clock.advance(1)
        for _ in range(100):
            room.filter()
    assert lines.count("x") == rules.burst + rules.per_s


def test_log_messages_outside_of_memory_do_no_harm() -> None:
    body = f"""
      (call $log (i32.const 0) (i32.const -1) (i32.const 5))
      (call $logs (i32.const 0) (i32.const 0) (i32.const -1) (i32.const -5) (i32.const 99))
      (call $log (i32.const 77) (i32.const 16) (i32.const 1))
      (call $log (i32.const -1) (i32.const 16) (i32.const 1)) {_OK}"""
    with Logged() as lines:
        assert Room(module("log", "logs", text="x", filter=body)).filter() is None
    assert lines == ["a message outside its memory"] * 2
