"""What differs between releases of Kubernetes, in a running scheduler."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from kscheduler.api.objects import ContainerStatus, Pod, ResourceRequirements
from kscheduler.config.load import default_config
from kscheduler.config.releases import RELEASE_1_36, RELEASE_1_37, Release
from kscheduler.testing import make_pod
from tests.support.world import World, in_virtual_time


def using(pod: Pod, *cpus: str) -> Pod:
    """The pod as its kubelet reports it, with these cpus in use by its containers."""
    statuses = [ContainerStatus(f"c{i}", ResourceRequirements(requests={"cpu": cpu})) for i, cpu in enumerate(cpus)]
    return replace(pod, status=replace(pod.status, container_statuses=statuses))


@pytest.mark.parametrize(("release", "counted"), [(RELEASE_1_36, 4000), (RELEASE_1_37, 3500)])
@in_virtual_time
async def test_a_pod_that_is_resized_counts_on_its_node_by_the_rule_of_the_release(
    release: Release, counted: int
) -> None:
    async with World(config=default_config(release)) as world:
        world.add_node("n0", cpu="8")
        world.add_pod(make_pod("big").req(cpu="1").container(cpu="1").node("n0"))
        columns = world.scheduler.cache.table.columns
        await world.until(lambda: world.scheduler.cache.table.get("n0") is not None and columns.requested(0, 0) == 2000)
        world.change_pod("big", lambda pod: using(pod, "500m", "3"))
        await world.until(lambda: columns.requested(0, 0) == counted)
        world.change_pod("big", lambda pod: using(pod, "1", "1"))
        await world.until(lambda: columns.requested(0, 0) == 2000)
