"""Single pods preempt where victims belong to PodGroups: the real kube-scheduler's code of 1.37 and this program agree.

KSCHEDULER_PARITY_VICTIM_GROUPS says how many cases are tried (6 pods each).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

import pytest

from tests.parity.compare_gangs import gang_oracle
from tests.parity.compare_preemption import all_differences
from tests.parity.generate_gangs import NEWEST, GangCase
from tests.parity.generate_victim_groups import generate_victim_groups
from tests.parity.oracle import Answer
from tests.parity.oracle_process import OracleProcess
from tests.parity.trial import try_all
from tests.support.releases import cases_with, releases_to_test
from tests.support.seeds import search_seeds

pytestmark = [
    pytest.mark.controlplane,
    pytest.mark.slow,
    pytest.mark.skipif(NEWEST not in releases_to_test(), reason="1.36 does not look at groups of victims"),
]

SEEDS = cases_with(NEWEST, search_seeds("KSCHEDULER_PARITY_VICTIM_GROUPS", 300))
FIXED_SEEDS = range(30)

GangOracle = OracleProcess[GangCase, Answer]


class Coverage:
    """How often a pod of a group, and a group that leaves whole, were among the victims."""

    def __init__(self) -> None:
        self.met: Counter[str] = Counter()

    def add(self, case: GangCase, answer: Answer) -> None:
        whole = {
            each["metadata"]["name"] for each in case.pod_groups if "all" in each["spec"].get("disruptionMode", {})
        }
        group_of = {pod["metadata"]["uid"]: pod["spec"].get("schedulingGroup") for pod in case.cluster["pods"]}
        for found in answer.preempted or ():
            groups = {group["podGroupName"] for uid in found.ended if (group := group_of[uid])}
            self.met["a pod of a group"] += bool(groups)
            self.met["a whole group"] += bool(groups & whole)


@pytest.fixture(scope="module")
def oracle() -> Iterator[GangOracle]:
    running = gang_oracle(NEWEST)
    yield running
    running.close()


def test_victims_of_groups_on_fixed_seeds_are_those_of_kube_scheduler(oracle: GangOracle) -> None:
    compare(oracle, FIXED_SEEDS)


@pytest.mark.search
def test_victims_of_groups_on_searched_seeds_are_those_of_kube_scheduler(oracle: GangOracle) -> None:
    compare(oracle, SEEDS)


def compare(oracle: GangOracle, seeds: Iterable[int]) -> None:
    coverage = Coverage()
    try_all(oracle, map(generate_victim_groups, seeds), all_differences, coverage)
    assert coverage.met["a pod of a group"]
    assert coverage.met["a whole group"]
