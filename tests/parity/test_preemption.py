"""Pods that fit nowhere on generated clusters: the real kube-scheduler's code and this program preempt alike.

KSCHEDULER_PARITY_PREEMPTIONS says how many fresh cases are tried (6 pods each), KSCHEDULER_PARITY_SEED from which seed
on; a failure prints the seed and the smallest case found that still differs.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterable, Iterator

import pytest

from tests.controlplane.conftest import unavailable
from tests.controlplane.harness import MissingTool, ensure
from tests.parity.compare_preemption import all_differences
from tests.parity.coverage_preemption import PreemptionCoverage
from tests.parity.generate_preemption import generate_preemption
from tests.parity.oracle import Oracle
from tests.parity.shrink import kind_of, shrink

pytestmark = [pytest.mark.controlplane, pytest.mark.slow]

FRESH_CASES = int(os.environ.get("KSCHEDULER_PARITY_PREEMPTIONS", "3000"))
FRESH_SEED = int(os.environ.get("KSCHEDULER_PARITY_SEED") or random.SystemRandom().randrange(1 << 40))
FIXED_SEEDS = range(100)
ENOUGH_FOR_COVERAGE = 2000  # cases; with fewer, rare corners may be missed


@pytest.fixture(scope="module")
def oracle() -> Iterator[Oracle]:
    try:
        binary = ensure(["oracle"]).path("oracle")
    except MissingTool as error:
        unavailable(str(error))
    running = Oracle(binary)
    yield running
    running.close()


def test_preemptions_on_fixed_seeds_are_those_of_kube_scheduler(oracle: Oracle) -> None:
    compare(oracle, FIXED_SEEDS)


def test_preemptions_on_fresh_seeds_are_those_of_kube_scheduler(oracle: Oracle) -> None:
    coverage = compare(oracle, range(FRESH_SEED, FRESH_SEED + FRESH_CASES))
    if FRESH_CASES >= ENOUGH_FOR_COVERAGE:
        assert coverage.attempts >= FRESH_CASES
        assert coverage.missing() == [], f"seeds from {FRESH_SEED}"


def compare(oracle: Oracle, seeds: Iterable[int]) -> PreemptionCoverage:
    coverage = PreemptionCoverage()
    for case, answer in oracle.answers(map(generate_preemption, seeds)):
        coverage.add(case, answer)
        if different := all_differences(case, answer):
            _, first = different[0]
            oracle.close()  # with the answers that are still on their way
            smallest = shrink(oracle, case, kind_of(first), all_differences)
            left = "\n".join(text for _, text in all_differences(smallest, oracle.ask(smallest)))
            pytest.fail(f"seed {case.seed}: {first}\nand\n{left}\nin\n{smallest}", pytrace=False)
    return coverage
