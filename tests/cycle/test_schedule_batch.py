"""Batches of pods, with a lane that decides the pods it is configured for and leaves the rest."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping, Sequence

import pytest

from kscheduler.cycle.schedule_batch import MOST_PODS, ScheduleBatch
from kscheduler.cycle.schedule_one import BindingCycle
from kscheduler.explain.decisions import DecisionLog
from kscheduler.explain.options import DecisionLogOptions
from kscheduler.framework.compiled_lane import CompiledLane, Placements
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.faults import AnswersToCome
from kscheduler.framework.interface import Plugin
from kscheduler.framework.status import Status
from kscheduler.queue.pod_info import Pool, QueuedPodInfo
from kscheduler.snapshot.node_info import NodeInfo
from kscheduler.snapshot.node_table import NodeTable
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.testing import PodBuilder, make_pod
from tests.cycle.bench import NAME, Bench
from tests.support.checks import check_cache
from tests.support.clocks import ManualClock


class TamedLane(CompiledLane):
    """Places pods that carry the label `easy` on the first node, up to `most` in a call."""

    def __init__(self, table: NodeTable) -> None:
        self._table = table
        self.is_broken = False
        self.most = MOST_PODS
        self.asked: list[list[str]] = []  # names of the pods of each call
        self.fault: Exception | None = None
        self.seen = 0
        self.take_time: Callable[[int], None] = lambda pods: None

    @property
    def passes(self) -> int:
        return self.seen

    def place(self, pods: Sequence[PodInfo]) -> Placements:
        self.asked.append([pod.pod.metadata.name for pod in pods])
        if self.fault is not None:
            raise self.fault
        self.take_time(len(pods))
        rows = array("i")
        node = self._table.at(0)
        for pod in pods[: self.most]:
            if "easy" not in (pod.pod.metadata.labels or {}):
                break
            self._table.columns.add_pod(node.row, self._table.request_of(pod))
            rows.append(node.row)
        return Placements(rows, [node.name] * len(rows), array("i", [len(self._table)]) * len(rows))


class BatchBench(Bench):
    def __init__(self, plugins: Mapping[str, Sequence[Plugin]] | None = None, *, explains: bool = False) -> None:
        super().__init__(plugins)
        self.node("n1", cpu="1000", pods=10_000)
        self.lane = TamedLane(self.cache.table)
        self.alone: list[str] = []  # names of the pods that were decided one by one
        self.dispatched: list[str] = []
        self.after_alone: Callable[[], None] = lambda: None
        self.spent = ManualClock()
        self.schedule_one = self.one.schedule
        self.one.schedule = self._decide_alone  # type: ignore[method-assign]
        log = DecisionLog(DecisionLogOptions(), self.cache.table, self.clock, self.spent.now) if explains else None
        self.batch = ScheduleBatch(
            self.queue,
            self.cache,
            {NAME: self.framework},
            self.one,
            self.lane,
            dispatch=self._dispatch,
            clock=self.clock,
            stopwatch=self.spent.now,
            decisions=log,
        )

    def _decide_alone(self, queued: QueuedPodInfo, *, may_wait: bool = False) -> BindingCycle | None:
        self.alone.append(queued.pod_info.pod.metadata.name)
        self.spent.advance(0.001)
        cycle = self.schedule_one(queued, may_wait=may_wait)
        self.after_alone()
        return cycle

    def _dispatch(self, cycle: BindingCycle) -> None:
        self.dispatched.append(cycle.pod.pod.metadata.name)

    def enqueue(self, *pods: PodBuilder) -> None:
        for pod in pods:
            made = pod.obj()
            self.watched[made.key] = made
            self.queue.add(PodInfo(made), self.clock.now())

    def run(self, most: int = MOST_PODS) -> int:
        return self.batch.run(self.clock.now(), most)

    def run_all(self) -> None:
        while self.run():
            self.queue.check()


def easy(name: str) -> PodBuilder:
    return make_pod(name).label(easy="yes").req(cpu="1m")


def hard(name: str) -> PodBuilder:
    return make_pod(name).req(cpu="1m")


def test_an_empty_queue_is_no_batch() -> None:
    bench = BatchBench()
    assert bench.run() == 0
    assert bench.lane.asked == []


def test_pods_are_decided_in_the_order_of_the_queue_whichever_lane_decides_them() -> None:
    bench = BatchBench()
    names = [f"p{number}" for number in range(20)]
    bench.enqueue(*(hard(name) if number % 5 == 2 else easy(name) for number, name in enumerate(names)))
    bench.run_all()
    assert bench.dispatched == names
    assert bench.alone == ["p2", "p7", "p12", "p17"]
    check_cache(bench.cache)
    assert bench.cache.table.columns.pod_count(0) == 20


def test_batches_grow_while_the_lane_decides_all_of_them() -> None:
    bench = BatchBench()
    bench.enqueue(*(easy(f"p{number}") for number in range(40)))
    bench.run_all()
    assert [len(names) for names in bench.lane.asked] == [1, 2, 4, 8, 16, 9]


def test_batches_that_take_long_become_smaller() -> None:
    bench = BatchBench()
    bench.enqueue(*(easy(f"p{number}") for number in range(60)))
    while len(bench.dispatched) < 31:
        bench.run()
    bench.lane.asked.clear()
    bench.lane.take_time = lambda pods: bench.spent.advance(0.00099 * pods)
    bench.run_all()
    assert [len(names) for names in bench.lane.asked] == [29]
    bench.enqueue(*(easy(f"q{number}") for number in range(20)))
    bench.run_all()
    assert [len(names) for names in bench.lane.asked[1:]] == [4, 4, 4, 4, 4]


def test_batches_grow_to_some_pods_while_what_takes_long_is_to_score_all_nodes() -> None:
    """Then classes that are new can do that together."""
    bench = BatchBench()

    def score_all_nodes(pods: int) -> None:
        bench.lane.seen += 1
        bench.spent.advance(0.02 * pods)

    bench.lane.take_time = score_all_nodes
    bench.enqueue(*(easy(f"p{number}") for number in range(63)))
    bench.run_all()
    assert [len(names) for names in bench.lane.asked] == [1, 2, 4, 8, 8, 8, 8, 8, 8, 8]
    bench.lane.take_time = lambda pods: bench.spent.advance(0.02 * pods)
    bench.lane.asked.clear()
    bench.enqueue(*(easy(f"q{number}") for number in range(18)))
    bench.run_all()
    assert [len(names) for names in bench.lane.asked] == [8, *[1] * 10]


def test_a_batch_is_no_larger_than_there_is_room_for_bindings() -> None:
    bench = BatchBench()
    bench.enqueue(*(easy(f"p{number}") for number in range(40)))
    assert [bench.run(3) for _ in range(4)] == [1, 2, 3, 3]


def test_the_lane_is_asked_for_the_rest_after_a_call_that_it_ended_early() -> None:
    bench = BatchBench()
    bench.lane.most = 1
    bench.enqueue(*(easy(f"p{number}") for number in range(7)))
    bench.run_all()
    assert bench.alone == []
    assert bench.lane.asked[-4:] == [["p3", "p4", "p5", "p6"], ["p4", "p5", "p6"], ["p5", "p6"], ["p6"]]


def test_what_one_decision_wakes_goes_before_the_rest_of_the_batch() -> None:
    bench = BatchBench()
    bench.enqueue(*(easy(f"p{number}") for number in range(3)), hard("h"), *(easy(f"q{number}") for number in range(9)))

    def wake_somebody() -> None:
        bench.after_alone = lambda: None
        bench.enqueue(easy("urgent").priority(1000))

    bench.after_alone = wake_somebody
    bench.run_all()
    assert bench.dispatched[:6] == ["p0", "p1", "p2", "h", "urgent", "q0"]


def test_pods_that_need_no_decision_are_not_shown_to_the_lane() -> None:
    bench = BatchBench()
    bench.enqueue(easy("a"))
    bench.run_all()
    bench.enqueue(easy("b").terminating(), easy("c"))
    bench.run_all()
    assert bench.dispatched == ["a", "c"]
    assert [len(names) for names in bench.lane.asked] == [1, 1]


def test_a_lane_that_fails_costs_speed_and_no_decision(caplog: pytest.LogCaptureFixture) -> None:
    bench = BatchBench()
    bench.lane.fault = RuntimeError("a bug")
    bench.enqueue(*(easy(f"p{number}") for number in range(5)))
    bench.run_all()
    assert bench.dispatched == [f"p{number}" for number in range(5)]
    assert len(bench.lane.asked) == 1
    (record,) = [record for record in caplog.records if record.levelname == "ERROR"]
    assert "decided one by one" in record.message


def test_a_pod_of_the_lane_fits_as_if_it_had_been_decided_alone() -> None:
    bench = BatchBench()
    bench.enqueue(easy("p"))
    bench.run_all()
    assert bench.cache.is_assumed("uid-default-p")
    assert bench.queue.is_in_flight("uid-default-p")
    assert bench.cache.forget("uid-default-p")
    check_cache(bench.cache)


def test_now_and_then_a_pod_is_decided_alone_so_that_it_can_be_explained() -> None:
    bench = BatchBench(explains=True)
    bench.enqueue(*(easy(f"p{number}") for number in range(12)))
    bench.run_all()
    assert 0 < len(bench.alone) < 12, "that may take a small share of the time, of which none has passed"
    explained = len(bench.alone)
    bench.clock.advance(1.0)
    bench.enqueue(*(easy(f"q{number}") for number in range(3)))
    bench.run_all()
    assert len(bench.alone) > explained
    assert len(bench.dispatched) == 15


def test_a_bug_in_what_follows_a_placement_costs_its_pod_an_attempt(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = BatchBench()
    only_binds = bench.framework.only_binds

    def fail_once(pod: PodInfo) -> bool:
        if pod.key == "default/unlucky":
            raise ZeroDivisionError
        return only_binds(pod)

    monkeypatch.setattr(bench.framework, "only_binds", fail_once)
    bench.enqueue(easy("unlucky"), easy("lucky"))
    bench.run_all()
    assert bench.dispatched == ["lucky"]
    (record,) = (record for record in caplog.records if record.message == "scheduling cycle failed")
    assert record.__dict__["pod"] == "default/unlucky"
    waiting = bench.queue.get("uid-default-unlucky")
    assert waiting is not None
    assert waiting.pool is Pool.ERROR_BACKOFF
    check_cache(bench.cache)
    assert bench.cache.table.columns.pod_count(0) == 1


def test_a_pod_that_fits_nowhere_waits_and_the_others_go_on() -> None:
    bench = BatchBench()
    bench.enqueue(easy("a"), hard("huge").req(cpu="5000"), easy("b"))
    bench.run_all()
    assert bench.dispatched == ["a", "b"]
    waiting = bench.queue.get("uid-default-huge")
    assert waiting is not None
    assert waiting.pool is Pool.UNSCHEDULABLE


def test_a_pod_that_asks_to_be_explained_is_decided_alone_and_in_its_turn() -> None:
    bench = BatchBench(explains=True)
    names = [f"p{number}" for number in range(60)]
    bench.enqueue(*(easy(name) for name in names[:50]))
    bench.enqueue(easy("p50").annotation(**{"kscheduler.io/explain": "details"}))
    bench.enqueue(*(easy(name) for name in names[51:]))
    bench.run_all()
    assert bench.dispatched == names
    assert "p50" in bench.alone
    assert len(bench.alone) < 20, "the others are decided by the lane once the share is spent"


class Asking:
    """Filter: it has to ask elsewhere about each pod, unless the cycle has to have its answer at once."""

    name = "Asking"

    def __init__(self) -> None:
        self.answered: set[str] = set()

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        name = pod.pod.metadata.name

        async def ask() -> None:
            self.answered.add(name)

        if state.may_wait and name not in self.answered:
            raise AnswersToCome(ask)
        return None


async def test_a_pod_that_waits_for_answers_keeps_its_place_and_is_decided_with_them() -> None:
    bench = BatchBench({"filter": [Asking()]})
    bench.enqueue(hard("a"), hard("b"))
    for name in ("a", "b"):
        assert (bench.run(), bench.batch.is_waiting) == (1, True)
        assert bench.queue.counts().active == (2 if name == "a" else 1)
        await bench.batch.get_answers()
        assert (bench.batch.is_waiting, bench.run()) == (False, 1)
    assert bench.alone == ["a", "a", "b", "b"]
    assert bench.dispatched == ["a", "b"]
    bench.queue.check()
