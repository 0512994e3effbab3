"""Pods with claims and extended resources on generated clusters with devices: kube-scheduler's plugin DynamicResources
and ours, among all others of the default profile, make the same decisions, and so do their PostFilters.

KSCHEDULER_PARITY_DRA, KSCHEDULER_PARITY_NODE_RESOURCES (the gate of what devices take of their node is on) and
KSCHEDULER_PARITY_DRA_PREEMPTIONS say how many cases are tried (12 decisions, 8 preemptions each), KSCHEDULER_SEED
from which seed on; a failure prints the seed and the smallest case found that still differs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import pytest

from kscheduler.testing.controlplane import ensure
from tests.parity.case import Case
from tests.parity.compare import all_differences
from tests.parity.compare_preemption import all_differences as all_differences_of_preemption
from tests.parity.coverage_dra import DraCoverage
from tests.parity.generate_dra import generate_dra
from tests.parity.generate_dra_preemption import generate_dra_preemption
from tests.parity.generate_node_resources import GATE, generate_node_resources
from tests.parity.oracle import Oracle
from tests.parity.trial import try_all
from tests.support.releases import cases_with
from tests.support.seeds import kept_seeds, search_seeds

pytestmark = [pytest.mark.controlplane, pytest.mark.slow]

SEEDS = search_seeds("KSCHEDULER_PARITY_DRA", 560)
NODE_RESOURCES_SEEDS = search_seeds("KSCHEDULER_PARITY_NODE_RESOURCES", 280)
PREEMPTION_SEEDS = search_seeds("KSCHEDULER_PARITY_DRA_PREEMPTIONS", 200)
FIXED_SEEDS, FIXED_PREEMPTION_SEEDS = range(30), range(20)
ENOUGH_FOR_COVERAGE = 500  # cases; with fewer, rare corners may be missed


def test_pods_with_claims_on_fixed_seeds_are_decided_as_by_kube_scheduler(oracle: Oracle, release: str) -> None:
    compare(oracle, release, [*cases_with(release, FIXED_SEEDS), *kept_seeds("dra")])


def test_post_filter_for_claims_on_fixed_seeds_does_as_kube_schedulers(oracle: Oracle, release: str) -> None:
    preempt(oracle, release, [*cases_with(release, FIXED_PREEMPTION_SEEDS), *kept_seeds("dra preemptions")])


@pytest.mark.search
def test_pods_with_claims_on_searched_seeds_are_decided_as_by_kube_scheduler(oracle: Oracle, release: str) -> None:
    seeds = cases_with(release, SEEDS)
    coverage = compare(oracle, release, seeds)
    if len(seeds) >= ENOUGH_FOR_COVERAGE:
        assert coverage.missing() == [], f"seeds from {SEEDS.start}"


@pytest.mark.search
def test_post_filter_for_claims_on_searched_seeds_does_as_kube_schedulers(oracle: Oracle, release: str) -> None:
    preempt(oracle, release, cases_with(release, PREEMPTION_SEEDS))


@pytest.fixture(scope="module")
def oracle_with_gate(release: str) -> Iterator[Oracle]:
    running = Oracle(ensure(["oracle"], release).path("oracle"), [GATE])
    yield running
    running.close()


def test_what_devices_take_of_their_node_on_fixed_seeds_decides_as_with_kube_scheduler(
    oracle_with_gate: Oracle, release: str
) -> None:
    seeds = [*cases_with(release, FIXED_SEEDS), *kept_seeds("node resources")]
    compare(oracle_with_gate, release, seeds, generate_node_resources)


@pytest.mark.search
def test_what_devices_take_of_their_node_on_searched_seeds_decides_as_with_kube_scheduler(
    oracle_with_gate: Oracle, release: str
) -> None:
    compare(oracle_with_gate, release, cases_with(release, NODE_RESOURCES_SEEDS), generate_node_resources)


def compare(
    oracle: Oracle, release: str, seeds: Iterable[int], generate: Callable[[int, str], Case] = generate_dra
) -> DraCoverage:
    coverage = DraCoverage()
    try_all(oracle, (generate(seed, release) for seed in seeds), all_differences, coverage)
    return coverage


def preempt(oracle: Oracle, release: str, seeds: Iterable[int]) -> None:
    cases = (generate_dra_preemption(seed, release) for seed in seeds)
    try_all(oracle, cases, all_differences_of_preemption, DraCoverage())
