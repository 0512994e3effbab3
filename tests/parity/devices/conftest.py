"""The oracle of devices, one for the tests of a module with each release of Kubernetes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kscheduler.testing.controlplane import ensure
from tests.parity.devices.oracle import DeviceOracle


@pytest.fixture(scope="module")
def device_oracle(release: str) -> Iterator[DeviceOracle]:
    running = DeviceOracle(ensure(["device-oracle"], release).path("device-oracle"))
    yield running
    running.close()
