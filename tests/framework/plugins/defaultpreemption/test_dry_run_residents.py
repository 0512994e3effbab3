"""The pods of nodes are looked at again when they are others, or when their order is."""

from __future__ import annotations

import pytest

from kscheduler.framework.plugins.defaultpreemption import dry_run_residents
from kscheduler.framework.plugins.defaultpreemption.dry_run_residents import KeptPods, NodePods
from kscheduler.framework.preemption.importance import by_importance, started_s
from kscheduler.snapshot.node_info import NodeInfo
from kscheduler.snapshot.node_table import NodeTable
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.testing import PodBuilder, make_node, make_pod

EARLY, LATE = "2024-01-01T00:00:00Z", "2024-01-03T00:00:00Z"
EARLY_S, LATE_S = (started_s(PodInfo(make_pod("p").started(text).obj()), 0.0) for text in (EARLY, LATE))


class Node:
    def __init__(self) -> None:
        self.table = NodeTable()
        self.info: NodeInfo = self.table.set_node(make_node("n").capacity(cpu="8").obj())
        self.kept = KeptPods(self.table)

    def place(self, pod: PodBuilder) -> PodInfo:
        info = PodInfo(pod.node("n").obj())
        self.table.add_pod(self.info, info)
        return info

    def found(self, now: float = LATE_S + 1.0) -> NodePods:
        (found,) = self.kept.of_each([self.info], now)
        assert found.pods == by_importance(self.info.pods.values(), now)
        return found


def pod(name: str, priority: int = 0, started: str = EARLY) -> PodBuilder:
    return make_pod(name).uid(name).priority(priority).started(started)


def test_the_pods_of_a_node_are_kept_while_they_do_not_change() -> None:
    node = Node()
    node.place(pod("a"))
    node.place(pod("b", 5))
    kept = node.found()
    assert [each.uid for each in kept.pods] == ["b", "a"]
    assert node.found() is kept
    late = node.place(pod("c", 9))
    assert [each.uid for each in node.found().pods] == ["c", "b", "a"]
    node.table.remove_pod(node.info, late)
    assert [each.uid for each in node.found().pods] == ["b", "a"]


def test_a_pod_that_changed_is_another_pod() -> None:
    node = Node()
    old = node.place(pod("a"))
    node.place(pod("b", 5))
    node.found()
    node.table.remove_pod(node.info, old)
    node.place(pod("a", 7))
    assert [each.uid for each in node.found().pods] == ["a", "b"]


def test_a_pod_without_a_start_is_ordered_by_the_time_it_is() -> None:
    node = Node()
    node.place(make_pod("waits").uid("waits"))
    node.place(pod("starts", started=LATE))
    assert [each.uid for each in node.found(EARLY_S).pods] == ["waits", "starts"]
    assert [each.uid for each in node.found(LATE_S).pods] == ["waits", "starts"]
    kept = node.found(LATE_S + 1.0)
    assert [each.uid for each in kept.pods] == ["starts", "waits"]
    assert node.found(LATE_S + 2.0) is kept
    # A clock that is put back.
    assert [each.uid for each in node.found(EARLY_S).pods] == ["waits", "starts"]


def test_the_first_of_lower_priority_is_found() -> None:
    node = Node()
    for name, priority in (("a", 9), ("b", 5), ("c", 5), ("d", -3)):
        node.place(pod(name, priority))
    found = node.found()
    assert [found.first_below(priority) for priority in (10, 9, 6, 5, -2, -3)] == [0, 1, 1, 3, 3, 4]


def test_kinds_are_distinguished_when_asked_for() -> None:
    node = Node()
    node.place(pod("a").label(app="web"))
    node.place(pod("b").label(app="db"))
    node.place(pod("c").label(app="web"))
    assert node.found().kinds == [0, 0, 0]
    node.kept.begin(needs_kinds=True)
    assert node.found().kinds == [0, 1, 0]
    node.kept.begin(needs_kinds=False)
    assert node.found().kinds == [0, 1, 0]
    assert [node.kept.kinds.examples[kind].uid for kind in (0, 1)] == ["a", "b"]


def test_kinds_of_pods_that_are_gone_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dry_run_residents, "MAX_KINDS", 3)
    node = Node()
    node.kept = KeptPods(node.table)
    for number in range(20):
        here = node.place(pod("a").label(version=str(number)))
        node.kept.begin(needs_kinds=True)
        found = node.found()
        assert node.kept.kinds.examples[found.kinds[0]].pod.metadata.labels == {"version": str(number)}
        assert len(node.kept.kinds) <= 5
        node.table.remove_pod(node.info, here)
