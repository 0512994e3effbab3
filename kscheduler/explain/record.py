"""One decision on one pod, as it is remembered."""

from __future__ import annotations

import enum
from typing import NamedTuple

import msgspec

from kscheduler.explain.details import NodeDetails


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


class DecisionRecord(msgspec.Struct, gc=False):
    """Cheap to make, since every decision makes one. Refers to no pod: it may outlive the pod for long."""

    uid: str
    key: str  # namespace/name
    profile: str
    attempt: int
    at: float  # Unix seconds
    outcome: Outcome
    node: str = ""  # where it goes, or was to go
    evaluated: int = 0  # nodes filtered
    feasible: int = 0
    nodes: int = 0  # in the cluster
    message: str = ""  # why it goes nowhere, as its condition says
    finished: float = 0.0  # when its binding ended, well or not; 0: not yet
    reasons: tuple[Reason, ...] = ()
    plugins: tuple[str, ...] = ()  # who rejected it, sorted
    pre_filter: str = ""  # the message of the PreFilter that rejected it for all nodes
    post_filter: str = ""  # what preemption says
    nominated: str = ""  # the node that preemption makes room on
    details: NodeDetails | None = None

    def size(self) -> int:
        """Bytes, roughly; the names of nodes are counted by whoever shares them."""
        return RECORD_BYTES + len(self.message) + len(self.post_filter) + self._facts_size() + self._details_size()

    def _facts_size(self) -> int:
        return sum(REASON_BYTES + sum(map(len, reason.reasons)) for reason in self.reasons)

    def _details_size(self) -> int:
        return 0 if self.details is None else self.details.size()


# What CPython takes for a record and its key in a dictionary, and for a Reason with its strings.
RECORD_BYTES = 600
REASON_BYTES = 250
