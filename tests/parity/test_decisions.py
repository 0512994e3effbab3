"""Generated pods on generated clusters: the real kube-scheduler's code and this program agree in every detail.

KSCHEDULER_PARITY_CASES says how many cases are tried (40 decisions each), KSCHEDULER_PARITY_GATED_CASES how many with
feature gates on, KSCHEDULER_SEED from which seed on; a failure prints the seed and the smallest case found that still
differs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pytest

from kscheduler.config.releases import release_of
from kscheduler.testing.controlplane import ensure
from tests.parity.compare import all_differences
from tests.parity.coverage import OF_CLAIMS, Coverage
from tests.parity.generate import generate
from tests.parity.oracle import Oracle
from tests.parity.trial import try_all
from tests.support.releases import cases_with, releases_to_test
from tests.support.seeds import kept_seeds, search_seeds

pytestmark = [pytest.mark.controlplane, pytest.mark.slow]

SEEDS = search_seeds("KSCHEDULER_PARITY_CASES", 600)
GATED_SEEDS = search_seeds("KSCHEDULER_PARITY_GATED_CASES", 120)
FIXED_SEEDS = range(50)
FIXED_GATED_SEEDS = range(20)
GATES = ("StorageCapacityScoring", "VolumeLimitScaling")  # for all pods, and off by default in some release
ENOUGH_FOR_COVERAGE = 500  # cases; with fewer, rare corners may be missed


def test_decisions_on_fixed_seeds_are_those_of_kube_scheduler(oracle: Oracle, release: str) -> None:
    compare(oracle, release, [*cases_with(release, FIXED_SEEDS), *kept_seeds("decisions")])


@pytest.mark.search
def test_decisions_on_searched_seeds_are_those_of_kube_scheduler(oracle: Oracle, release: str) -> None:
    seeds = cases_with(release, SEEDS)
    coverage = compare(oracle, release, seeds)
    if len(seeds) >= ENOUGH_FOR_COVERAGE:
        assert coverage.missing(beside=OF_CLAIMS) == [], f"seeds from {SEEDS.start}"


OFF_BY_DEFAULT = [release for release in releases_to_test() if not all(map(release_of(release).has, GATES))]
where_gates_are_off = pytest.mark.parametrize("release", OFF_BY_DEFAULT, scope="module")


@pytest.fixture(scope="module")
def oracle_with_gates(release: str) -> Iterator[Oracle]:
    running = Oracle(ensure(["oracle"], release).path("oracle"), GATES)
    yield running
    running.close()


@where_gates_are_off
def test_decisions_with_gates_on_fixed_seeds_are_those_of_kube_scheduler(
    oracle_with_gates: Oracle, release: str
) -> None:
    compare(oracle_with_gates, release, cases_with(release, FIXED_GATED_SEEDS), GATES)


@where_gates_are_off
@pytest.mark.search
def test_decisions_with_gates_on_searched_seeds_are_those_of_kube_scheduler(
    oracle_with_gates: Oracle, release: str
) -> None:
    compare(oracle_with_gates, release, cases_with(release, GATED_SEEDS), GATES)


def compare(oracle: Oracle, release: str, seeds: Iterable[int], more_gates: tuple[str, ...] = ()) -> Coverage:
    coverage = Coverage(release)
    try_all(oracle, (generate(seed, release, more_gates) for seed in seeds), all_differences, coverage)
    return coverage
