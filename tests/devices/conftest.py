from __future__ import annotations

import pytest

from kscheduler.config.releases import Release
from tests.devices.building import RELEASES


@pytest.fixture(params=RELEASES, ids=lambda release: release.version)
def release(request: pytest.FixtureRequest) -> Release:
    """Each release, with the feature gates of devices as kube-scheduler has them by default."""
    found: Release = request.param
    return found
