from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kscheduler._fast import DomainTally, RowMask
from kscheduler.cache.cache import Cache
from kscheduler.errors import InternalError
from kscheduler.snapshot import pod_counters
from kscheduler.snapshot.node_table import NodeTable
from kscheduler.snapshot.pod_counters import RowCounter
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.snapshot.pod_labels import LabelClass
from kscheduler.testing import PodBuilder, make_node, make_pod
from tests.support.checks import check_cache, check_table


def a_table(nodes: int = 3) -> NodeTable:
    table = NodeTable()
    for number in range(nodes):
        table.set_node(make_node(f"n{number}").obj())
    return table


def place(table: NodeTable, pod: PodBuilder, node: str) -> PodInfo:
    info, at = PodInfo(pod.obj()), table.get(node)
    assert at is not None
    table.add_pod(at, info)
    return info


def web(group: LabelClass) -> int:
    return int(group.labels.get("app") == "web")


def by_node(table: NodeTable, counter: RowCounter) -> dict[str, int]:
    return {node.name: counter.values[node.row] for node in table}


def ask(table: NodeTable, weigh: Callable[[LabelClass], int] = web) -> dict[str, int]:
    return by_node(table, table.counters.by_labels.counter(weigh.__name__, weigh))


def test_pods_with_equal_namespaces_and_labels_are_one_class() -> None:
    table = a_table()
    for number in range(3):
        place(table, make_pod(f"p{number}").uid(f"{number}").label(app="web"), f"n{number % 2}")
    place(table, make_pod("q", "other").uid("q").label(app="web"), "n0")
    place(table, make_pod("r").uid("r").label(app="web").terminating(), "n0")
    classes = {(group.namespace, group.is_terminating): group.rows for group in table.counters.by_labels}
    assert classes == {("default", False): {0: 2, 1: 1}, ("other", False): {0: 1}, ("default", True): {0: 1}}


def test_a_question_is_answered_for_pods_that_are_there_and_for_those_that_come() -> None:
    table = a_table()
    place(table, make_pod("a").uid("a").label(app="web"), "n0")
    place(table, make_pod("b").uid("b").label(app="db"), "n0")
    assert ask(table) == {"n0": 1, "n1": 0, "n2": 0}
    again = place(table, make_pod("c").uid("c").label(app="web"), "n1")
    place(table, make_pod("d").uid("d").label(app="web", tier="x"), "n1")
    assert ask(table) == {"n0": 1, "n1": 2, "n2": 0}
    node = table.get("n1")
    assert node is not None
    table.remove_pod(node, again)
    assert ask(table) == {"n0": 1, "n1": 1, "n2": 0}
    check_table(table)


def test_a_group_is_asked_about_once() -> None:
    table, asked = a_table(), list[object]()

    def weigh(group: LabelClass) -> int:
        asked.append(group.labels.get("app"))
        return 1

    for number, app in enumerate(["web", "db", "web", "db"]):
        place(table, make_pod(f"p{number}").uid(f"{number}").label(app=app), "n0")
        ask(table, weigh)
    assert asked == ["web", "db"]


def test_weights_multiply_and_may_be_negative() -> None:
    table = a_table()
    place(table, make_pod("a").uid("a").label(app="web"), "n0")
    place(table, make_pod("b").uid("b").label(app="web"), "n0")

    def weigh(group: LabelClass) -> int:
        return -5

    assert ask(table, weigh) == {"n0": -10, "n1": 0, "n2": 0}
    assert table.counters.by_labels.counter("weigh", weigh).total == -10


def test_a_node_takes_its_pods_along_and_a_reused_row_is_empty() -> None:
    table = a_table(2)
    place(table, make_pod("a").uid("a").label(app="web"), "n0")
    assert ask(table) == {"n0": 1, "n1": 0}
    table.remove_node("n0")
    table.set_node(make_node("n9").obj())
    assert ask(table) == {"n9": 0, "n1": 0}
    assert len(table.counters.by_labels) == 0
    check_table(table)


def test_a_group_that_comes_again_is_asked_about_again() -> None:
    table = a_table()
    node = table.get("n0")
    assert node is not None
    for _ in range(300):
        info = place(table, make_pod("a").uid("a").label(app="web"), "n0")
        assert ask(table)["n0"] == 1
        table.remove_pod(node, info)
        assert ask(table)["n0"] == 0
    assert len(table.counters.by_labels._appeared) < 200


def test_a_counter_is_as_long_as_the_table() -> None:
    table = a_table(1)
    ask(table)
    for number in range(200):
        table.set_node(make_node(f"m{number}").obj())
    assert len(table.counters.by_labels.counter("web", web).values) >= 201


def test_counters_that_are_asked_for_least_make_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pod_counters, "MAX_BYTES", 0)
    monkeypatch.setattr(pod_counters, "MIN_KEPT", 3)
    table = a_table()
    place(table, make_pod("a").uid("a").label(app="web"), "n0")
    first = table.counters.by_labels.counter(0, web)
    for key in (1, 2):
        table.counters.by_labels.counter(key, web)
    assert table.counters.by_labels.counter(0, web) is first
    table.counters.by_labels.counter(3, web)
    assert table.counters.by_labels.counter(0, web) is first
    place(table, make_pod("b").uid("b").label(app="web"), "n0")
    assert by_node(table, table.counters.by_labels.counter(1, web))["n0"] == 2
    (group,) = table.counters.by_labels
    assert len(group.counted_by) == 3
    check_table(table)


def test_pods_that_hold_a_term_are_counted_by_it() -> None:
    table = a_table()
    pod = make_pod("a").uid("a").pod_anti_affinity("zone", {"app": "web"})
    place(table, pod, "n1")
    place(table, make_pod("b").uid("b"), "n1")
    (held,) = table.counters.by_terms
    assert held.rows == {1: 1}
    counter = table.counters.by_terms.counter("zone", lambda group: 3 * (group.term.term.topology_key == "zone"))
    assert by_node(table, counter) == {"n0": 0, "n1": 3, "n2": 0}
    check_table(table)


def test_the_check_finds_a_counter_that_is_wrong() -> None:
    table = a_table()
    place(table, make_pod("a").uid("a").label(app="web"), "n0")
    counter = table.counters.by_labels.counter("web", web)
    counter.values[1] += 1
    with pytest.raises(InternalError, match=r"^counter web: "):
        check_table(table)
    counter.values[1] -= 1
    next(iter(table.counters.by_labels)).rows[0] += 1
    with pytest.raises(InternalError, match=r"^pods of \('default', "):
        check_table(table)


def test_a_pod_whose_labels_change_is_counted_again() -> None:
    cache = Cache(a_table())
    pod = make_pod("a").uid("a").node("n0")
    cache.set_pod(PodInfo(pod.label(app="web").obj()))
    assert ask(cache.table)["n0"] == 1
    cache.set_pod(PodInfo(pod.label(app="db").obj()))
    assert ask(cache.table)["n0"] == 0
    cache.set_pod(PodInfo(pod.label(app="web").terminating().obj()))
    (group,) = cache.table.counters.by_labels
    assert group.is_terminating
    check_cache(cache)


steps = st.lists(
    st.tuples(
        st.sampled_from(["pod", "pod", "gone", "node", "node gone", "ask", "ask"]),
        st.integers(0, 4),
        st.integers(0, 3),
        st.sampled_from(["web", "db", None]),
        st.booleans(),
    ),
    max_size=40,
)


@settings(deadline=None)
@given(steps)
def test_counters_always_say_what_the_pods_say(sequence: list[tuple[str, int, int, Any, bool]]) -> None:
    cache = Cache()
    for what, one, other, app, flag in sequence:
        if what == "pod":
            pod = make_pod(f"p{one}").uid(f"p{one}").node(f"n{other}")
            pod = pod.label(app=app) if app else pod
            cache.set_pod(PodInfo((pod.terminating() if flag else pod).obj()))
        elif what == "gone":
            cache.remove_pod(f"p{one}")
        elif what == "node":
            cache.set_node(make_node(f"n{other}").obj())
        elif what == "node gone":
            cache.remove_node(f"n{other}")
        else:
            cache.table.counters.by_labels.counter("web", web)
        check_cache(cache)
    pods = {node.name: [info.pod.metadata.labels or {} for info in node.pods.values()] for node in cache.table}
    expected = {name: sum(labels.get("app") == "web" for labels in there) for name, there in pods.items()}
    assert ask(cache.table) == expected


# --- sums by domain ---------------------------------------------------------------------------------------------


def by_zone(table: NodeTable, counter: RowCounter, way: str = "zone") -> DomainTally:
    def build(tally: DomainTally) -> None:
        mask, column = RowMask(), table.topology.column("zone")
        mask.take_alive(table.columns)
        tally.rebuild(counter.values, column.ids, column.size, mask)

    return counter.tally(way, table.static_generation, build)


def zoned_table() -> NodeTable:
    table = NodeTable()
    for name, zone in (("n0", "a"), ("n1", "a"), ("n2", "b")):
        table.set_node(make_node(name).label(zone=zone).obj())
    return table


def test_sums_by_domain_follow_pods_that_come_and_go() -> None:
    table = zoned_table()
    counter = table.counters.by_labels.counter("all", lambda group: 1)
    tally = by_zone(table, counter)
    gone = place(table, make_pod("a").uid("a"), "n0")
    place(table, make_pod("b").uid("b"), "n1")
    counter = table.counters.by_labels.counter("all", lambda group: 1)
    assert by_zone(table, counter) is tally
    assert [tally.sum_of(row) for row in range(3)] == [2, 2, 0]
    node = table.get("n0")
    assert node is not None
    table.remove_pod(node, gone)
    assert [tally.sum_of(row) for row in range(3)] == [1, 1, 0]
    check_table(table)


def test_sums_are_made_again_when_nodes_have_changed() -> None:
    table = zoned_table()
    place(table, make_pod("a").uid("a"), "n0")
    counter = table.counters.by_labels.counter("all", lambda group: 1)
    tally = by_zone(table, counter)
    table.set_node(make_node("n2").label(zone="a").obj())
    table.set_node(make_node("n3").label(zone="b").obj())
    check_table(table)
    counter = table.counters.by_labels.counter("all", lambda group: 1)
    assert by_zone(table, counter) is tally
    assert [tally.sum_of(row) for row in range(4)] == [1, 1, 1, 0]


def test_sums_and_counters_that_are_given_up_are_no_longer_good(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pod_counters, "MAX_TALLIES", 2)
    monkeypatch.setattr(pod_counters, "MIN_KEPT", 2)
    monkeypatch.setattr(pod_counters, "MAX_BYTES", 0)
    table = zoned_table()
    counter = table.counters.by_labels.counter("all", lambda group: 1)
    tallies = [by_zone(table, counter, way) for way in ("first", "second", "third")]
    assert [tally.is_good for tally in tallies] == [False, True, True]
    for question in ("others", "and more"):
        table.counters.by_labels.counter(question, lambda group: 0)
    assert not any(tally.is_good for tally in tallies)
    place(table, make_pod("a").uid("a"), "n0")
    check_table(table)


def test_the_check_reports_sums_that_are_wrong() -> None:
    table = zoned_table()
    by_zone(table, table.counters.by_labels.counter("all", lambda group: 1)).add(0, 1)
    with pytest.raises(InternalError, match=r"^sums by zone: .* kept, built again they are "):
        check_table(table)
