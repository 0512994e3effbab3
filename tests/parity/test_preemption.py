"""Pods that fit nowhere on generated clusters: the real kube-scheduler's code and this program preempt the same pods.

KSCHEDULER_PARITY_PREEMPTIONS says how many cases are tried (6 pods each), KSCHEDULER_SEED from which seed
on; a failure prints the seed and the smallest case found that still differs.
"""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from tests.parity.compare_preemption import all_differences
from tests.parity.coverage_preemption import PreemptionCoverage
from tests.parity.generate_preemption import generate_preemption
from tests.parity.oracle import Oracle
from tests.parity.trial import try_all
from tests.support.releases import cases_with
from tests.support.seeds import kept_seeds, search_seeds

pytestmark = [pytest.mark.controlplane, pytest.mark.slow]

SEEDS = search_seeds("KSCHEDULER_PARITY_PREEMPTIONS", 3000)
FIXED_SEEDS = range(100)
ENOUGH_FOR_COVERAGE = 2000  # cases; with fewer, rare corners may be missed


def test_preemptions_on_fixed_seeds_are_those_of_kube_scheduler(oracle: Oracle, release: str) -> None:
    compare(oracle, release, [*cases_with(release, FIXED_SEEDS), *kept_seeds("preemptions")])


@pytest.mark.search
def test_preemptions_on_searched_seeds_are_those_of_kube_scheduler(oracle: Oracle, release: str) -> None:
    seeds = cases_with(release, SEEDS)
    coverage = compare(oracle, release, seeds)
    if len(seeds) >= ENOUGH_FOR_COVERAGE:
        assert coverage.attempts >= len(seeds)
        assert coverage.missing() == [], f"seeds from {SEEDS.start}"


def compare(oracle: Oracle, release: str, seeds: Iterable[int]) -> PreemptionCoverage:
    coverage = PreemptionCoverage()
    try_all(oracle, (generate_preemption(seed, release) for seed in seeds), all_differences, coverage)
    return coverage
