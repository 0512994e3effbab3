from __future__ import annotations

import sys
from typing import Any

import pytest

from kscheduler.errors import PluginError
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.interface import extension_points
from kscheduler.framework.status import Code, Status
from kscheduler.snapshot.node_copy import NodeCopy
from kscheduler.testing import make_node, make_pod
from kscheduler.wasm.batch.points import Point
from kscheduler.wasm.engine import FaultKind, GuestFault
from kscheduler.wasm.pool import Unavailable
from tests.wasm.batch.fake_guest import ListGuest, Raw, pack, unpack
from tests.wasm.batch.plugins import POD, Made, filter_all, info, make, make_table, one, score_all


def test_a_plugin_has_the_points_its_guest_declares() -> None:
    assert extension_points(make(points=["filter", "score"]).kind) == {"filter", "score"}
    assert extension_points(make(points=["preEnqueue", "preFilter"]).kind) == {"preEnqueue", "preFilter"}
    # The pod holds an instance from Reserve on, whichever of these points the guest has.
    assert extension_points(make(points=["permit"]).kind) == {"reserve", "permit", "postBind"}


def test_rows_are_rejected_for_the_reasons_given() -> None:
    reasons = [[2, "too small"], [3, "wrong zone", "and far"]]
    made = make(lambda guest, point, question: one(verdicts=b"\0\1\2", reasons=reasons), points=["filter"])
    state = CycleState()
    verdicts = filter_all(made, state)
    assert verdicts.feasible_rows() == [0]
    assert made.plugin.explain(state, POD, verdicts.detail(1)) == Status(Code.UNSCHEDULABLE, ("too small",))
    expected = Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, ("wrong zone", "and far"))
    assert made.plugin.explain(state, POD, verdicts.detail(2)) == expected


def test_an_empty_answer_lets_all_pass_and_scores_nothing() -> None:
    made = make(points=["filter", "score"])
    assert filter_all(made).feasible_count() == 3
    assert score_all(made) == [0, 0, 0]


@pytest.mark.parametrize("depends", [["pod"], ["other"]])
def test_a_guest_without_a_table_is_told_the_rows_as_it_cannot_know_how_many_there_are(depends: list[str]) -> None:
    def answer(guest: ListGuest, point: int, question: Any) -> Any:
        assert not guest.rows
        rows = unpack("i", question["rows"])
        if point == Point.SCORE:
            return one(scores=pack("q", *(10 * row for row in rows)))
        return one(verdicts=bytes(row == 1 for row in rows), reasons=[[2, "odd"]])

    table = make_table(make_node("a"), make_node("b"), make_node("c"))
    made = make(answer, points=["filter", "score"], table=table, depends=depends)
    assert filter_all(made).feasible_rows() == [0, 2]
    assert score_all(made) == [0, 10, 20]


def test_scores_are_taken_as_they_are_or_normalised() -> None:
    def answer(guest: ListGuest, point: int, question: Any) -> Any:
        return one(scores=pack("q", 10, 40, 20))

    assert score_all(make(answer)) == [10, 40, 20]
    assert score_all(make(answer, normalize="default")) == [25, 100, 50]
    assert score_all(make(answer, normalize="reverse")) == [75, 0, 50]


def test_a_guest_may_normalise_itself() -> None:
    def answer(guest: ListGuest, point: int, question: Any) -> Any:
        if point == Point.SCORE:
            return one(scores=pack("q", -10, 40, 20))
        return one(scores=pack("q", *(50 + score for score in unpack("q", question["scores"][0]))))

    made = make(answer, points=["score", "normalizeScore"], normalize="guest")
    assert score_all(made) == [40, 90, 70]
    assert made.guest.calls[-1][1]["rows"] == pack("i", 0, 1, 2)


def test_the_per_node_form_asks_about_one_row() -> None:
    def answer(guest: ListGuest, point: int, question: Any) -> Any:
        rows = unpack("i", question["rows"])
        if point == Point.FILTER:
            return one(verdicts=bytes(row == 1 for row in rows), reasons=[[2, "no"]])
        return one(scores=pack("q", *(10 * row for row in rows)))

    made = make(answer, points=["filter", "score"])
    nodes = [made.table.at(row) for row in range(3)]
    assert [made.plugin.filter(CycleState(), POD, node) for node in nodes] == [
        None,
        Status(Code.UNSCHEDULABLE, ("no",)),
        None,
    ]
    assert [made.plugin.score(CycleState(), POD, node) for node in nodes] == [(0, None), (10, None), (20, None)]


def test_what_a_guest_wants_to_remember_is_handed_over_until_it_says_otherwise() -> None:
    def answer(guest: ListGuest, point: int, question: Any) -> Any:
        return (
            one(state=b"first")
            if point == Point.PRE_FILTER
            else one(state=b"second")
            if point == Point.PRE_SCORE
            else {}
        )

    made = make(answer, points=["preFilter", "filter", "preScore", "score"])
    state = CycleState()
    assert made.plugin.pre_filter(state, POD) == (None, None)
    filter_all(made, state)
    assert made.plugin.pre_score(state, POD) is None
    score_all(made, state)
    assert [question["pods"][0].get("state") for _, question in made.guest.calls] == [
        None,
        b"first",
        b"first",
        b"second",
    ]
    made.plugin.pre_filter(CycleState(), POD)
    assert "state" not in made.guest.calls[-1][1]["pods"][0]


def test_pre_filter_names_nodes_by_row() -> None:
    made = make(lambda *_: one(only=pack("i", 0, 2)), points=["preFilter"])
    result, status = made.plugin.pre_filter(CycleState(), POD)
    assert (result.node_names, status) == ({"a", "c"}, None)


def test_a_pod_is_shown_in_the_parts_asked_for() -> None:
    made = make(points=["preEnqueue"], pod=["name", "labels", "requests", "tolerations", "priority"])
    pod = make_pod("web", "shop").label(b="2", a="1").req(cpu="250m", memory="1Ki", **{"x.io/gpu": 2}).priority(7)
    made.plugin.pre_enqueue(info(pod))
    assert made.guest.calls[-1][1]["pods"] == [
        {
            "name": "web",
            "uid": "uid-shop-web",
            "labels": {"a": "1", "b": "2"},
            "priority": 7,
            "requests": {"cpu": 250, "memory": 1024, "x.io/gpu": 2},
            "scored_cpu": 250,
            "scored_memory": 1024,
        }
    ]


def test_a_permit_may_wait() -> None:
    made = make(lambda *_: one(status=[4, "others"], wait_ms=1500), points=["permit"])
    assert made.plugin.permit(CycleState(), POD, "b") == (Status(Code.WAIT, ("others",)), 1.5)
    assert made.guest.calls[-1][1] | {"pods": []} == {"pods": [], "node": "b", "row": 1}


async def test_one_instance_serves_a_pod_from_reserve_to_post_bind() -> None:
    def answer(guest: ListGuest, point: int, question: Any) -> Any:
        return {}

    made = make(answer, points=["reserve", "unreserve", "permit", "preBind", "postBind"])
    other, state, others = info(make_pod("other")), CycleState(), CycleState()
    made.plugin.reserve(state, POD, "a")
    first = made.guest
    made.plugin.reserve(others, other, "b")
    assert made.guest is not first
    made.plugin.permit(state, POD, "a")
    assert await made.plugin.pre_bind(state, POD, "a") is None
    made.plugin.post_bind(state, POD, "a")
    assert [point for point, _ in first.calls] == [Point.RESERVE, Point.PERMIT, Point.PRE_BIND, Point.POST_BIND]
    made.plugin.unreserve(others, other, "b")
    assert [point for point, _ in made.guest.calls] == [Point.RESERVE, Point.UNRESERVE]
    assert made.plugin.pool.holders == 0


# --- guests that answer nonsense -----------------------------------------------------------------------------------

NONSENSE: dict[str, tuple[list[str], Any, str]] = {
    "too few verdicts": (["filter"], one(verdicts=b"\0"), "verdicts: expected 3 bytes for 3 rows, got 1"),
    "too many verdicts": (["filter"], one(verdicts=bytes(9)), "verdicts: expected 3 bytes for 3 rows, got 9"),
    "a verdict without a reason": (["filter"], one(verdicts=b"\0\0\1"), "verdicts: entry 2 is reason 1, of 0"),
    "a reason that lets pass": (
        ["filter"],
        one(verdicts=b"\0\0\1", reasons=[[0]]),
        "reason 0: expected code 2, 3 or 6",
    ),
    "a code that is none": (["filter"], one(verdicts=b"\0\0\1", reasons=[[77, "x"]]), "expected one of the codes"),
    "an empty status": (["filter"], one(verdicts=b"\0\0\1", reasons=[[]]), "expected one of the codes"),
    "256 reasons": (
        ["filter"],
        one(reasons=[[2, str(n)] for n in range(256)]),
        "reasons: expected at most 255, got 256",
    ),
    "half a score": (["score"], one(scores=bytes(23)), "scores: expected 24 bytes for 3 rows, got 23"),
    "a score below 0": (["score"], one(scores=pack("q", 0, -1, 0)), "scores: row 1: expected 0..100, got -1"),
    "a score above 100": (["score"], one(scores=pack("q", 0, 1, 101)), "scores: row 2: expected 0..100, got 101"),
    "the least integer": (["score"], one(scores=pack("q", -(1 << 63), 1, 1)), "scores: row 0: expected 0..100"),
    "scores as a list": (["score"], one(scores=[1, 2, 3]), r"Expected `bytes \| null`, got `array`"),
    "a float": (["score"], one(scores=1.5), r"Expected `bytes \| null`, got `float`"),
    "no pods": (["score"], {"pods": []}, "pods: expected 1 answer, got 0"),
    "two pods": (["score"], {"pods": [{}, {}]}, "pods: expected 1 answer, got 2"),
    "a list": (["score"], [1], "Expected `object`, got `array`"),
    "cut off": (["score"], Raw(b"\x81\xa4pods\x91\x81\xa6scor"), "Input data was truncated"),
    "something after it": (["score"], Raw(b"\x80\x80"), "trailing"),
    "a giant list": (["score"], Raw(b"\x81\xa4pods\xdd\xff\xff\xff\xff"), "Input data was truncated"),
    "a giant answer": (["score"], Raw(address=8, length=0x7FFFFFFF), "expected an answer of at most 65584 bytes"),
    "a bad address": (["score"], Raw(address=0xFFFFFFF0, length=64), "outside its memory"),
    "an address past the end": (["score"], Raw(address=(1 << 20) - 1, length=2), "outside its memory"),
    "too much to remember": (["preFilter"], one(state=bytes(65_537)), "expected an answer of at most|state: expected"),
    "rows that are none": (["preFilter"], one(only=pack("i", 7)), "only: expected rows of nodes, got 7"),
    "a row below 0": (["preFilter"], one(only=pack("i", -1)), "only: expected rows of nodes, got -1"),
    "half a row": (["preFilter"], one(only=b"\0\0"), "only: expected 4 bytes a row, got 2"),
    "a wait at PreFilter": (["preFilter"], one(status=[4]), "expected one of the codes 0, 1, 2, 3, 5, 6, got 4"),
    "a number as a reason": (["preFilter"], one(status=[2, 5]), "expected text as reasons"),
    "a wait without end": (["permit"], one(status=[4], wait_ms=10**9), "wait_ms: expected 0..900000"),
}


if sys.version_info < (3, 14):  # later ones measure the stack, which is deep enough for the longest answer
    NONSENSE["nested deep"] = (["score"], Raw(b"\x81\xa1x" + b"\x91" * 60_000 + b"\xc0"), "got deeper ones")


def ask(made: Made, point: str) -> None:
    if point == "filter":
        filter_all(made)
    elif point == "score":
        score_all(made)
    elif point == "preFilter":
        made.plugin.pre_filter(CycleState(), POD)
    else:
        made.plugin.permit(CycleState(), POD, "a")


@pytest.mark.parametrize("case", NONSENSE, ids=str)
def test_nonsense_is_a_fault_that_costs_the_instance(case: str) -> None:
    points, answer, message = NONSENSE[case]
    made = make(lambda *_: answer, points=points)
    with pytest.raises(GuestFault, match=message):
        ask(made, points[0])
    assert made.module.made[-1].is_closed
    assert made.plugin.pool.instances == 0


@pytest.mark.parametrize("case", NONSENSE, ids=str)
def test_nonsense_counts_for_nothing_where_faults_are_to_be_ignored(case: str) -> None:
    points, answer, _ = NONSENSE[case]
    made = make(lambda *_: answer, points=points, policy="ignore")
    ask(made, points[0])
    if points == ["filter"]:
        assert filter_all(made).feasible_count() == 3
    if points == ["score"]:
        assert score_all(made) == [0, 0, 0]


def test_an_error_is_reported_and_does_not_cost_the_instance() -> None:
    for answer in ({"error": "no gpu data"}, one(error="no gpu data")):
        made = make(lambda *_, answer=answer: answer, points=["filter"])
        with pytest.raises(PluginError, match=r"^filter: .*no gpu data$"):
            filter_all(made)
        assert made.plugin.pool.instances == 1


def test_long_reasons_are_cut() -> None:
    made = make(lambda *_: one(status=[2, *["ä" * 1000] * 20]), points=["preFilter"])
    _, status = made.plugin.pre_filter(CycleState(), POD)
    assert [len(reason) for reason in status.reasons] == [512] * 8


@pytest.mark.parametrize(
    ("guest", "message"),
    [
        (ListGuest(version=2), "kscheduler_abi_v1: expected 1, got 2"),
        (ListGuest(describe={"abi": 3}), "abi: expected 1, got 3"),
        (ListGuest(points=["scoring"]), 'points: expected one of .*, got "scoring"'),
        (ListGuest(points=[]), "points: expected at least one"),
        (ListGuest(points=["normalizeScore", "score"]), "normalizeScore goes together"),
        (ListGuest(points=["unreserve"]), "unreserve needs reserve beside it"),
        (ListGuest(describe={"depends": ["moon"]}), 'depends: expected one of .*, got "moon"'),
        (ListGuest(describe={"depends": ["pod"], "table": ["usage"]}), 'expected "usage", since the guest reads usage'),
        (ListGuest(describe={"depends": ["pod"], "labels": ["zone"]}), 'expected "node", since the guest reads labels'),
        (ListGuest(describe={"labels": ["x" * 300]}), "labels: expected a name of 1 to 253 bytes"),
        (ListGuest(describe={"labels": ["x"] * 65}), "labels: expected at most 64 names, got 65"),
        (ListGuest(describe={"normalize": "max"}), 'normalize: expected one of .*, got "max"'),
        (ListGuest(describe={"points": "score"}), "Expected `array`, got `str`"),
        (ListGuest(describe={"message_limit": 0}), "message_limit: expected at least 1"),
    ],
    ids=str,
)
def test_a_guest_that_describes_itself_wrongly_is_refused(guest: ListGuest, message: str) -> None:
    with pytest.raises(GuestFault, match=message):
        make(guest=guest)


def test_a_guest_may_refuse_its_configuration() -> None:
    with pytest.raises(PluginError, match="refuses its configuration: ks_configure: no such zone"):
        make(guest=ListGuest(refuses="no such zone"), config="{}")


def test_a_guest_without_room_is_a_fault_that_says_so() -> None:
    made = make(guest=ListGuest(room=4))
    with pytest.raises(GuestFault, match=r"ks_alloc: expected room for .* bytes, got none"):
        score_all(made)
    made = make(depends=["node"], message_limit=10, labels=["zone"])
    with pytest.raises(GuestFault, match=r"ks_table: a message has .* bytes, the guest takes messages of 10"):
        score_all(made)


# --- what the guest may call -----------------------------------------------------------------------------------------


def test_events_are_about_the_pod_of_the_call_and_bounded() -> None:
    made = make(points=["preEnqueue"])
    instance = made.module.made[-1]
    made.plugin.pre_enqueue(POD)
    instance = made.module.made[-1]
    instance.memory[100:111] = b"Toobig hello"[:11]
    for _ in range(20):
        instance.functions["event"](instance, 1, 100, 6, 107, 4)
    assert made.events == [("default/web", "Warning", "Toobig", "hell")] * 8
    with pytest.raises(GuestFault, match="outside its memory"):
        instance.functions["event"](instance, 1, -16, 64, 0, 0)
    assert instance.functions["now"](instance) == int(made.clock.wall() * 1e9)


# --- pods that might be elsewhere -----------------------------------------------------------------------------------


def test_a_node_as_it_might_be_is_shown_for_one_question_only() -> None:
    def answer(guest: ListGuest, point: int, question: Any) -> Any:
        rows = unpack("i", question["rows"]) if "rows" in question else range(len(guest.rows))
        return one(verdicts=bytes(guest.rows[row]["pods_n"] > 0 for row in rows), reasons=[[2, "taken"]])

    table = make_table(make_node("a"), make_node("b"))
    resident = info(make_pod("resident"))
    table.add_pod(table.at(0), resident)
    guest = ListGuest(["filter"], {"depends": ["usage"], "table": ["usage"]}, answer)
    made = make(guest=guest, table=table)
    node = NodeCopy(table.at(0), table.request_of)
    node.remove(resident)
    assert made.plugin.filter(CycleState(), POD, table.at(0)) is not None
    assert made.plugin.filter(CycleState(), POD, node) is None
    assert filter_all(made).feasible_rows() == [1]


def test_what_a_guest_printed_before_it_failed_is_in_its_fault_and_in_its_quarantine() -> None:
    def panics(guest: ListGuest, point: int, question: Any) -> Any:
        raise GuestFault(FaultKind.TRAP, "ks_call: unreachable", "panic: index out of range\n\ngoroutine 1:\n")

    made = make(panics, points=["filter"])
    shown = "ks_call: unreachable; it printed: panic: index out of range goroutine 1:"
    for _ in range(3):
        with pytest.raises(GuestFault, match=f"^{shown}$"):
            filter_all(made)
    with pytest.raises(Unavailable, match=f"the latest fault: {shown}$"):
        filter_all(made)


def test_the_error_that_a_guest_logged_before_it_failed_is_in_its_fault_and_not_in_that_of_the_next_call() -> None:
    def panics(guest: ListGuest, point: int, question: Any) -> Any:
        if "labels" in question["pods"][0]:
            instance = made.module.made[-1]
            instance.memory[100:110] = b"no license"
            for level, size in ((2, 10), (0, 2)):
                instance.functions["log"](instance, level, 100, size)
        raise GuestFault(FaultKind.TRAP, "ks_call: unreachable")

    made = make(panics, points=["preEnqueue"], pod=["labels"])
    with pytest.raises(GuestFault, match=r"^ks_call: unreachable; it logged: no license$"):
        made.plugin.pre_enqueue(POD)
    with pytest.raises(GuestFault, match=r"^ks_call: unreachable$"):
        made.plugin.pre_enqueue(info(make_pod("plain")))


def test_a_guest_that_keeps_failing_at_one_point_is_quarantined_though_another_works() -> None:
    def panics_at_filter(guest: ListGuest, point: int, question: Any) -> Any:
        if point == Point.FILTER:
            raise GuestFault(FaultKind.TRAP, "ks_call: unreachable")
        return {}

    made = make(panics_at_filter, points=["preFilter", "filter"])
    for _ in range(3):
        state = CycleState()
        made.plugin.pre_filter(state, POD)
        with pytest.raises(GuestFault):
            filter_all(made, state)
    with pytest.raises(Unavailable, match="quarantined"):
        made.plugin.pre_filter(CycleState(), POD)
