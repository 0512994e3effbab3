"""Generated claims on generated devices: kube-scheduler's allocator and this program agree in every detail.

KSCHEDULER_PARITY_DEVICES says how many cases are tried (about five decisions each), KSCHEDULER_SEED from which seed on;
a failure prints the seed and the smallest case found that still differs.
"""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from tests.parity.devices.compare import all_differences
from tests.parity.devices.coverage import Coverage
from tests.parity.devices.generate import generate
from tests.parity.devices.oracle import DeviceOracle
from tests.parity.trial import try_all
from tests.support.releases import cases_with
from tests.support.seeds import kept_seeds, search_seeds

pytestmark = [pytest.mark.controlplane, pytest.mark.slow]

SEEDS = search_seeds("KSCHEDULER_PARITY_DEVICES", 1700)
FIXED_SEEDS = [*range(50), *kept_seeds("devices")]
ENOUGH_FOR_COVERAGE = 1500  # cases; with fewer, rare corners may be missed


def test_claims_on_fixed_seeds_are_allocated_as_by_kube_scheduler(device_oracle: DeviceOracle, release: str) -> None:
    compare(device_oracle, release, FIXED_SEEDS)


@pytest.mark.search
def test_claims_on_searched_seeds_are_allocated_as_by_kube_scheduler(device_oracle: DeviceOracle, release: str) -> None:
    seeds = cases_with(release, SEEDS)
    coverage = compare(device_oracle, release, seeds)
    if len(seeds) >= ENOUGH_FOR_COVERAGE:
        assert coverage.missing() == [], f"seeds from {SEEDS.start}"


def compare(oracle: DeviceOracle, release: str, seeds: Iterable[int]) -> Coverage:
    coverage = Coverage()
    try_all(oracle, (generate(seed, release) for seed in seeds), all_differences, coverage)
    return coverage
