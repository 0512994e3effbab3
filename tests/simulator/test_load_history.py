"""The history of real load is that of the whole cluster, and of the time in which there are pods."""

from __future__ import annotations

import pytest

from kscheduler.simulator.cluster import Cluster
from kscheduler.simulator.load_history import FIRST_INTERVAL_S, MAX_SAMPLES, LoadHistory
from kscheduler.simulator.real_load import RealLoad
from tests.simulator.loads import CPU, two_nodes, using
from tests.support.clocks import ManualClock


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(100.0)


@pytest.fixture
def cluster(clock: ManualClock) -> Cluster:
    return two_nodes(clock)


def test_history_records_how_evenly_load_lay_over_time(cluster: Cluster, clock: ManualClock) -> None:
    history = LoadHistory(RealLoad(cluster))
    cluster.create_pod(using("a", "5").node("n0").obj())
    clock.advance(30.0)
    cluster.delete_pod("default/a")
    clock.advance(10.0)
    cluster.create_pod(using("b", "1").node("n0").obj())
    history.close(clock.now())
    # 30 seconds of 125 % and 25 %, then 10 of 0 % and 25 %; of the requests 25 % and 0 %, then nothing.
    requested, requested_deviation, mean, deviation = (sum_ / 40 for sum_ in history.integrals[CPU])
    assert (requested, requested_deviation) == (0.125 * 30 / 40, 0.125 * 30 / 40)
    assert mean == (0.75 * 30 + 0.125 * 10) / 40
    assert deviation == (0.5 * 30 + 0.125 * 10) / 40
    assert history.highest[CPU] == 1.25
    assert history.over_s(CPU) == [30.0, 30.0, 30.0]
    assert history.samples[0].at_s == 100.0
    assert history.samples[0].spreads[CPU].over == (0.5, 0.5, 0.5)


def test_history_forgets_what_was_before_the_first_pod(cluster: Cluster, clock: ManualClock) -> None:
    cluster.create_pod(using("a", "4").node("n0").obj())
    history = LoadHistory(RealLoad(cluster))
    clock.advance(60.0)
    history.begin()
    clock.advance(60.0)
    cluster.delete_pod("default/a")
    history.close(clock.now())
    assert history.sampled_s == 60.0
    assert history.over_s(CPU)[0] == 60.0
    assert [sample.at_s for sample in history.samples] == [160.0, 220.0]


def test_a_long_history_stays_short_and_keeps_its_sums(cluster: Cluster, clock: ManualClock) -> None:
    history = LoadHistory(RealLoad(cluster))
    for number in range(4 * MAX_SAMPLES):
        cluster.create_pod(using(f"p{number}", "4").node("n0").obj())
        clock.advance(FIRST_INTERVAL_S)
        cluster.delete_pod(f"default/p{number}")
    history.close(clock.now())
    assert len(history.samples) <= MAX_SAMPLES + 2
    assert history.over_s(CPU)[0] == pytest.approx(4 * MAX_SAMPLES * FIRST_INTERVAL_S)
    assert history.sampled_s == pytest.approx(4 * MAX_SAMPLES * FIRST_INTERVAL_S)
