"""Queues with shares for the scenarios of this package, with a configuration that shares the cluster by them."""

from __future__ import annotations

from kscheduler.api.objects import ObjectMeta, RawQuantity
from kscheduler.api.share_queues import QueueObject, QueueResource, QueueSpec

LABEL = "kscheduler.io/queue"
CONFIG = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
  plugins:
    preFilter: {enabled: [{name: Queues}]}
    postFilter: {enabled: [{name: Queues}], disabled: [{name: "*"}]}
"""
# With reservations of rooms for gangs; nobody is evicted.
RESERVING = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins:
    preFilter: {enabled: [{name: Queues}]}
    postFilter: {disabled: [{name: "*"}]}
    permit: {enabled: [{name: Coscheduling}]}
  pluginConfig: [{name: Coscheduling, args: {reserveAfterSeconds: AFTER}}]
"""
WITH_GANGS = CONFIG + "    permit: {enabled: [{name: Coscheduling}]}\n"


def queue(
    name: str, parent: str = "", deserved: RawQuantity = 0, limit: RawQuantity = "unlimited", weight: RawQuantity = 1
) -> QueueObject:
    """A queue that shares cpu."""
    return QueueObject(ObjectMeta(name=name), QueueSpec(parent, 100, {"cpu": QueueResource(deserved, limit, weight)}))
