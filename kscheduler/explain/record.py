"""The record of one scheduling decision about one pod."""

from __future__ import annotations

import enum
from typing import NamedTuple

import msgspec

from kscheduler.explain.details import NodeDetails

# Memory in CPython of a record with its entry in a dictionary, and what a rejection adds to it.
RECORD_BYTES = 500
REFUSAL_BYTES = 300
REASON_BYTES = 250


class Outcome(enum.StrEnum):
    BINDING = "binding"  # a node was found; its binding cycle is under way
    BOUND = "bound"
    REJECTED = "rejected"  # no node fits, or a plugin rejected the pod later
    FAULT = "fault"  # an error; tried again after the error backoff


class Reason(NamedTuple):
    """A status with which a plugin rejected nodes, and how many nodes it rejected with it."""

    plugin: str
    code: str  # as in metrics: Unschedulable, UnschedulableAndUnresolvable, ...
    reasons: tuple[str, ...]
    nodes: int


class Refusal(msgspec.Struct, gc=False, frozen=True):
    """The reasons why a pod could not be scheduled."""

    message: str  # the message of the pod's condition
    plugins: tuple[str, ...] = ()  # names of the rejecting plugins, sorted
    reasons: tuple[Reason, ...] = ()
    pre_filter: str = ""  # message of the PreFilter that rejected the pod on all nodes
    post_filter: str = ""  # the message of PostFilter (preemption)
    nominated: str = ""  # the node nominated by preemption

    def size(self) -> int:
        """Return the approximate memory in bytes."""
        reasons = sum(REASON_BYTES + sum(map(len, reason.reasons)) for reason in self.reasons)
        return REFUSAL_BYTES + len(self.message) + len(self.pre_filter) + len(self.post_filter) + reasons


class DecisionRecord(msgspec.Struct, gc=False):
    """Records one decision about a pod. It holds no reference to the pod, which it may outlive for long.

    Times are monotonic seconds.
    """

    uid: str
    key: str  # namespace/name
    profile: str
    attempt: int
    at: float
    nodes: int  # number of nodes in the cluster
    node: str = ""  # the node chosen
    evaluated: int = 0  # number of nodes filtered
    feasible: int = 0
    outcome: Outcome = Outcome.BINDING
    finished: float | None = None  # when its binding cycle ended, with success or failure
    fitted: str = ""  # the node that it would have had, of a pod that was rejected with its gang
    refusal: Refusal | None = None
    details: NodeDetails | None = None
    bytes: int = RECORD_BYTES  # memory, as last measured
    previous: DecisionRecord | None = None  # the pod's decision before this one

    def measure(self) -> int:
        """Return the approximate memory in bytes, without the node names, which several records share."""
        refusal = 0 if self.refusal is None else self.refusal.size()
        return RECORD_BYTES + refusal + (0 if self.details is None else self.details.size())
