from __future__ import annotations

from kscheduler._fast import CPU, MEMORY
from kscheduler.framework.plugins.metricpolicy import use_history
from kscheduler.framework.plugins.metricpolicy.use_history import UseHistory
from kscheduler.snapshot.node_table import NodeTable
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.testing import make_node, make_pod
from tests.framework.plugins.metricpolicy.telemetry import FakeColumn


class Bench:
    def __init__(self, nodes: int = 2, window_s: float = 0.0) -> None:
        self.table = NodeTable()
        for number in range(nodes):
            self.table.set_node(make_node(f"n{number}").capacity(cpu="16").obj())
        self.history = UseHistory(self.table)
        self.column = FakeColumn(self.table, "load", window_s)
        self.pods = 0

    def decide(self, now: float, *nodes: str) -> None:
        """A pod of one core goes to each."""
        self.history.note(now, decides=True)
        for node in nodes:
            info = self.table.get(node)
            assert info is not None
            self.pods += 1
            self.table.add_pod(info, PodInfo(make_pod(f"p{self.pods}").req(cpu="1").obj()))

    def baseline(self, sampled_at: float) -> list[float]:
        self.column.set({node.name: 0.5 for node in self.table}, sampled_at)
        return list(self.history.baseline(CPU, self.column))


def test_a_sample_knows_of_pods_that_were_placed_before_it() -> None:
    bench = Bench()
    bench.history.follow([CPU], 10.0)
    bench.decide(10.0, "n0")
    bench.decide(20.0, "n1")
    bench.decide(30.0, "n1")
    bench.decide(40.0)
    assert bench.baseline(10.0) == [0, 0]
    assert bench.baseline(10.1) == [1000, 0]
    assert bench.baseline(25.0) == [1000, 1000]
    assert bench.baseline(99.0) == [1000, 2000]


def test_the_last_pod_of_a_burst_is_seen_though_nothing_is_decided_after_it() -> None:
    bench = Bench()
    bench.history.follow([CPU], 10.0)
    bench.decide(10.0, "n0")
    bench.decide(10.3, "n1")
    bench.history.note(60.0, decides=False)
    assert bench.baseline(20.0) == [1000, 1000]


def test_a_sample_over_a_window_knows_of_part_of_what_came_in_it() -> None:
    bench = Bench(1, window_s=20.0)
    bench.history.follow([CPU], 10.0)
    bench.decide(10.0)
    bench.decide(30.0, "n0")
    bench.decide(50.0)
    assert bench.baseline(40.0) == [500]


def test_what_was_on_a_node_that_is_gone_is_forgotten() -> None:
    bench = Bench(1)
    bench.history.follow([CPU], 10.0)
    bench.decide(10.0, "n0")
    bench.decide(20.0)
    bench.table.remove_node("n0")
    bench.table.set_node(make_node("new").capacity(cpu="16").obj())
    bench.decide(21.0, "new", "new")
    bench.decide(30.0)
    assert bench.baseline(15.0) == [0], "it was empty when it came"
    assert bench.baseline(22.0) == [2000]


def test_a_resource_that_is_followed_later_has_no_history_and_leaves_that_of_others_alone() -> None:
    bench = Bench(1)
    bench.history.follow([CPU], 10.0)
    bench.decide(10.0, "n0")
    bench.decide(20.0, "n0")
    bench.history.follow([CPU, MEMORY], 30.0)
    assert bench.baseline(15.0) == [1000]
    assert list(bench.history.baseline(MEMORY, bench.column)) == [0]
    bench.history.follow([MEMORY], 30.0)
    assert len(bench.history) > 0


def test_of_old_copies_every_other_goes_but_never_the_oldest() -> None:
    bench = Bench(1)
    bench.history.follow([CPU], 0.0)
    for second in range(500):
        bench.decide(float(2 * second), "n0")
    assert len(bench.history) <= use_history.MOST_COPIES
    assert bench.baseline(-1.0) == [0]
    assert bench.baseline(1e9) == [499_000]
