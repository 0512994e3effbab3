"""Generated groups: a real kube-scheduler of 1.37 with the gate GenericWorkload and this program decide alike.

Of each pod the node or the text of its failure is compared, and the order in which failures are reported; of the group
whether it is tried, its condition, and who is evicted for it. KSCHEDULER_PARITY_GANGS says how many groups are tried.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.parity.compare_gangs import gang_differences, gang_oracle
from tests.parity.coverage_gangs import GangCoverage
from tests.parity.generate_gangs import RELEASE, GangCase, generate_gang
from tests.parity.oracle import Answer
from tests.parity.oracle_process import OracleProcess
from tests.parity.trial import try_all
from tests.support.releases import cases_with, releases_to_test
from tests.support.seeds import search_seeds

pytestmark = [
    pytest.mark.controlplane,
    pytest.mark.slow,
    pytest.mark.skipif(RELEASE not in releases_to_test(), reason="groups are compared with 1.37"),
]

SEEDS = cases_with(RELEASE, search_seeds("KSCHEDULER_PARITY_GANGS", 600))
FIXED_SEEDS = range(30)
ENOUGH_FOR_COVERAGE = 500  # cases; with fewer, rare corners may be missed


@pytest.fixture(scope="module")
def oracle() -> Iterator[OracleProcess[GangCase, Answer]]:
    running = gang_oracle()
    yield running
    running.close()


def test_groups_on_fixed_seeds_are_decided_as_by_kube_scheduler(oracle: OracleProcess[GangCase, Answer]) -> None:
    try_all(oracle, map(generate_gang, FIXED_SEEDS), gang_differences, GangCoverage())


@pytest.mark.search
def test_groups_on_searched_seeds_are_decided_as_by_kube_scheduler(oracle: OracleProcess[GangCase, Answer]) -> None:
    coverage = GangCoverage()
    try_all(oracle, map(generate_gang, SEEDS), gang_differences, coverage)
    if len(SEEDS) >= ENOUGH_FOR_COVERAGE:
        assert coverage.missing() == [], f"seeds from {SEEDS[0]}"
