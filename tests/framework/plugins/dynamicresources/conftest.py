from __future__ import annotations

import pytest

from kscheduler.config.releases import RELEASES, Release


@pytest.fixture(params=list(RELEASES.values()), ids=list(RELEASES))
def release(request: pytest.FixtureRequest) -> Release:
    found: Release = request.param
    return found
