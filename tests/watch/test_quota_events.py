"""Informer events about ElasticQuotas, and what `ElasticQuotas` and the queue make of them."""

from __future__ import annotations

from msgspec.structs import replace

from kscheduler.api.elastic_quotas import ElasticQuota, ElasticQuotaSpec, ElasticQuotaStatus
from kscheduler.api.objects import ObjectMeta, Pod
from kscheduler.framework.events import ELASTIC_QUOTAS, Action, ClusterEvent, Registration
from kscheduler.observability.measurements import Measurements
from kscheduler.queue.requeue import ANY_PROFILE
from kscheduler.queue.scheduling_queue import SchedulingQueue
from kscheduler.quotas.elastic import ElasticQuotas
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.testing import make_pod
from kscheduler.watch.quota_events import QuotaEvents
from tests.support.clocks import ManualClock

QUOTA = ElasticQuota(ObjectMeta(name="q", namespace="a", uid="1"), ElasticQuotaSpec({"cpu": "1"}))


class Bench:
    """A pod that a plugin rejected; every event about quotas is offered to its queueing hint."""

    def __init__(self) -> None:
        clock = ManualClock(now=50.0)
        self.heard: list[tuple[object, object]] = []  # (old, new) of each event
        self.wakes = 0
        self.queue = SchedulingQueue(
            lambda queued: (queued.timestamp,),
            lambda pod: None,
            registered={ANY_PROFILE: {"Quotas": [Registration(ClusterEvent(ELASTIC_QUOTAS, Action.ALL), self._hint)]}},
            observer=Measurements(),
            clock=clock.now,
        )
        self.quotas = ElasticQuotas()
        self.events = QuotaEvents(self.quotas, self.queue, clock=clock, measurements=Measurements(), wake=self._wake)
        self.queue.add(PodInfo(make_pod("p").uid("u").obj()), 0.0)
        popped = self.queue.pop(0.0)
        assert popped is not None
        self.queue.add_unschedulable_if_not_present(popped, 0.0, {"Quotas"}, set())

    def _hint(self, pod: Pod, old: object, new: object) -> bool:
        self.heard.append((old, new))
        return False

    def _wake(self) -> None:
        self.wakes += 1


def test_every_change_of_a_quota_is_an_event() -> None:
    bench = Bench()
    grown = replace(QUOTA, spec=ElasticQuotaSpec({"cpu": "2"}))
    bench.events.on_add(QUOTA)
    assert bench.quotas.of("a") is QUOTA
    bench.events.on_update(QUOTA, grown)
    assert bench.quotas.of("a") is grown
    bench.events.on_delete(grown)
    assert bench.heard == [(None, QUOTA), (QUOTA, grown), (grown, None)]
    assert bench.wakes == 3
    assert "a" not in bench.quotas


def test_a_change_of_status_alone_is_none() -> None:
    bench = Bench()
    bench.events.on_add(QUOTA)
    bench.events.on_update(QUOTA, replace(QUOTA, status=ElasticQuotaStatus({"cpu": "1"})))
    assert len(bench.heard) == 1


def test_a_quota_created_again_under_its_name_is_another() -> None:
    bench = Bench()
    bench.events.on_add(QUOTA)
    bench.events.on_update(QUOTA, replace(QUOTA, metadata=replace(QUOTA.metadata, uid="2")))
    assert len(bench.heard) == 2


def test_a_quota_that_cannot_be_read_drops_its_earlier_version() -> None:
    bench = Bench()
    bench.events.on_add(QUOTA)
    bench.events.on_update(QUOTA, replace(QUOTA, spec=ElasticQuotaSpec(max={"cpu": "-1"})))
    assert "a" not in bench.quotas
    assert len(bench.heard) == 2
