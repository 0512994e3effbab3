"""Pods that fit nowhere on generated clusters: the real kube-scheduler's code and this program preempt alike.

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
from tests.support.seeds import kept_seeds, search_seeds

pytestmark = [pytest.mark.controlplane, pytest.mark.slow]

SEEDS = search_seeds("KSCHEDULER_PARITY_PREEMPTIONS", 3000)
FIXED_SEEDS = [*range(100), *kept_seeds("preemptions")]
ENOUGH_FOR_COVERAGE = 2000  # cases; with fewer, rare corners may be missed


def test_preemptions_on_fixed_seeds_are_those_of_kube_scheduler(oracle: Oracle) -> None:
    compare(oracle, FIXED_SEEDS)


@pytest.mark.search
def test_preemptions_on_searched_seeds_are_those_of_kube_scheduler(oracle: Oracle) -> None:
    coverage = compare(oracle, SEEDS)
    if len(SEEDS) >= ENOUGH_FOR_COVERAGE:
        assert coverage.attempts >= len(SEEDS)
        assert coverage.missing() == [], f"seeds from {SEEDS.start}"


def compare(oracle: Oracle, seeds: Iterable[int]) -> PreemptionCoverage:
    coverage = PreemptionCoverage()
    try_all(oracle, map(generate_preemption, seeds), all_differences, coverage)
    return coverage
