"""The leader writes the statuses of ElasticQuotas. What they say: tests/scenarios/test_elastic_quotas.py."""

from __future__ import annotations

import asyncio

from kscheduler.api.elastic_quotas import ElasticQuota
from kscheduler.api.objects import QuantityMap
from kscheduler.client.kinds import ELASTIC_QUOTAS
from kscheduler.client.protocol import Regarding
from kscheduler.client.quota_statuses import GATHER_S, PAUSE_S, QuotaStatuses
from kscheduler.client.write_permission import WritePermission
from kscheduler.quotas.elastic import ElasticQuotas
from kscheduler.simulator.cluster import Cluster
from kscheduler.simulator.virtual_time import LoopClock
from kscheduler.testing import make_pod
from tests.scenarios.quotas import quota
from tests.support.election import Follower, Leader
from tests.support.world import in_virtual_time


class Recorded:
    """The reasons of Events."""

    def __init__(self) -> None:
        self.reasons: list[str] = []

    def record(self, regarding: Regarding, *, type: str, reason: str, action: str, note: str) -> None:
        self.reasons.append(reason)


@in_virtual_time
async def test_what_changed_on_a_standby_is_written_once_it_leads() -> None:
    cluster = Cluster(LoopClock(asyncio.get_running_loop()))
    cluster.create_object(quota("a", {"cpu": "2"}))
    store: dict[str, ElasticQuota] = cluster.store(ELASTIC_QUOTAS).objects

    def used() -> QuantityMap | None:
        return store["a/quota"].status.used

    quotas, permission, recorded = ElasticQuotas(), WritePermission(Follower()), Recorded()
    task = asyncio.ensure_future(QuotaStatuses(cluster.client(), quotas, recorded, permission).run())
    quotas.set(store["a/quota"])
    quotas.pod_added(make_pod("p", "a").req(cpu="1").node("n1").phase("Running").obj())
    await asyncio.sleep(60)
    assert used() is None
    permission.depend_on(Leader())
    await asyncio.sleep(GATHER_S + PAUSE_S + 1)
    assert used() == {"cpu": "1"}
    assert recorded.reasons == ["Synced"]
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
