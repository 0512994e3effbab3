"""What the scheduler's loop hands to the page's: copies of bounded size, which nobody changes any more.

Times are seconds since the Unix epoch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

OVERVIEW, QUEUE, DECISIONS, NODES = "overview", "queue", "decisions", "nodes"
VIEWS = (OVERVIEW, QUEUE, DECISIONS, NODES)


class WaitingPod(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """A pod of the queue, as the page lists it."""

    pod: str  # namespace/name
    pool: str
    position: int | None  # from 1 among the active pods, which are popped in this order; None in other pools
    priority: int
    attempts: int
    since: float  # when it came into the queue, or back into it after its last attempt
    retry_at: float | None  # when it is tried again if nothing changes; None: at once, or only after a change
    plugins: tuple[str, ...]  # that rejected it last, or gate it
    reason: str  # the message of its last rejection, shortened


class MadeDecision(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """The latest decision about a pod."""

    pod: str
    at: float
    attempt: int
    outcome: str
    node: str
    nodes: int
    feasible: int
    detailed: bool  # scores by plugin are known
    message: str


class QueueReading(NamedTuple):
    pods: list[WaitingPod]
    rejected_by: Mapping[str, int]  # plugin -> all unschedulable pods that it rejected


class Numbers(NamedTuple):
    """The scheduler's figures at one moment; counts and histograms grow from the start of the process."""

    at: float
    active: int
    backoff: int
    unschedulable: int
    gated: int
    binding: int
    nodes: int
    pods: int  # on nodes, assumed ones included
    scheduled: float
    rejected: float  # attempts that found no node
    errors: float  # attempts that met a fault
    preemptions: float
    conflicts: float
    latency: list[int]  # counts of SLI_BOUNDS' buckets
    lag: list[int]  # counts of the buckets of the event loop's lag


class NodeReading(NamedTuple):
    """The nodes' amounts by row, as packed int64: of `rows` (packed int32), or of all rows if it is None."""

    resources: tuple[str, ...]  # the last one is pods
    rows: bytes | None
    requested: tuple[bytes, ...]  # of each resource
    allocatable: tuple[bytes, ...]
    names: list[str] | None  # of all rows, "" for a row without a node; None: as before, and so are the labels
    labels: Sequence[Mapping[str, str]] | None


class Reading(NamedTuple):
    numbers: Numbers
    replica: Mapping[str, object]  # which replica this is, and who leads
    queue: QueueReading | None = None  # None: nobody watches it
    decisions: list[MadeDecision] | None = None
    nodes: NodeReading | None = None  # None: no change


class FreeAmounts(NamedTuple):
    """What all nodes have free of each resource that a pod requests, to find the nodes that come nearest."""

    asked: Mapping[str, int]  # resource -> amount
    names: list[str]  # by row, "" for a row without a node
    requested: Mapping[str, bytes]  # resource -> packed int64 by row
    allocatable: Mapping[str, bytes]
