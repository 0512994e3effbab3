"""Generated pods on generated clusters: the real kube-scheduler's code and this program agree in every detail.

KSCHEDULER_PARITY_CASES says how many cases are tried (40 decisions each), KSCHEDULER_SEED from which
seed on; a failure prints the seed and the smallest case found that still differs.
"""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from tests.parity.compare import all_differences
from tests.parity.coverage import OF_CLAIMS, Coverage
from tests.parity.generate import generate
from tests.parity.oracle import Oracle
from tests.parity.trial import try_all
from tests.support.releases import cases_with
from tests.support.seeds import kept_seeds, search_seeds

pytestmark = [pytest.mark.controlplane, pytest.mark.slow]

SEEDS = search_seeds("KSCHEDULER_PARITY_CASES", 600)
FIXED_SEEDS = range(50)
ENOUGH_FOR_COVERAGE = 500  # cases; with fewer, rare corners may be missed


def test_decisions_on_fixed_seeds_are_those_of_kube_scheduler(oracle: Oracle, release: str) -> None:
    compare(oracle, release, [*cases_with(release, FIXED_SEEDS), *kept_seeds("decisions")])


@pytest.mark.search
def test_decisions_on_searched_seeds_are_those_of_kube_scheduler(oracle: Oracle, release: str) -> None:
    seeds = cases_with(release, SEEDS)
    coverage = compare(oracle, release, seeds)
    if len(seeds) >= ENOUGH_FOR_COVERAGE:
        assert coverage.missing(beside=OF_CLAIMS) == [], f"seeds from {SEEDS.start}"


def compare(oracle: Oracle, release: str, seeds: Iterable[int]) -> Coverage:
    coverage = Coverage(release)
    try_all(oracle, (generate(seed, release) for seed in seeds), all_differences, coverage)
    return coverage
