from __future__ import annotations

import math
from collections import Counter

from kscheduler.config.duration import Duration
from kscheduler.config.metric_policy import Freshness, Metric
from kscheduler.snapshot.metric_columns import MetricColumn
from kscheduler.snapshot.node_table import NodeTable
from kscheduler.telemetry.columns import BookColumn
from kscheduler.telemetry.node_rows import NodeRows
from kscheduler.telemetry.sample_book import SampleBook
from kscheduler.telemetry.source import Reading, Sample
from kscheduler.testing.wrappers import make_node

WALL = 1_700_000_000.0
MINUTE = Freshness(max_age=Duration.of_seconds(60))


class Desk:
    """One column over three nodes, and the book behind it."""

    def __init__(self, freshness: Freshness | None = MINUTE) -> None:
        self.table = NodeTable()
        for name in "abc":
            self.table.set_node(make_node(name).obj())
        self.rows = NodeRows(self.table, self._clear)
        self.book = SampleBook(Metric(name="load", source="s"), self.rows, 15.0)
        self.columns: list[BookColumn] = []
        self.column = BookColumn(self.book, self.rows, freshness, 0.0)
        self.columns.append(self.column)

    def _clear(self, changed: list[int]) -> None:
        self.book.clear(changed)
        for column in self.columns:
            column.clear(changed)

    def read(self, now: float, **samples: tuple[float, float]) -> None:
        reading = Reading({node: Sample(value, WALL + stamp) for node, (value, stamp) in samples.items()})
        self.book.take(reading.samples.items(), self.book.bounds(reading), now, WALL + now, Counter())
        self.book.complete(now)

    @property
    def values(self) -> list[float | None]:
        return [None if math.isnan(value) else value for value in self.column.values]


def test_it_is_what_plugins_expect_of_a_column() -> None:
    column: MetricColumn = Desk().column
    assert column.name == "load"
    assert column.values.format == "d"
    assert (column.sampled_at, column.window_s) == (0.0, 0.0)


def test_values_appear_with_a_refresh_and_not_before() -> None:
    desk = Desk()
    version = desk.column.version
    desk.read(0.0, a=(1.0, 0.0), c=(3.0, 0.0))
    assert desk.values == [None, None, None]
    assert desk.column.refresh(0.0)
    assert desk.values == [1.0, None, 3.0]
    assert (desk.column.least, desk.column.most, desk.column.present) == (1.0, 3.0, 2)
    assert desk.column.version > version


def test_a_refresh_that_changes_nothing_is_no_new_version() -> None:
    desk = Desk()
    desk.read(0.0, a=(1.0, 0.0))
    desk.column.refresh(0.0)
    version = desk.column.version
    assert not desk.column.refresh(30.0)
    assert desk.column.version == version


def test_each_value_expires_by_its_own_age() -> None:
    desk = Desk()
    desk.read(50.0, a=(1.0, 0.0), b=(2.0, 20.0), c=(3.0, 50.0))
    desk.column.refresh(50.0)
    assert desk.column.expires_at == 60.0
    desk.column.refresh(60.0)
    assert desk.values == [None, 2.0, 3.0]
    assert desk.column.expires_at == 80.0
    desk.column.refresh(200.0)
    assert desk.values == [None, None, None]
    assert desk.column.expires_at == math.inf
    assert math.isnan(desk.column.most)


def test_the_last_good_values_never_expire() -> None:
    desk = Desk(None)
    desk.read(0.0, a=(1.0, 0.0))
    desk.column.refresh(1e9)
    assert desk.values == [1.0, None, None]
    assert desk.column.expires_at == math.inf


def test_it_says_when_each_value_was_sampled() -> None:
    desk = Desk()
    desk.read(50.0, a=(1.0, 10.0), b=(2.0, 20.0))
    desk.column.refresh(50.0)
    assert list(desk.column.sampled) == [10.0, 20.0, math.inf]
    assert desk.column.sampled_at == 20.0


def test_rows_follow_the_node_table_without_a_refresh() -> None:
    desk = Desk()
    desk.read(0.0, a=(1.0, 0.0), b=(2.0, 0.0), c=(3.0, 0.0))
    desk.column.refresh(0.0)
    held = desk.column.values
    desk.table.remove_node("c")
    assert desk.values == [1.0, 2.0, None]
    assert desk.column.most == 2.0
    desk.table.set_node(make_node("d").obj())  # in the row of c
    desk.table.set_node(make_node("e").obj())
    assert desk.values == [1.0, 2.0, None, None]
    assert len(desk.column.sampled) == 4
    assert len(held) == 3  # the old view may still be held


def test_a_change_of_labels_takes_no_value_away() -> None:
    desk = Desk()
    desk.read(0.0, a=(1.0, 0.0))
    desk.column.refresh(0.0)
    version = desk.column.version
    desk.table.set_node(make_node("a").label(zone="z").obj())
    assert desk.values == [1.0, None, None]
    assert desk.column.version == version
