"""Kernels leave nominated pods their room exactly as the search plugin by plugin does."""

from __future__ import annotations

import random

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from kscheduler.framework.rows_kept import RowsKept
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.testing.wrappers import PodBuilder, make_node, make_pod
from tests.support.lanes import Side, TwoLanes


def nominated(side: Side, name: str, node: str, cpu: int, priority: int = 0) -> None:
    pod = make_pod(name).uid(name).priority(priority).req(cpu=cpu).obj()
    side.nominations.nominate(PodInfo(pod), node)


def kept_from(side: Side, kept: RowsKept, pod: PodBuilder) -> set[str]:
    info = PodInfo(pod.obj())
    table = side.cache.table
    return {table.at(row).name for row in kept.from_pod(table.request_of(info), info.priority)}


def test_rows_are_kept_where_too_little_is_left_beside_pods_of_its_priority() -> None:
    side = Side()
    for name in ("n0", "n1", "n2"):
        side.cache.set_node(make_node(name).capacity(cpu=4, memory="8Gi", pods=110).obj())
    kept = RowsKept(side.cache.table, side.nominations)
    small, large = make_pod("p").req(cpu=1), make_pod("p").req(cpu=2)
    assert kept_from(side, kept, small) == set()
    nominated(side, "a", "n0", 3)
    nominated(side, "b", "n1", 4, priority=5)
    nominated(side, "c", "gone", 4)
    assert kept_from(side, kept, small) == {"n1"}
    assert kept_from(side, kept, large) == {"n0", "n1"}
    assert kept_from(side, kept, large.priority(1)) == {"n1"}
    assert kept_from(side, kept, large.priority(6)) == set()
    assert {side.cache.table.at(row).name for row in kept.rows()} == {"n0", "n1"}


@pytest.mark.parametrize(
    ("within", "expected"),
    [(None, b"\1\0\1"), (b"\0\1\1", b"\0\0\1"), (b"\1", b"\1")],
)
def test_the_other_rows_are_those_within_a_confinement(within: bytes | None, expected: bytes) -> None:
    side = Side()
    for name in ("n0", "n1", "n2"):
        side.cache.set_node(make_node(name).obj())
    assert RowsKept(side.cache.table, side.nominations).others(frozenset([1]), within) == expected


CPU, PRIORITY = st.integers(1, 4), st.sampled_from([0, 0, 5])
NODES = 5


@pytest.mark.parametrize("first_on_tie", [False, True])
@settings(max_examples=80, deadline=None)
@given(
    waiting=st.lists(st.tuples(st.integers(0, NODES), CPU, PRIORITY), min_size=1, max_size=6),
    batches=st.lists(st.lists(st.tuples(CPU, PRIORITY, st.integers(0, 9)), min_size=1, max_size=8), max_size=4),
    seed=st.integers(0, 1 << 32),
)
def test_both_lanes_leave_nominated_pods_their_room(
    first_on_tie: bool,
    waiting: list[tuple[int, int, int]],
    batches: list[list[tuple[int, int, int]]],
    seed: int,
) -> None:
    lanes, rng = TwoLanes(first_on_tie=first_on_tie), random.Random(seed)
    for i in range(NODES):
        lanes.set_node(make_node(f"n{i}").capacity(cpu=8 if i % 2 else 6, memory="8Gi", pods=4 + i).obj())
    for i, (node, cpu, priority) in enumerate(waiting):
        lanes.nominate(make_pod(f"w{i}").uid(f"w{i}").priority(priority).req(cpu=cpu).obj(), f"n{node}")
    number = 0
    for batch in batches:
        pods = []
        for cpu, priority, kind in batch:
            number += 1
            builder = make_pod(f"p{number}").uid(f"p{number}").priority(priority).req(cpu=cpu)
            if kind == 0:
                builder = builder.host_port(80)
            if kind == 1:
                builder = builder.label(app="shy").pod_anti_affinity("kubernetes.io/hostname", {"app": "shy"})
            pods.append(builder.obj())
        lanes.schedule(*pods)
        if rng.random() < 0.5:
            lanes.nominate(make_pod("w0").uid("w0").req(cpu=2).obj(), rng.choice(["", "n1", "n2"]))
        if lanes.placed and rng.random() < 0.5:
            lanes.remove_pod(rng.choice(sorted(lanes.placed)))
