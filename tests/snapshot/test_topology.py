from __future__ import annotations

from msgspec.structs import replace

from kscheduler.snapshot.node_table import NodeTable
from kscheduler.snapshot.topology import MAX_KEYS, NO_DOMAIN, DomainColumn
from kscheduler.testing import make_node


def domains(table: NodeTable, key: str) -> dict[str, str | None]:
    """Node name -> name of its domain."""
    column = table.topology.column(key)
    ids = {node.name: column.ids[node.row] for node in table}
    return {name: None if domain == NO_DOMAIN else column.names[domain] for name, domain in ids.items()}


def test_a_key_gets_a_column_of_what_the_nodes_say() -> None:
    table = NodeTable()
    for name, zone in (("a", "east"), ("b", "west"), ("c", "east")):
        table.set_node(make_node(name).label("zone", zone).obj())
    table.set_node(make_node("d").obj())
    assert domains(table, "zone") == {"a": "east", "b": "west", "c": "east", "d": None}
    column = table.topology.column("zone")
    assert column.size == 2
    assert column.id_of("north") == NO_DOMAIN
    assert len(column.ids) >= table.columns.rows


def test_the_column_follows_nodes_that_come_change_and_go() -> None:
    table = NodeTable()
    node = make_node("a").label("zone", "east").obj()
    table.set_node(node)
    assert domains(table, "zone") == {"a": "east"}
    table.set_node(make_node("b").label("zone", "").obj())
    table.set_node(replace(node, metadata=replace(node.metadata, labels={"zone": "west"})))
    assert domains(table, "zone") == {"a": "west", "b": ""}
    table.set_node(replace(node, metadata=replace(node.metadata, labels=None)))
    assert domains(table, "zone") == {"a": None, "b": ""}
    table.remove_node("b")
    assert set(table.topology.column("zone").ids) == {NO_DOMAIN}


def test_the_id_of_a_domain_without_nodes_is_used_again() -> None:
    table = NodeTable()
    table.topology.column("kubernetes.io/hostname")
    for number in range(50):
        table.set_node(make_node(f"n{number}").label("kubernetes.io/hostname", f"n{number}").obj())
        if number:
            table.remove_node(f"n{number - 1}")
    column = table.topology.column("kubernetes.io/hostname")
    assert column.size == 2
    assert domains(table, "kubernetes.io/hostname") == {"n49": "n49"}


def test_a_row_that_moves_within_one_domain_keeps_its_id() -> None:
    column = DomainColumn()
    column.set(0, "east")
    column.set(0, "east")
    assert (column.ids[0], column.size) == (0, 1)


def test_a_new_row_has_no_domain_until_its_node_says_so() -> None:
    table = NodeTable()
    table.set_node(make_node("a").label("zone", "east").obj())
    table.topology.column("zone")
    row = table.columns.add_row()
    assert table.topology.column("zone").ids[row] == NO_DOMAIN


def test_keys_that_nobody_asks_for_any_more_are_given_up() -> None:
    table = NodeTable()
    table.set_node(make_node("a").label("zone", "east").obj())
    first = table.topology.column("zone")
    for number in range(MAX_KEYS - 1):
        table.topology.column(f"key{number}")
    assert table.topology.column("zone") is first
    table.topology.column("one more")
    assert table.topology.column("zone") is first
    for number in range(MAX_KEYS):
        table.topology.column(f"other{number}")
    assert table.topology.column("zone") is not first
    assert domains(table, "zone") == {"a": "east"}
