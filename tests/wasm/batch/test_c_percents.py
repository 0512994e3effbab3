"""Percentages of the library in C, of two rows at a time and of one, are those of integers for all amounts."""

from __future__ import annotations

import runpy
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kscheduler.wasm.batch.points import Point
from kscheduler.wasm.engine import HostFunction, Instance, Limits
from kscheduler.wasm.engines import engine_named
from tests.support.skips import package
from tests.wasm.batch.fake_guest import pack

package("wasmtime")
package("ziglang")
pytestmark = pytest.mark.slow

PLUGINS = Path(__file__).parents[3] / "plugins"
builder = SimpleNamespace(**runpy.run_path(str(PLUGINS / "build_guests.py")))
SOURCE = Path(__file__).parent / "guests" / "percents.c"
HOST = [  # what the library imports and this guest does not call
    HostFunction("kscheduler", "log", "iii", "", lambda instance, *reported: None),
    HostFunction("kscheduler", "event", "iiiii", "", lambda instance, *reported: None),
    HostFunction("kscheduler", "now", "", "I", lambda instance: 0),
]
FAST = 1 << 46  # amounts from here on are for one row at a time
MOST = 1 << 62  # of a table

amount = st.one_of(
    st.integers(0, 9),
    st.integers(0, 1000),
    st.integers(FAST - 9, FAST + 9),
    st.integers(0, FAST << 9),
    st.integers(0, MOST),
)
# The least that makes a percentage whole, or one less or more.
beside = st.builds(
    lambda whole, percent, step: (whole, max(0, -(-percent * whole // 100) + step)),
    st.one_of(
        st.integers(1, 10_000),
        st.integers(FAST - 5_000, FAST - 1),
        st.integers(FAST, FAST << 9),
        st.integers(MOST - 5_000, MOST),
    ),
    st.integers(0, 101),
    st.integers(-1, 1),
)
small = st.tuples(st.integers(0, FAST - 1), st.integers(0, FAST - 1))


@pytest.fixture(scope="module")
def wasm() -> bytes:
    made: Path = builder.build(SOURCE)
    return made.read_bytes()


class Guest:
    """A guest that has received a table."""

    def __init__(self, instance: Instance, config: bytes, nodes: list[tuple[int, int]]) -> None:
        self._instance = instance
        instance.start()
        instance.call("ks_configure", *self._put(config))
        instance.call("ks_describe")
        columns = [{"r": pack("q", *column)} for column in zip(*nodes, strict=True)]
        self._send("ks_table", {"full": True, "rows": len(nodes), "alloc": columns[0], "used": columns[1]})

    def scores(self, more: int, rows: list[int] | None = None) -> bytes:
        question: dict[str, object] = {"pods": [{"requests": {"r": more}}]}
        if rows is not None:
            question["rows"] = pack("i", *rows)
        found: bytes = self._send("ks_call", question, Point.SCORE)["pods"][0]["scores"]
        return found

    def _put(self, message: bytes) -> tuple[int, int]:
        at = self._instance.call("ks_alloc", len(message))
        assert isinstance(at, int)
        self._instance.write(at, message)
        return at, len(message)

    def _send(self, function: str, message: object, *before: int) -> dict[str, list[dict[str, bytes]]]:
        answer = self._instance.call(function, *before, *self._put(msgspec.msgpack.encode(message)))
        assert isinstance(answer, int)
        recorded = bytes(self._instance.read(answer >> 32 & 0xFFFFFFFF, answer & 0xFFFFFFFF)) if answer else b"\x80"
        decoded: dict[str, list[dict[str, bytes]]] = msgspec.msgpack.decode(recorded)
        return decoded


@contextmanager
def reported(wasm: bytes, config: bytes, nodes: list[tuple[int, int]]) -> Iterator[Guest]:
    with closing(engine_named("wasmtime").compile(wasm).instantiate(HOST, Limits(deadline_s=60.0))) as instance:
        yield Guest(instance, config, nodes)


def by_integers(config: bytes, whole: int, used: int, more: int) -> int:
    part = whole - used - more if config == b"free" else used + more
    return 0 if whole <= 0 else min(100, max(0, part) * 100 // whole)


@settings(max_examples=150, deadline=None)
@given(
    nodes=st.lists(st.one_of(beside, st.tuples(amount, amount), small), min_size=1, max_size=9),
    repeats=st.integers(1, 30),
    more=st.one_of(st.just(0), st.integers(0, 1000), amount),
    config=st.sampled_from([b"used", b"free"]),
)
@example(nodes=[(0, 0), (FAST - 1, FAST - 2), (3, 1)], repeats=50, more=0, config=b"used")
@example(nodes=[(FAST * 64 + 1, (FAST * 64 + 1) * 77 // 100)], repeats=4, more=0, config=b"used")
@example(nodes=[(FAST * 64 + 1, (FAST * 64 + 1) * 77 // 100)], repeats=4, more=1, config=b"used")
@example(nodes=[(MOST, MOST // 3), (MOST, 0)], repeats=1, more=MOST, config=b"used")
@example(nodes=[(MOST, MOST // 3)], repeats=3, more=1, config=b"free")
def test_percentages_are_those_of_integers(
    wasm: bytes, nodes: list[tuple[int, int]], repeats: int, more: int, config: bytes
) -> None:
    nodes = nodes * repeats
    expected = [by_integers(config, whole, used, more) for whole, used in nodes]
    with reported(wasm, config, nodes) as guest:
        assert guest.scores(more) == pack("q", *expected)
        some = list(range(0, len(nodes), 2))
        assert guest.scores(more, some) == pack("q", *(expected[row] for row in some))
