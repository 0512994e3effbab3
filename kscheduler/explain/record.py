"""One decision on one pod, as it is remembered."""

from __future__ import annotations

import enum
from typing import NamedTuple

import msgspec

from kscheduler.explain.details import NodeDetails

# What CPython takes for a record and its key in a dictionary, and for what a rejection adds.
RECORD_BYTES = 500
REFUSAL_BYTES = 300
REASON_BYTES = 250


class Outcome(str, enum.Enum):
    BINDING = "binding"  # a node was found; the binding is being written, or waits
    BOUND = "bound"
    REJECTED = "rejected"  # fits nowhere, or a plugin sent it back
    FAULT = "fault"  # something went wrong; tried again after the error backoff


class Reason(NamedTuple):
    """A status that some nodes got."""

    plugin: str
    code: str  # as metrics write it: Unschedulable, UnschedulableAndUnresolvable, …
    reasons: tuple[str, ...]
    nodes: int


class Refusal(msgspec.Struct, gc=False, frozen=True):
    """Why a pod goes nowhere."""

    message: str  # as its condition says
    plugins: tuple[str, ...] = ()  # who rejected it, sorted
    reasons: tuple[Reason, ...] = ()
    pre_filter: str = ""  # the message of the PreFilter that rejected it for all nodes
    post_filter: str = ""  # what preemption says
    nominated: str = ""  # the node that preemption makes room on

    def size(self) -> int:
        """Bytes, roughly."""
        reasons = sum(REASON_BYTES + sum(map(len, reason.reasons)) for reason in self.reasons)
        return REFUSAL_BYTES + len(self.message) + len(self.pre_filter) + len(self.post_filter) + reasons


class DecisionRecord(msgspec.Struct, gc=False):
    """Cheap to make, since every decision makes one. Refers to no pod: it may outlive the pod for long.

    Times are monotonic seconds.
    """

    uid: str
    key: str  # namespace/name
    profile: str
    attempt: int
    at: float
    nodes: int  # in the cluster
    node: str = ""  # where it goes, or was to go
    evaluated: int = 0  # nodes filtered
    feasible: int = 0
    outcome: Outcome = Outcome.BINDING
    finished: float | None = None  # when its binding ended, well or not
    refusal: Refusal | None = None
    details: NodeDetails | None = None
    bytes: int = RECORD_BYTES  # as measured when it was written
    previous: DecisionRecord | None = None  # the pod's decision before this one

    def measure(self) -> int:
        """Bytes, roughly; the names of nodes are counted by whoever shares them."""
        refusal = 0 if self.refusal is None else self.refusal.size()
        return RECORD_BYTES + refusal + (0 if self.details is None else self.details.size())
