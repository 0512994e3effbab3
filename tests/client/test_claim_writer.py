"""Only the leader writes claims. What it writes: tests/framework/plugins/dynamicresources, tests/scenarios."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from kscheduler.api.devices import ClaimMeta, ResourceClaim, ResourceClaimConsumerReference
from kscheduler.api.objects import PodExtendedResourceClaimStatus
from kscheduler.client.claim_writer import ClaimWriter
from kscheduler.client.recorder import EventRecorder
from kscheduler.client.write_permission import WritePermission
from kscheduler.client.written_claims import WrittenClaims
from kscheduler.errors import NotLeading
from kscheduler.observability.measurements import Measurements
from kscheduler.simulator.cluster import Cluster
from kscheduler.simulator.virtual_time import LoopClock
from kscheduler.testing import make_pod
from tests.support.election import Follower
from tests.support.world import in_virtual_time

CLAIM = ResourceClaim(metadata=ClaimMeta(name="c", namespace="default", uid="u"))
POD = make_pod("p").obj()
WRITES: dict[str, Callable[[ClaimWriter], Coroutine[Any, Any, object]]] = {
    "create": lambda writer: writer.create(CLAIM),
    "patch": lambda writer: writer.patch(CLAIM, {}),
    "patch the status": lambda writer: writer.patch_status(CLAIM, {}),
    "reserve": lambda writer: writer.reserve(CLAIM, ResourceClaimConsumerReference("pods", "p", "uid")),
    "release": lambda writer: writer.release(CLAIM, "uid"),
    "delete": lambda writer: writer.delete(CLAIM),
    "name the claim in the pod": lambda writer: writer.set_pod_claim(POD, PodExtendedResourceClaimStatus()),
    "state what devices take": lambda writer: writer.set_pod_node_resources(POD, []),
}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
@in_virtual_time
async def test_who_does_not_lead_writes_nothing(write: Callable[[ClaimWriter], Coroutine[Any, Any, object]]) -> None:
    clock = LoopClock(asyncio.get_running_loop())
    cluster = Cluster(clock)
    client, tasks = cluster.client(), set[asyncio.Future[None]]()
    writer = ClaimWriter(
        client,
        clock,
        recorder=EventRecorder(client, clock, random.Random(1), controller="s", instance="i"),
        measurements=Measurements(),
        permission=WritePermission(Follower()),
        written=WrittenClaims(),
        start=lambda work: tasks.add(asyncio.ensure_future(work)),
        labels_creation=False,
    )
    before = cluster.version
    with pytest.raises(NotLeading, match="this replica does not hold the lease"):
        await write(writer)
    assert cluster.version == before
