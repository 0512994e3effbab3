"""Which rows have an extended resource: the index follows nodes that come, change and go."""

from __future__ import annotations

from kscheduler.cache.cache import Cache
from kscheduler.snapshot.resource_owners import ResourceOwners
from kscheduler.testing import make_node

GPU, NIC = "example.com/gpu", "example.com/nic"


def test_rows_are_those_of_nodes_that_name_the_resource() -> None:
    cache = Cache()
    owners = ResourceOwners(cache.table)
    assert owners.rows([GPU]) == set()
    for name, amounts in {"a": {}, "b": {GPU: "0"}, "c": {GPU: "2", NIC: "1"}, "d": {NIC: "1"}}.items():
        cache.set_node(make_node(name).capacity(cpu="4", **amounts).obj())
    row = {name: cache.table.row_of(name) for name in "abcd"}
    assert owners.rows([GPU]) == {row["b"], row["c"]}
    assert owners.rows([GPU, NIC]) == {row["b"], row["c"], row["d"]}
    cache.set_node(make_node("b").capacity(cpu="4").obj())
    cache.set_node(make_node("a").capacity(cpu="4", **{GPU: "1"}).obj())
    cache.remove_node("c")
    assert owners.rows([GPU]) == {row["a"]}
    assert owners.rows([NIC]) == {row["d"]}
    cache.set_node(make_node("e").capacity(cpu="4", **{NIC: "1"}).obj())  # perhaps in the row of c
    assert owners.rows([GPU]) == {row["a"]}
    assert owners.rows([NIC]) == {row["d"], cache.table.row_of("e")}
