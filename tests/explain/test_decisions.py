"""What is written down of a decision, and that it never takes more than its share of time."""

from __future__ import annotations

import itertools

from kscheduler.explain.decisions import ANNOTATION, ASKED_SAVED_S, DETAILS, SAVED_S, SHARE, DecisionLog
from kscheduler.explain.options import DecisionLogOptions
from kscheduler.framework.plugins.nodename import NodeName
from kscheduler.framework.search_outcomes import Decision, Rejection
from kscheduler.queue.pod_info import QueuedPodInfo
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.testing import make_node, make_pod
from tests.support.clocks import ManualClock
from tests.support.framework_bench import Bench


def decide(
    bench: Bench, log: DecisionLog, index: int = 0, now: float = 0.0, *, asks: bool = False
) -> Decision | Rejection:
    builder = make_pod(f"p{index}")
    pod = PodInfo((builder.annotation(**{ANNOTATION: DETAILS}) if asks else builder).obj())
    found = bench.framework.schedule_pod(bench.state, pod)
    log.decided(QueuedPodInfo(pod, 0.0, attempts=1), bench.framework, bench.state, found, now)
    return found


def bench_of_two() -> Bench:
    bench = Bench.of(lambda handle: NodeName())
    bench.nodes("a", "b")
    return bench


def test_details_are_kept_only_while_they_cost_little() -> None:
    readings = itertools.count()  # one for the start of taking details, one for its end: a millisecond each time
    bench, step_s = bench_of_two(), 0.001
    log = DecisionLog(DecisionLogOptions(), bench.cache.table, ManualClock(), lambda: next(readings) * step_s)
    for index in range(2_000):
        decide(bench, log, index, now=index * 0.01)
    detailed = [record.at for record in log.ring if record.details is not None]
    assert len(log.ring) == 2_000
    saved, earned = SAVED_S / step_s, 20.0 * SHARE / step_s
    assert saved + earned - 2 <= len(detailed) <= saved + earned + 2
    assert detailed[9] < 0.2, "what was saved is spent first"
    assert detailed[-1] > 19.0, "and never is everything spent for good"


def test_pods_that_ask_for_their_details_get_them_in_a_burst_within_a_larger_share() -> None:
    readings = itertools.count()
    bench, step_s = bench_of_two(), 0.001
    log = DecisionLog(DecisionLogOptions(), bench.cache.table, ManualClock(), lambda: next(readings) * step_s)
    for index in range(100):
        decide(bench, log, index)
    asking = [decide(bench, log, index, asks=index % 2 == 0) for index in range(100, 300)]
    assert len(asking) == 200
    detailed = [int(record.key.rpartition("p")[2]) for record in log.ring if record.details is not None]
    spent = int(SAVED_S / step_s) + 1
    assert sorted(detailed)[:spent] == list(range(spent)), "while there is time, all get them"
    burst = sorted(detailed)[spent:]
    assert burst == list(range(100, 100 + 2 * len(burst), 2)), "then only those that ask"
    assert abs(len(burst) - ASKED_SAVED_S / step_s) <= 1, "and not without end"


def test_where_time_stands_still_all_details_are_kept() -> None:
    bench = bench_of_two()
    log = DecisionLog(DecisionLogOptions(), bench.cache.table, ManualClock(), lambda: 0.0)
    for index in range(50):
        decide(bench, log, index)
    assert all(record.details is not None for record in log.ring)


def test_decisions_among_the_same_nodes_share_their_names() -> None:
    bench = bench_of_two()
    log = DecisionLog(DecisionLogOptions(), bench.cache.table, ManualClock(), lambda: 0.0)
    decide(bench, log, 0)
    bench.node(make_node("b").capacity(cpu="4", memory="8Gi").label(color="red"))  # a change, but the same nodes
    decide(bench, log, 1)
    bench.node(make_node("c").capacity(cpu="4", memory="8Gi"))
    decide(bench, log, 2)
    first, second, third = (record.details.names for record in log.ring if record.details is not None)
    assert first is second
    assert (first.names, third.names) == (("a", "b"), ("a", "b", "c"))


def test_a_rejection_without_nodes_has_no_details() -> None:
    bench = Bench({})
    log = DecisionLog(DecisionLogOptions(), bench.cache.table, ManualClock(), lambda: 0.0)
    assert isinstance(decide(bench, log), Rejection)
    [record] = log.ring
    assert record.details is None
    assert record.refusal is not None
    assert record.refusal.message == "no nodes available to schedule pods"
