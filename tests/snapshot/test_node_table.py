"""The table of nodes: rows, and the indexes that must always agree with them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kscheduler.api.objects import Node, Pod
from kscheduler.cache.cache import Cache
from kscheduler.errors import DecodeError, InternalError
from kscheduler.snapshot.node_info import NodeInfo
from kscheduler.snapshot.node_table import NodeTable
from kscheduler.snapshot.pod_info import HostPort, PodInfo
from kscheduler.testing import make_node, make_pod
from tests.support.changes import cordon, relabel, resize, taint
from tests.support.checks import check_cache, check_table

GPU = "example.com/gpu"
ABSURD = "1" + 30 * "0"


def a_node(name: str = "n1", **capacity: Any) -> Node:
    return make_node(name).capacity(**{"cpu": "4", "memory": "8Gi", **capacity}).obj()


def a_pod(name: str, **requests: Any) -> PodInfo:
    return PodInfo(make_pod(name).req(**requests).obj())


def infos(table: NodeTable) -> dict[str, NodeInfo]:
    return {info.name: info for info in table}


# --- nodes --------------------------------------------------------------------------------------------------------


def test_a_node_has_a_row_by_which_and_by_whose_name_it_is_found() -> None:
    table = NodeTable()
    info = table.set_node(a_node())
    assert table.at(info.row) is info
    assert table.get("n1") is info
    assert table.row_of("n1") == info.row
    assert table.get("n2") is None
    assert table.row_of("n2") is None
    assert len(table) == 1


def test_rows_are_stable_while_a_node_lives_and_reused_afterwards() -> None:
    table = NodeTable()
    rows = {name: table.set_node(a_node(name)).row for name in ("n1", "n2", "n3")}
    table.remove_node("n2")
    assert table.set_node(a_node("n4")).row == rows["n2"]
    assert {info.name: info.row for info in table} == {"n1": rows["n1"], "n3": rows["n3"], "n4": rows["n2"]}


def test_the_table_grows_beyond_its_first_capacity() -> None:
    table = NodeTable(capacity=2)
    for index in range(100):
        info = table.set_node(a_node(f"n{index}", cpu=str(index)))
        table.add_pod(info, a_pod(f"p{index}", cpu="1m"))
    check_table(table)
    assert [table.at(row).free(0) for row in range(100)] == [1000 * row - 1 for row in range(100)]


@pytest.mark.parametrize("row", [-1, 1, 1000])
def test_a_row_without_a_node_is_an_error_that_names_it(row: int) -> None:
    table = NodeTable()
    table.set_node(a_node())
    with pytest.raises(InternalError, match=f"row {row}"):
        table.at(row)


def test_a_node_that_cannot_be_read_changes_nothing() -> None:
    table = NodeTable()
    info = table.set_node(a_node())
    with pytest.raises(DecodeError, match=r"status.allocatable\[cpu\]"):
        table.set_node(resize(cpu="-1")(a_node()))
    with pytest.raises(DecodeError):
        table.set_node(a_node("n2", memory="much"))
    assert infos(table) == {"n1": info}
    assert info.allocatable.resources.cpu_milli == 4000
    check_table(table)


def test_an_update_keeps_row_and_pods_and_takes_what_is_new() -> None:
    table = NodeTable()
    info = table.set_node(a_node())
    table.add_pod(info, a_pod("p", cpu="1"))
    again = table.set_node(relabel(zone="a")(resize(cpu="8")(a_node())))
    assert again is info
    assert info.free(0) == 7000
    assert info.labels["zone"] == "a"
    assert set(info.pods) == {"uid-default-p"}
    check_table(table)


def test_a_resource_that_a_node_no_longer_has_is_zero() -> None:
    table = NodeTable()
    info = table.set_node(a_node(**{GPU: "4"}))
    column = table.resources.column(GPU)
    assert info.free(column) == 4
    table.set_node(a_node())
    assert info.free(column) == 0


def test_absurd_amounts_are_capped_and_more_than_any_node_has_is_still_more() -> None:
    table = NodeTable()
    info = table.set_node(a_node(cpu=ABSURD, memory=ABSURD, pods=ABSURD, **{GPU: ABSURD}))
    check_table(table)
    for name in ("cpu", "memory", GPU):
        greedy = dict(table.request_of(a_pod("p", **{name: ABSURD})).entries)
        column = table.resources.column(name)
        assert greedy[column] > info.free(column)


@pytest.mark.parametrize(
    ("change", "is_static"),
    [(relabel(zone="a"), True), (taint(), True), (cordon(), True), (resize(cpu="1"), False)],
)
def test_the_generation_changes_with_labels_taints_and_cordons_only(change: Any, is_static: bool) -> None:
    table = NodeTable()
    table.set_node(a_node())
    before = table.static_generation
    table.set_node(change(a_node()))
    assert (table.static_generation > before) == is_static


def test_nodes_that_are_equal_for_static_filters_share_a_node_class() -> None:
    table = NodeTable()
    one, two = table.set_node(a_node("n1")), table.set_node(a_node("n2"))
    assert one.node_class is two.node_class
    table.set_node(cordon()(a_node("n2")))
    assert one.node_class is not two.node_class
    assert table.columns.node_class(two.row) == two.node_class.id


# --- pods ---------------------------------------------------------------------------------------------------------


def test_what_pods_request_is_summed_and_taken_back() -> None:
    table = NodeTable()
    info = table.set_node(a_node(**{GPU: "4"}))
    one, two = a_pod("one", cpu="500m", memory="1Gi", **{GPU: "1"}), a_pod("two", cpu="1")
    table.add_pod(info, one)
    table.add_pod(info, two)
    assert (info.requested.cpu_milli, info.requested.memory) == (1500, 1 << 30)
    assert dict(info.requested.scalars) == {GPU: 1}
    assert info.non_zero_requested == (1500, (1 << 30) + 200 * 1024 * 1024)
    table.remove_pod(info, one)
    assert (info.requested.cpu_milli, info.requested.memory, dict(info.requested.scalars)) == (1000, 0, {})
    check_table(table)


def test_a_node_may_be_overcommitted_and_then_has_less_than_nothing_free() -> None:
    table = NodeTable()
    info = table.set_node(a_node(cpu="1"))
    table.add_pod(info, a_pod("p", cpu="3"))
    assert info.free(0) == -2000


def test_what_is_free_is_found_by_the_name_of_a_resource() -> None:
    table = NodeTable()
    info = table.set_node(a_node(cpu="1", pods=3, **{GPU: "4"}))
    table.add_pod(info, a_pod("p", cpu="3", **{GPU: "1"}))
    names = ("cpu", "memory", GPU, "pods", "example.com/unheard-of")
    assert [info.free_of(name) for name in names] == [-2000, 8 << 30, 3, 2, 0]


def test_a_node_that_is_removed_takes_ports_and_images_with_it_and_returns_its_pods() -> None:
    table = NodeTable()
    info = table.set_node(make_node("n1").capacity().image("app:1", 5).obj())
    pod = PodInfo(make_pod("p").host_port(80).obj())
    table.add_pod(info, pod)
    assert table.images.get("app:1") is not None
    assert table.remove_node("n1") == [pod]
    assert table.images.get("app:1") is None
    assert table.ports.conflicting_rows([HostPort("TCP", 80, "0.0.0.0")]) == []
    assert table.columns.pod_count(table.set_node(a_node("n2")).row) == 0


def test_images_follow_the_node() -> None:
    table = NodeTable()
    table.set_node(make_node("n1").capacity().image("app:1", 5).obj())
    table.set_node(make_node("n1").capacity().image("app:2", 5).obj())
    assert table.images.get("app:1") is None
    found = table.images.get("app:2")
    assert found is not None
    assert list(found.rows()) == [table.row_of("n1")]


def test_check_finds_a_column_that_lies() -> None:
    table = NodeTable()
    info = table.set_node(a_node())
    table.columns.add_pod(info.row, table.request_of(a_pod("p", cpu="1")))
    with pytest.raises(InternalError, match="node n1: cpu requested 1000, its pods sum to 0"):
        check_table(table)


# --- any sequence -------------------------------------------------------------------------------------------------


operations = st.lists(
    st.tuples(
        st.sampled_from(["set", "remove", "add", "take"]),
        st.integers(0, 5),
        st.integers(0, 9),
        st.sampled_from(["0", "1", "2500m"]),
    ),
    max_size=60,
)


@settings(max_examples=100, deadline=None)
@given(operations)
def test_columns_and_indexes_agree_after_any_sequence(steps: list[tuple[str, int, int, str]]) -> None:
    table = NodeTable(capacity=1)
    for what, node, pod, amount in steps:
        name, info = f"n{node}", table.get(f"n{node}")
        if what == "set":
            scalars = {f"example.com/r{pod}": amount}
            table.set_node(make_node(name).capacity(cpu=amount, pods=pod, **scalars).label(zone=str(pod % 3)).obj())
        elif info is None:
            continue
        elif what == "remove":
            table.remove_node(name)
        elif what == "add" and f"uid-default-p{pod}" not in info.pods:
            made: Pod = (
                make_pod(f"p{pod}").req(cpu=amount, **{f"example.com/r{node}": amount}).host_port(80 + pod).obj()
            )
            table.add_pod(info, PodInfo(made))
        elif what == "take" and f"uid-default-p{pod}" in info.pods:
            table.remove_pod(info, info.pods[f"uid-default-p{pod}"])
        check_table(table)
        expected = {info.row for info in table for held in info.pods.values() if held.key == f"default/p{pod}"}
        assert set(table.ports.conflicting_rows([HostPort("TCP", 80 + pod, "0.0.0.0")])) == expected


def test_the_lowest_priority_is_known_as_pods_come_and_go() -> None:
    cache = Cache()

    def lowest() -> int | None:  # a call, so that type checkers do not remember the last answer
        return cache.table.lowest_priority

    assert lowest() is None
    cache.set_pod(PodInfo(make_pod("early").priority(1).node("n1").obj()))  # its node is not known yet
    assert lowest() is None
    cache.set_node(make_node("n1").capacity(cpu="1").obj())
    cache.set_pod(PodInfo(make_pod("other").priority(7).node("n1").obj()))
    assert lowest() == 1
    cache.remove_pod("uid-default-early")
    assert lowest() == 7
    check_cache(cache)
    cache.remove_node("n1")
    assert lowest() is None
    check_cache(cache)
