from __future__ import annotations

from kscheduler.snapshot.node_table import NodeTable
from kscheduler.telemetry.node_rows import NodeRows
from kscheduler.testing.wrappers import make_node


class Desk:
    def __init__(self) -> None:
        self.table = NodeTable()
        self.reported: list[list[int]] = []
        self.rows = NodeRows(self.table, self.reported.append)

    def changed(self) -> list[list[int]]:
        """What it has reported since the last time."""
        self.rows.follow()
        reported, self.reported[:] = list(self.reported), []
        return reported


def test_new_rows_are_reported_all_at_once() -> None:
    desk = Desk()
    for name in "abc":
        desk.table.set_node(make_node(name).obj())
    assert desk.changed() == [[0, 1, 2]]
    assert (len(desk.rows), desk.rows.node_count, desk.rows.find("b")) == (3, 3, 1)
    assert desk.changed() == []


def test_a_row_is_reported_when_its_node_goes_and_when_another_comes() -> None:
    desk = Desk()
    for name in "ab":
        desk.table.set_node(make_node(name).obj())
    desk.changed()
    desk.table.remove_node("a")
    assert desk.changed() == [[0]]
    desk.table.set_node(make_node("c").obj())
    assert desk.changed() == [[0]]
    desk.table.remove_node("c")
    desk.table.set_node(make_node("d").obj())
    assert desk.changed() == [[0]]  # both changes at once


def test_a_node_that_was_replaced_under_its_name_is_another() -> None:
    desk = Desk()
    desk.table.set_node(make_node("a").uid("1").obj())
    desk.changed()
    desk.table.remove_node("a")
    desk.table.set_node(make_node("a").uid("2").obj())
    assert desk.changed() == [[0]]


def test_a_change_within_a_node_is_none() -> None:
    desk = Desk()
    desk.table.set_node(make_node("a").obj())
    desk.changed()
    desk.table.set_node(make_node("a").label(zone="z").obj())
    assert desk.changed() == []


def test_nothing_is_missed_when_more_has_changed_than_the_table_remembers() -> None:
    desk = Desk()
    desk.table.set_node(make_node("a").obj())
    desk.table.set_node(make_node("b").obj())
    desk.changed()
    desk.table.remove_node("b")
    for _ in range(20_000):
        desk.table.node_changes.add(0)
    assert desk.changed() == [[1]]
