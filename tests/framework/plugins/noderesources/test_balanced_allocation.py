from __future__ import annotations

from typing import Any

from kscheduler.framework.plugins.noderesources.balanced_allocation import BalancedAllocation
from kscheduler.testing import make_pod
from tests.support.framework_bench import Bench

GPU = "example.com/gpu"


def bench(make: Any = BalancedAllocation) -> Bench:
    made = Bench.of(make)
    made.nodes("empty", "lopsided", cpu="4", memory="8Gi", **{GPU: "4"})
    made.place(make_pod("old").req(cpu="2"), "lopsided")
    return made


def test_a_pod_that_evens_a_node_out_scores_it_above_neutral_and_one_that_tilts_it_below() -> None:
    # lopsided: cpu 1/2, memory 0: deviation 0.25, balance 75; with 4Gi: 1/2 and 1/2: 100. 50 + (50 + 25)/2 = 87.
    # empty: balance 100; with 4Gi: 0 and 1/2: 75. 50 + (50 - 25)/2 = 62.
    assert bench().scores(make_pod("p").req(memory="4Gi")) == {"empty": 62, "lopsided": 87}


def test_a_pod_that_changes_no_balance_is_neutral() -> None:
    # empty: 1/4 and 1/4. lopsided: 3/4 and 1/4: deviation 0.25 as before.
    assert bench().scores(make_pod("p").req(cpu="1", memory="2Gi")) == {"empty": 75, "lopsided": 75}


def test_a_pod_that_asks_for_none_of_the_resources_is_not_scored() -> None:
    made = bench()
    made.schedule(make_pod("p").req(ephemeral_storage="1Mi"))
    made.schedule(make_pod("p"))
    assert made.state.skip_score == {"NodeResourcesBalancedAllocation"}


def test_more_than_two_resources_use_the_population_deviation() -> None:
    made = bench(lambda handle: BalancedAllocation(handle, ["cpu", "memory", GPU]))
    assert made.scores(make_pod("even").req(cpu="2", memory="4Gi", **{GPU: "2"}))["empty"] == 75
    # 1, 0 and 1/2 have the deviation 0.408: balance 59 instead of 100. 50 + (50 + 59 - 100)/2 = 54.
    assert made.scores(make_pod("uneven").req(cpu="4", **{GPU: "2"}))["empty"] == 54
    # Who asks for no gpu is scored by the other two: 1 and 0, balance 50.
    assert made.scores(make_pod("without").req(cpu="4"))["empty"] == 50


def test_an_overcommitted_resource_counts_as_full() -> None:
    made = bench()
    made.place(make_pod("greedy").req(cpu="40"), "lopsided")
    made.place(make_pod("full").req(memory="8Gi"), "lopsided")
    assert made.scores(make_pod("p").req(cpu="1"))["lopsided"] == 75
