"""Several plugins at once, where that is worth it."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from kscheduler.clock import ManualClock
from kscheduler.wasm.engine import GuestFault, Instance
from kscheduler.wasm.pool import Pool, PoolOptions
from kscheduler.wasm.workers import WORTH_S, Workers
from tests.wasm.fakes import FakeModule, Reports


@pytest.fixture
def workers() -> Iterator[Workers]:
    made = Workers(threads=1)
    yield made
    made.close()


def pool_of(typical_s: float, reports: Reports | None = None) -> Pool:
    pool = Pool("policy", FakeModule(), PoolOptions(), ManualClock(), reports)
    pool.typical_s = typical_s
    return pool


def thread_of(_instance: Instance) -> int:
    return threading.get_ident()


def threads_used(workers: Workers, *typical_s: float) -> int:
    outcomes = workers.run_all([(pool_of(each), thread_of) for each in typical_s])
    return len({outcome.value for outcome in outcomes})


def test_short_runs_stay_on_the_callers_thread(workers: Workers) -> None:
    assert threads_used(workers, WORTH_S, WORTH_S / 2) == 1
    assert threads_used(workers, 1.0) == 1
    assert threads_used(workers) == 0


def test_one_long_run_among_short_ones_is_not_handed_over(workers: Workers) -> None:
    assert threads_used(workers, 1.0, WORTH_S / 2) == 1


def test_long_runs_use_several_threads(workers: Workers) -> None:
    assert threads_used(workers, 0.01, 0.01) == 2


def test_without_threads_everything_is_inline() -> None:
    assert threads_used(Workers(threads=0), 0.01, 0.01) == 1


@pytest.mark.parametrize("typical_s", [0.0, 0.01], ids=["inline", "parallel"])
def test_a_fault_is_the_outcome_of_its_own_job(workers: Workers, typical_s: float) -> None:
    def trap(instance: Instance) -> int:
        instance.call("trap")
        return 0

    reports = [Reports(), Reports(), Reports()]
    jobs = [(pool_of(typical_s, each), work) for each, work in zip(reports, (thread_of, trap, thread_of), strict=True)]
    outcomes = workers.run_all(jobs)
    assert [outcome.fault is None for outcome in outcomes] == [True, False, True]
    assert isinstance(outcomes[1].fault, GuestFault)
    assert [each.calls for each in reports] == [[""], ["trap"], [""]]


@pytest.mark.parametrize("fails", [0, 1])
def test_a_bug_of_the_host_passes_after_all_jobs_have_ended(workers: Workers, fails: int) -> None:
    def bug(_instance: Instance) -> int:
        raise KeyError("ours")

    ended: list[int] = []

    def work(instance: Instance) -> int:
        ended.append(1)
        return 0

    works = [bug, work] if fails == 0 else [work, bug]
    with pytest.raises(KeyError):
        workers.run_all([(pool_of(0.01), each) for each in works])
    assert ended == [1]


def test_closing_twice_is_fine(workers: Workers) -> None:
    assert threads_used(workers, 0.01, 0.01) == 2
    workers.close()
    workers.close()
