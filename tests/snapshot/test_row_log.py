from __future__ import annotations

from kscheduler.snapshot.node_table import NodeTable
from kscheduler.snapshot.row_log import RowLog
from kscheduler.testing import make_node


def test_a_reader_gets_each_row_once() -> None:
    log = RowLog()
    for row in (3, 1, 3):
        log.add(row)
    seen = log.count
    log.add(2)
    assert (log.since(0), log.since(seen), log.since(log.count)) == ([1, 2, 3], [2], [])


def test_a_reader_that_comes_too_late_gets_no_rows() -> None:
    log = RowLog(most=2)
    for row in range(5):
        log.add(row)
    assert (log.count, log.since(0), log.since(2), log.since(4)) == (5, None, [2, 3, 4], [4])


def test_the_table_notes_what_plugins_see_of_nodes() -> None:
    table = NodeTable()
    table.set_node(make_node("a").obj())
    table.set_node(make_node("b").obj())
    assert table.node_changes.since(0) == [0, 1]
    seen = table.node_changes.count
    table.set_node(make_node("b").condition("Ready", "True").obj())
    assert table.node_changes.since(seen) == []
    table.set_node(make_node("b").annotation("rack", "7").obj())
    assert table.node_changes.since(seen) == [1]
    table.remove_node("a")
    assert table.node_changes.since(seen) == [0, 1]
