"""Generated groups: a real kube-scheduler with the gates of pod groups and this program agree.

Of each pod the node or the text of its failure is compared, and the order in which failures are reported; of the group
whether it is tried, its condition, and who is evicted for it; of claims what is written to them.
KSCHEDULER_PARITY_GANGS says how many groups are tried with each release.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.parity.compare_gangs import gang_differences, gang_oracle
from tests.parity.coverage_gangs import GangCoverage
from tests.parity.generate_composites import generate_composite
from tests.parity.generate_gang_claims import generate_claiming_gang
from tests.parity.generate_gangs import (
    CLAIMS,
    COMPOSITES,
    NEWEST,
    PLACEMENTS,
    POLICIES,
    TOGETHER,
    TOGETHER_PLACED,
    GangCase,
    generate_gang,
    generate_gang_together,
    generate_gang_with_policy,
    generate_placed_gang,
)
from tests.parity.oracle import Answer
from tests.parity.oracle_process import OracleProcess
from tests.parity.trial import try_all
from tests.support.releases import releases_to_test
from tests.support.seeds import search_seeds

pytestmark = [pytest.mark.controlplane, pytest.mark.slow]

SEEDS = search_seeds("KSCHEDULER_PARITY_GANGS", 200)
FIXED_SEEDS = range(30)
ENOUGH_FOR_COVERAGE = 500  # cases; with fewer, rare corners may be missed

GangOracle = OracleProcess[GangCase, Answer]


@pytest.fixture(scope="module", params=releases_to_test())
def oracle(request: pytest.FixtureRequest) -> Iterator[tuple[str, GangOracle]]:
    running = gang_oracle(request.param)
    yield request.param, running
    running.close()


def test_groups_on_fixed_seeds_are_decided_as_by_kube_scheduler(oracle: tuple[str, GangOracle]) -> None:
    release, running = oracle
    cases = (generate_gang(seed, release=release) for seed in FIXED_SEEDS)
    try_all(running, cases, gang_differences, GangCoverage(release))


OF_1_36 = pytest.mark.skipif("1.36" not in releases_to_test(), reason="a gate of 1.36")
OF_NEWEST = pytest.mark.skipif(NEWEST not in releases_to_test(), reason=f"compared with {NEWEST} only")


def test_groups_that_ask_for_one_domain_are_decided_as_by_kube_scheduler(oracle: tuple[str, GangOracle]) -> None:
    release, _ = oracle
    running = gang_oracle(release, PLACEMENTS)
    cases = (generate_placed_gang(seed, release=release) for seed in [*FIXED_SEEDS, *SEEDS])
    try_all(running, cases, gang_differences, GangCoverage(release, PLACEMENTS))
    running.close()


@OF_1_36
@pytest.mark.parametrize("gates", [TOGETHER, TOGETHER_PLACED], ids=["anywhere", "in one domain"])
def test_groups_that_preempt_as_a_whole_are_decided_as_by_kube_scheduler(gates: tuple[str, ...]) -> None:
    running = gang_oracle("1.36", gates)
    is_placed = gates == TOGETHER_PLACED
    cases = (generate_gang_together(seed, placed=is_placed) for seed in [*FIXED_SEEDS, *SEEDS])
    try_all(running, cases, gang_differences, GangCoverage("1.36", gates))
    running.close()


@OF_NEWEST
def test_groups_that_state_a_preemption_policy_are_decided_as_by_kube_scheduler() -> None:
    running = gang_oracle(NEWEST, POLICIES)
    cases = (generate_gang_with_policy(seed) for seed in [*FIXED_SEEDS, *SEEDS])
    try_all(running, cases, gang_differences, GangCoverage(NEWEST, POLICIES))
    running.close()


@OF_NEWEST
def test_composite_groups_are_decided_as_by_kube_scheduler() -> None:
    running = gang_oracle(NEWEST, COMPOSITES)
    cases = (generate_composite(seed) for seed in [*FIXED_SEEDS, *SEEDS])
    try_all(running, cases, gang_differences, GangCoverage(NEWEST, COMPOSITES))
    running.close()


def test_groups_with_claims_are_decided_as_by_kube_scheduler(oracle: tuple[str, GangOracle]) -> None:
    release, _ = oracle
    running = gang_oracle(release, CLAIMS)
    cases = (generate_claiming_gang(seed, release=release) for seed in [*FIXED_SEEDS, *SEEDS])
    try_all(running, cases, gang_differences, GangCoverage(release, CLAIMS))
    running.close()


@pytest.mark.search
def test_groups_on_searched_seeds_are_decided_as_by_kube_scheduler(oracle: tuple[str, GangOracle]) -> None:
    release, running = oracle
    coverage = GangCoverage(release)
    cases = (generate_gang(seed, release=release) for seed in SEEDS)
    try_all(running, cases, gang_differences, coverage)
    if len(SEEDS) >= ENOUGH_FOR_COVERAGE:
        assert coverage.missing() == [], f"seeds from {SEEDS[0]}"
