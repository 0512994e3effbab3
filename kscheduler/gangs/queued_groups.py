"""How many groups of pods are in the queue, for kube-scheduler's metrics of entities."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from kscheduler.queue.scheduling_queue import QueueCounts


class QueuedGroups(NamedTuple):
    """The groups in the queue. Each is one entity, whereas a pod without a group is an entity by itself."""

    groups: QueueCounts  # by pool; one that lacks pods, or of which a pod is gated, counts as gated
    pods: QueueCounts  # how many of the pods that the queue counts in each pool belong to groups
    incomplete: int  # pods among those that count as gated, whose PodGroup does not exist
    pending: int  # pods among those that count as gated, which came while their group was being decided
    incoming: Mapping[tuple[str, str], Incoming]  # by pool and the event that added them


class Incoming(NamedTuple):
    """What was added to a pool since the start."""

    groups: int
    pods: int  # of these groups, and those that were gated one by one
