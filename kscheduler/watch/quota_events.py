"""Applies each informer event about ElasticQuotas to `ElasticQuotas` and the queue.

As with scheduler-plugins' CapacityScheduling, every change of a quota requeues the pods that it rejected; one of its
status alone does not. An unreadable quota is logged and left out, and so is its earlier version, which is out of date.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from kscheduler.api.elastic_quotas import ElasticQuota
from kscheduler.client.kinds import ELASTIC_QUOTAS
from kscheduler.clock import Clock
from kscheduler.errors import DecodeError
from kscheduler.framework import events
from kscheduler.framework.events import Action, ClusterEvent
from kscheduler.observability.measurements import Measurements
from kscheduler.queue.scheduling_queue import SchedulingQueue
from kscheduler.quotas.elastic import ElasticQuotas

log = logging.getLogger(__name__)

_ADDED, _CHANGED, _DELETED = (
    ClusterEvent(events.ELASTIC_QUOTAS, action) for action in (Action.ADD, Action.UPDATE, Action.DELETE)
)


class QuotaEvents:
    """The handler of ElasticQuotas. `wake` is called when there may be a pod to schedule."""

    def __init__(
        self,
        quotas: ElasticQuotas,
        queue: SchedulingQueue,
        *,
        clock: Clock,
        measurements: Measurements,
        wake: Callable[[], None],
    ) -> None:
        self._quotas = quotas
        self._queue = queue
        self._clock = clock
        self._measure = measurements
        self._wake = wake

    def on_add(self, quota: ElasticQuota) -> None:
        self._set(quota)
        self._requeue(_ADDED, None, quota)

    def on_update(self, old: ElasticQuota, new: ElasticQuota) -> None:
        if old.spec != new.spec or old.metadata.uid != new.metadata.uid:
            self._set(new)
            self._requeue(_CHANGED, old, new)
        else:
            self._quotas.refresh(new)

    def on_delete(self, quota: ElasticQuota) -> None:
        self._quotas.remove(quota.metadata.namespace, quota.metadata.name)
        self._requeue(_DELETED, quota, None)

    def _set(self, quota: ElasticQuota) -> None:
        try:
            self._quotas.set(quota)
        except DecodeError as error:
            log.error("elastic quota cannot be read and does not count", extra={"quota": quota.key, "err": str(error)})
            self._measure.bad_object(ELASTIC_QUOTAS.plural)
            self._quotas.remove(quota.metadata.namespace, quota.metadata.name)

    def _requeue(self, event: ClusterEvent, old: ElasticQuota | None, new: ElasticQuota | None) -> None:
        self._queue.move_all_to_active_or_backoff(event, old, new, self._clock.now())
        if self._queue.uids:
            self._wake()
