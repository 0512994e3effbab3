"""Live values of nodes are passed to guests as columns, and their answers follow them."""

from __future__ import annotations

import math
from array import array
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kscheduler.config.metric_policy import Freshness
from kscheduler.framework.telemetry import Telemetry
from kscheduler.input.redaction import SecretURL
from kscheduler.snapshot.node_table import NodeTable
from kscheduler.testing import make_node, make_pod
from kscheduler.wasm.arguments import WasmArguments
from kscheduler.wasm.batch.metric_feed import NO_METRIC, NOBODYS, MetricFeed, TelemetryColumns
from kscheduler.wasm.batch.version import Surroundings
from tests.wasm.batch.fake_guest import FakeModule, ListGuest, pack, unpack
from tests.wasm.batch.fake_guests import lanes_of
from tests.wasm.batch.play import Play, rows_of
from tests.wasm.batch.plugins import URL, Made, make_table, one, score_all

METRICS = {"depends": ["metrics"], "metrics": ["watts", "load"]}


class Sources:
    """A provider of fixed values: metric -> node -> value."""

    def __init__(self, *tables: NodeTable) -> None:
        self.tables = tables
        self.by_node: dict[str, dict[str, float]] = {}
        self.changes = 0

    def set(self, metric: str, node: str, value: float) -> None:
        self.by_node.setdefault(metric, {})[node] = value
        self.changes += 1

    def of(self, table: NodeTable) -> Columns:
        return Columns(self, table)


class Columns:
    def __init__(self, sources: Sources, table: NodeTable) -> None:
        self.sources = sources
        self.table = table
        self.asked: list[str] = []

    def version(self, name: str) -> int:
        if name not in self.sources.by_node:
            return NOBODYS
        return self.sources.changes + self.table.node_changes.count

    def values(self, name: str) -> memoryview | None:
        self.asked.append(name)
        found = self.sources.by_node.get(name)
        if found is None:
            return None
        nodes = [self.table.find(row) for row in range(self.table.columns.rows)]
        return memoryview(array("d", [math.nan if node is None else found.get(node.name, math.nan) for node in nodes]))


def by_watts(guest: ListGuest, point: int, question: Any) -> Any:
    watts = [guest.rows[row]["metrics/watts"] for row in rows_of(guest, question)]
    return one(scores=pack("q", *(0 if value == NO_METRIC else min(max(value // 1000, 0), 100) for value in watts)))


def made_with(table: NodeTable, columns: Any, **describe: Any) -> Made:
    guest = ListGuest(["score"], {**METRICS, **describe}, by_watts)
    return Made(FakeModule(guest), table, WasmArguments(guest_url=SecretURL(URL)), Surroundings(metrics=columns))


def test_a_guest_sees_values_in_thousandths_and_rows_that_change() -> None:
    table = make_table(*(make_node(f"n{number}") for number in range(8)))
    sources = Sources()
    sources.set("watts", "n1", 7.0)
    sources.set("watts", "n2", 9.5)
    made = made_with(table, sources.of(table))
    assert score_all(made) == [0, 7, 9, 0, 0, 0, 0, 0]
    assert made.guest.rows[2] == {"alive": 1, "metrics/watts": 9500, "metrics/load": NO_METRIC}
    sources.set("watts", "n3", 50.0)
    sources.set("load", "n5", 1.0)
    assert score_all(made) == [0, 7, 9, 50, 0, 0, 0, 0]
    assert unpack("i", made.guest.tables[-1]["at"]) == [3, 5]
    assert unpack("i", made.guest.calls[-1][1]["rows"]) == [3, 5]
    calls, tables = len(made.guest.calls), len(made.guest.tables)
    sources.set("watts", "n3", 50.0001)  # the same in thousandths
    score_all(made)
    assert (len(made.guest.calls), len(made.guest.tables)) == (calls, tables)
    for number in range(8):
        sources.set("watts", f"n{number}", math.nan if number < 4 else 5.0)
    assert score_all(made) == [0] * 4 + [5] * 4
    assert "at" not in made.guest.tables[-1]


def test_values_are_read_when_their_version_has_changed() -> None:
    table = make_table()
    sources = Sources()
    sources.set("watts", "a", 1.0)
    columns = sources.of(table)
    feed = MetricFeed(["watts", "load"], columns)
    first = feed.follow(3)
    assert (feed.follow(3), columns.asked) == (first, ["watts", "load"])
    sources.set("watts", "b", 2.0)
    assert feed.follow(3) == first + 1
    assert columns.asked == ["watts", "load", "watts"]
    assert feed.pack([1, 2]) == {"watts": pack("q", 2000, NO_METRIC), "load": pack("q", NO_METRIC, NO_METRIC)}


def test_a_guest_without_metrics_follows_nothing() -> None:
    assert not hasattr(made_with(make_table(), None, depends=["pod"], metrics=[]).plugin, "follow")


def test_the_schedulers_own_sources_are_asked_where_nobody_else_provides() -> None:
    class Column:
        version = 3
        values = memoryview(array("d", [4.0]))

    class Watts(Telemetry):
        def column(self, metric: str, freshness: Freshness, *, last_good: bool = False) -> Any:
            if metric == "watts":
                return Column()
            raise KeyError(metric)

    columns = TelemetryColumns(Watts())
    assert (columns.version("watts"), list(columns.values("watts") or ())) == (3, [4.0])
    assert (columns.version("load"), columns.values("load")) == (NOBODYS, None)


steps = st.one_of(
    st.tuples(st.just("schedule"), st.lists(st.integers(0, 3), min_size=1, max_size=6)),
    st.tuples(st.just("schedule"), st.lists(st.integers(0, 3), min_size=1, max_size=6)),
    st.tuples(st.just("value"), st.sampled_from(["watts", "load"]), st.integers(0, 13), st.integers(0, 100)),
    st.tuples(st.just("absent"), st.integers(0, 13)),
    st.tuples(st.just("node"), st.integers(0, 13)),
    st.tuples(st.just("gone"), st.integers(0, 13)),
)


@pytest.mark.slow
@pytest.mark.parametrize("depends", [["metrics"], ["metrics", "usage", "pod", "node"], ["metrics", "other"]], ids=str)
@pytest.mark.parametrize("normalize", ["none", "default"])
@settings(max_examples=15, deadline=None)
@given(sequence=st.lists(steps, max_size=12))
def test_both_lanes_make_the_same_decisions_while_values_change(
    depends: list[str], normalize: str, sequence: list[Any]
) -> None:
    sources = Sources()
    guest = ListGuest(["score"], {**METRICS, "depends": depends, "normalize": normalize}, by_watts)
    play = Play(lanes_of({"Watts": guest}, columns=sources.of))
    for name, *reported in sequence:
        if name == "schedule":
            play.schedule([("100m", wants, "") for wants in reported[0]])
        elif name == "value":
            sources.set(reported[0], f"n{reported[1]}", reported[2])
        elif name == "absent":
            sources.set("watts", f"n{reported[0]}", math.nan)
        elif name == "node":
            play.node(f"n{reported[0]}", reported[0] % 4, "4")
        else:
            play.gone(f"n{reported[0]}")


def test_pods_of_a_guest_that_goes_by_metrics_are_decided_in_the_compiled_lane() -> None:
    sources = Sources()
    play = Play(lanes_of({"Watts": ListGuest(["score"], METRICS, by_watts)}, columns=sources.of, weight=100))
    for value, node in ((30.0, "n1"), (60.0, "n4"), (90.0, "n2")):
        sources.set("watts", node, value)
        outcomes = play.lanes.schedule(*(make_pod(f"p{node}-{number}").obj() for number in range(2)))
        assert [outcome.node for outcome in outcomes] == [node, node]
    assert play.lanes.decided_by_lane == 6
