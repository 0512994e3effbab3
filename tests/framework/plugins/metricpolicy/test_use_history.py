from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kscheduler._fast import CPU
from kscheduler._fast.metric_formulas import PODS
from kscheduler.client.times import rfc3339
from kscheduler.framework.plugins.metricpolicy import use_history
from kscheduler.framework.plugins.metricpolicy.pod_moves import PodMoves
from kscheduler.framework.plugins.metricpolicy.use_history import UseHistory
from kscheduler.snapshot.node_table import NodeTable
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.testing import PodBuilder, make_node, make_pod
from tests.framework.plugins.metricpolicy.telemetry import FakeColumn, FakeTelemetry


class Bench:
    def __init__(self, nodes: int = 2, window_s: float = 0.0) -> None:
        self.table = NodeTable()
        for number in range(nodes):
            self.table.set_node(make_node(f"n{number}").capacity(cpu="16").obj())
        self.telemetry = FakeTelemetry(self.table)
        self.history = UseHistory(self.table, PodMoves(self.table, self.telemetry))
        self.column = FakeColumn(self.table, "load", window_s)
        self.pods = 0

    def decide(self, now: float, *nodes: str) -> None:
        """A pod of one core goes to each."""
        self.telemetry.time = now
        self.history.note(now, decides=True)
        for node in nodes:
            info = self.table.get(node)
            assert info is not None
            self.pods += 1
            self.table.add_pod(info, PodInfo(make_pod(f"p{self.pods}").req(cpu="1").obj()))

    def see(self, now: float, *nodes: str) -> list[PodInfo]:
        """Somebody else places them; nothing is decided here."""
        self.telemetry.time = now
        return [self.put(node, make_pod(f"q{now}-{number}")) for number, node in enumerate(nodes)]

    def put(self, node: str, builder: PodBuilder) -> PodInfo:
        """A pod of one core is seen on its node."""
        info = self.table.get(node)
        assert info is not None
        pod = builder.req(cpu="1").node(node)
        if not pod.obj().status.conditions and not pod.obj().metadata.creation_timestamp:
            now = self.telemetry.time
            pod = pod.condition("PodScheduled", "True", since=rfc3339(now))
        made = PodInfo(pod.obj())
        self.table.add_pod(info, made)
        return made

    def pods_at(self, sampled_at: float) -> list[float]:
        self.column.set({node.name: 0.5 for node in self.table}, sampled_at)
        return list(self.history.baseline(PODS, self.column))

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


def test_a_resource_that_is_followed_later_has_the_history_of_its_pods_and_leaves_that_of_others_alone() -> None:
    bench = Bench(1)
    bench.history.follow([CPU], 10.0)
    bench.decide(10.0, "n0")
    bench.decide(20.0, "n0")
    bench.decide(21.0)
    bench.history.follow([CPU, PODS], 30.0)
    assert bench.baseline(15.0) == [1000]
    assert bench.pods_at(15.0) == [1]
    assert bench.pods_at(10.0) == [0]
    bench.history.follow([PODS], 30.0)
    assert bench.pods_at(15.0) == [1]


# --- what a new leader knows ---


def test_pods_that_others_placed_before_anything_was_followed_count_from_when_they_came() -> None:
    bench = Bench()
    bench.see(10.0, "n0", "n1")
    bench.see(20.0, "n0")
    bench.see(35.0)
    bench.history.follow([CPU], 40.0)
    assert bench.baseline(10.0) == [0, 0], "one of that very moment is in doubt"
    assert bench.baseline(15.0) == [1000, 1000]
    assert bench.baseline(25.0) == [2000, 1000]


def test_pods_that_left_before_anything_was_followed_are_in_the_samples_before() -> None:
    bench = Bench(1)
    (pod,) = bench.see(10.0, "n0")
    bench.telemetry.time = 20.0
    bench.table.remove_pod(bench.table.at(0), pod)
    bench.history.follow([CPU], 40.0)
    assert bench.baseline(15.0) == [1000]
    assert bench.baseline(25.0) == [0]


def test_pods_that_were_there_at_the_start_count_from_when_their_condition_says() -> None:
    bench = Bench(1)
    bench.telemetry.time = 100.0
    bench.put("n0", make_pod("old").condition("PodScheduled", "True"))
    bench.put("n0", make_pod("bound").condition("PodScheduled", "True", since="1970-01-01T00:01:20Z"))
    bench.put("n0", make_pod("made-with-a-node").created("1970-01-01T00:01:30Z"))
    bench.history.follow([CPU], 100.0)
    assert bench.baseline(80.5) == [1000], "the API cuts parts of seconds off"
    assert bench.baseline(81.5) == [2000]
    assert bench.baseline(92.0) == [3000]


def test_a_time_ahead_of_ours_or_none_at_all_counts_as_now() -> None:
    bench = Bench(1)
    bench.telemetry.time = 100.0
    bench.put("n0", make_pod("ahead").condition("PodScheduled", "True", since="2030-01-01T00:00:00Z"))
    bench.put("n0", make_pod("odd").condition("PodScheduled", "True", since="yesterday"))
    bench.history.follow([CPU], 100.0)
    assert bench.baseline(99.0) == [0]
    assert bench.baseline(101.0) == [2000]


def test_a_pod_that_only_changes_has_not_come_again() -> None:
    bench = Bench(1)
    (pod,) = bench.see(10.0, "n0")
    bench.telemetry.time = 50.0
    node = bench.table.at(0)
    bench.table.remove_pod(node, pod)
    bench.table.add_pod(node, pod)
    bench.history.follow([CPU], 60.0)
    assert bench.baseline(5.0) == [0]
    assert bench.baseline(20.0) == [1000]
    assert bench.baseline(55.0) == [1000]


def test_pods_of_a_node_that_is_gone_are_no_history_of_the_one_in_its_place() -> None:
    bench = Bench(1)
    bench.see(10.0, "n0", "n0")
    bench.table.remove_node("n0")
    bench.table.set_node(make_node("new").capacity(cpu="16").obj())
    bench.history.follow([CPU], 60.0)
    assert bench.baseline(5.0) == [0]
    assert bench.baseline(55.0) == [0]


def test_of_more_seconds_with_moves_than_are_kept_the_last_are_exact_and_others_count_as_later() -> None:
    bench = Bench(1)
    for second in range(0, 1000, 2):
        bench.see(float(second), "n0")
    bench.history.follow([CPU], 1000.0)
    assert len(bench.history._times) <= use_history.MOST_COPIES
    assert bench.baseline(997.0) == [499_000]
    assert bench.baseline(995.0) == [498_000]
    assert bench.baseline(-1.0) == [0]
    assert all(bench.baseline(at + 0.5)[0] <= 1000 * (at // 2 + 1) for at in range(0, 1000, 7))


@given(
    st.lists(st.tuples(st.floats(0.0, 3.0), st.integers(0, 1)), max_size=30), st.integers(0, 30), st.floats(0.0, 90.0)
)
def test_what_was_there_does_not_depend_on_when_it_is_asked_for(
    moves: list[tuple[float, int]], known: int, sampled_at: float
) -> None:
    """To within the second that copies are apart."""
    early, late = Bench(), Bench()
    early.history.follow([CPU], 0.0)
    now = 0.0
    for number, (pause, node) in enumerate(moves):
        now += pause
        early.decide(now, f"n{node}")
        late.decide(now, f"n{node}")
        if number == known:
            late.history.follow([CPU], now)
    early.decide(now + 5.0)
    late.decide(now + 5.0)
    late.history.follow([CPU], now + 5.0)
    for sample in (sampled_at, now + 6.0):
        exact = [0.0, 0.0]
        nearly = [0.0, 0.0]
        at = 0.0
        for pause, node in moves:
            at += pause
            exact[node] += 1000.0 * (at < sample)
            nearly[node] += 1000.0 * (at < sample - 2.0)
        for bench in (early, late):
            assert all(a <= b <= c for a, b, c in zip(nearly, bench.baseline(sample), exact, strict=True))


def test_of_old_copies_every_other_goes_but_never_the_oldest() -> None:
    bench = Bench(1)
    bench.history.follow([CPU], 0.0)
    for second in range(500):
        bench.decide(float(2 * second), "n0")
    assert len(bench.history._times) <= use_history.MOST_COPIES
    assert bench.baseline(-1.0) == [0]
    assert bench.baseline(1e9) == [499_000]
