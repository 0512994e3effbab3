"""DynamicResources in a whole scheduler: where pods with claims go, what is written, and what can go wrong."""

from __future__ import annotations

import pytest

from kscheduler.config.releases import RELEASES, Release
from tests.support.devices import DeviceWorld, gpu_pod
from tests.support.world import in_virtual_time

BOTH = pytest.mark.parametrize("release", RELEASES.values(), ids=RELEASES.keys())


@BOTH
@in_virtual_time
async def test_pods_get_devices_for_claims_made_from_a_template(release: Release) -> None:
    async with DeviceWorld(release=release) as world:
        for index in range(6):
            world.add_pod(gpu_pod(f"p{index}"))
        await world.until(world.all_bound)
        assert world.all_taken() == [f"n{node}/g{gpu}" for node in range(3) for gpu in range(2)]
        for index in range(6):
            assert world.devices_of(f"p{index}")[0].startswith(world.pod(f"p{index}").spec.node_name)
