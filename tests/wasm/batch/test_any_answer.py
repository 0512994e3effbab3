"""Answers of all kinds: each is a result within bounds, or a fault of the guest, and nothing else is raised."""

from __future__ import annotations

import asyncio
import contextlib
import struct
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kscheduler.errors import PluginError
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.status import Code, Status
from kscheduler.wasm.batch.answers import MAX_REASON_BYTES, MAX_REASONS
from kscheduler.wasm.batch.description import read_description
from kscheduler.wasm.batch.points import Point
from kscheduler.wasm.engine import GuestFault
from kscheduler.wasm.pool import Unavailable
from tests.wasm.batch.fake_guest import ListGuest, Raw
from tests.wasm.batch.plugins import POD, Made, filter_all, make, score_all

NODES = ("a", "b", "c")
POINTS = [point.word for point in Point]

# --- answers --------------------------------------------------------------------------------------------------------

EXTREME = st.sampled_from([0, 1, 2, 3, 5, 100, 101, -1, 255, 256, 900_001, 1 << 31, 1 << 63, (1 << 64) - 1, -(1 << 63)])
NUMBERS = EXTREME | st.integers(-(1 << 63), (1 << 64) - 1)
SCALARS = (
    st.none() | st.booleans() | NUMBERS | st.floats() | st.text(max_size=20) | st.binary(max_size=64)
    | st.just("x" * 70_000) | st.builds(msgpack.ExtType, st.integers(0, 127), st.binary(max_size=8))
)  # fmt: skip
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
)
PACKED = st.lists(EXTREME.filter(lambda each: -(1 << 63) <= each < 1 << 63), max_size=4).map(
    lambda values: struct.pack(f"<{len(values)}q", *values)
)
ROWS = st.lists(st.integers(-2, 4), max_size=4).map(lambda rows: struct.pack(f"<{len(rows)}i", *rows))
STATUSES = st.lists(NUMBERS | st.text(max_size=5) | st.just("long" * 1_000), max_size=12)
ANSWERS = st.fixed_dictionaries(
    {},
    optional={
        "status": STATUSES | VALUES,
        "state": st.binary(max_size=10) | VALUES,
        "only": ROWS | VALUES,
        "verdicts": st.binary(max_size=4) | VALUES,
        "reasons": st.lists(STATUSES, max_size=4) | VALUES,
        "scores": PACKED | VALUES,
        "wait_ms": NUMBERS | VALUES,
        "error": st.text(max_size=5) | VALUES,
        "unknown": VALUES,
    },
)
HEADS = st.fixed_dictionaries({}, optional={"pods": VALUES, "error": VALUES})
MESSAGES = (ANSWERS.map(lambda answer: {"pods": [answer]}) | HEADS | VALUES).map(msgpack.packb)


@st.composite
def any_bytes(draw: st.DrawFn) -> bytes:
    """Return a message, which may be cut, changed at a place, or have bytes or keys twice."""
    data: bytes = draw(MESSAGES | st.binary(max_size=64))
    if data and draw(st.booleans()):
        place = draw(st.integers(0, len(data) - 1))
        kind = draw(st.sampled_from(["cut", "change", "insert", "nest", "twice"]))
        more = draw(
            st.binary(min_size=1, max_size=5)
            | st.sampled_from([b"\xdd\xff\xff\xff\xff", b"\xdf\xff\xff\xff\xff", b"\xc6\xff\xff\xff\xff"])
        )
        data = {
            "cut": data[:place],
            "change": data[:place] + more + data[place + len(more) :],
            "insert": data[:place] + more + data[place:],
            "nest": data[:place] + b"\x91" * 3_000 + data[place:],
            "twice": data + data,
        }[kind]
    return data


# --- calls ----------------------------------------------------------------------------------------------------------


def made_with(data: bytes) -> Made:
    return make(guest=ListGuest(POINTS, {"normalize": "guest"}, lambda *_: Raw(data)))


def check_status(status: Status | None) -> None:
    if status is not None:
        assert isinstance(status.code, Code)
        assert len(status.reasons) <= MAX_REASONS
        assert all(len(reason.encode()) <= MAX_REASON_BYTES for reason in status.reasons)


def call_filter(made: Made) -> None:
    state = CycleState()
    verdicts = filter_all(made, state)
    for row in range(len(NODES)):
        if row not in verdicts.feasible_rows():
            check_status(made.plugin.explain(state, POD, verdicts.detail(row)))


def call_pre_filter(made: Made) -> None:
    found, status = made.plugin.pre_filter(CycleState(), POD)
    check_status(status)
    assert found is None or found.node_names <= set(NODES)


def call_score(made: Made) -> None:
    assert all(0 <= score <= 100 for score in score_all(made))


def call_permit(made: Made) -> None:
    status, seconds = made.plugin.permit(CycleState(), POD, "a")
    check_status(status)
    assert 0 <= seconds <= 900


def call_score_of_one(made: Made) -> None:
    made.plugin.score(CycleState(), POD, made.table.at(0))


CALLS: dict[str, Any] = {
    "preEnqueue": lambda made: check_status(made.plugin.pre_enqueue(POD)),
    "preFilter": call_pre_filter,
    "filter": call_filter,
    "filter of one": lambda made: check_status(made.plugin.filter(CycleState(), POD, made.table.at(0))),
    "preScore": lambda made: check_status(made.plugin.pre_score(CycleState(), POD)),
    "score": call_score,
    "score of one": call_score_of_one,
    "reserve": lambda made: check_status(made.plugin.reserve(CycleState(), POD, "a")),
    "unreserve": lambda made: made.plugin.unreserve(CycleState(), POD, "a"),
    "permit": call_permit,
    "preBind": lambda made: check_status(asyncio.run(made.plugin.pre_bind(CycleState(), POD, "a"))),
    "postBind": lambda made: made.plugin.post_bind(CycleState(), POD, "a"),
}


@pytest.mark.parametrize("what", CALLS)
@given(data=any_bytes())
def test_an_answer_is_used_or_is_a_fault(what: str, data: bytes) -> None:
    made = made_with(data)
    with contextlib.suppress(GuestFault, PluginError, Unavailable):
        CALLS[what](made)
    assert made.plugin.pool.holders <= 1  # that of Reserve


@given(any_bytes())
def test_a_description_is_used_or_is_a_fault(data: bytes) -> None:
    with contextlib.suppress(GuestFault):
        assert read_description(data).points
