"""The leader writes the statuses of Queues. What they say is in tests/scenarios/test_share_queues.py."""

from __future__ import annotations

import asyncio

from kscheduler.api.share_queues import QueueObject, QueueStatus
from kscheduler.client.kinds import SHARE_QUEUES
from kscheduler.client.share_queue_statuses import GATHER_S, ShareQueueStatuses
from kscheduler.client.write_permission import WritePermission
from kscheduler.observability.measurements import Measurements
from kscheduler.quotas.share_queues import ShareQueues
from kscheduler.simulator.cluster import Cluster
from kscheduler.simulator.virtual_time import LoopClock
from tests.scenarios.share_queues import queue
from tests.support.election import Follower, Leader
from tests.support.world import in_virtual_time


@in_virtual_time
async def test_what_changed_on_a_standby_is_written_once_it_leads() -> None:
    cluster = Cluster(LoopClock(asyncio.get_running_loop()))
    cluster.create_object(queue("a"))
    store: dict[str, QueueObject] = cluster.store(SHARE_QUEUES).objects

    def status() -> QueueStatus:
        return store["a"].status

    queues, permission = ShareQueues(), WritePermission(Follower())
    task = asyncio.ensure_future(ShareQueueStatuses(cluster.client(), queues, permission, Measurements()).run())
    queues.set("a", store["a"])
    await asyncio.sleep(60)
    assert status() == QueueStatus()
    permission.depend_on(Leader())
    await asyncio.sleep(2 * GATHER_S + 1)
    assert status() == QueueStatus("", {"cpu": "0"}, {"cpu": "0"}, {"cpu": "0"})
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
