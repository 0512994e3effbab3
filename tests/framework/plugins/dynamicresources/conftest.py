from __future__ import annotations

import pytest

from kscheduler.config.releases import RELEASES, Release


@pytest.fixture(params=RELEASES.values(), ids=RELEASES.keys())
def release(request: pytest.FixtureRequest) -> Release:
    found: Release = request.param
    return found
