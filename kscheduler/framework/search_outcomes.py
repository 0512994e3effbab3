"""What comes out of the search for a node: a decision, a rejection, or what extenders are to be asked about."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kscheduler.framework.diagnosis import Diagnosis
from kscheduler.framework.extender_verdict import Proposal
from kscheduler.framework.status import Code, Status


@dataclass(frozen=True, slots=True)
class Decision:
    """The node chosen for a pod by the search."""

    node_name: str
    evaluated: int  # nodes filtered
    feasible: int  # nodes that fit


@dataclass(frozen=True, slots=True)
class Rejection:
    """The reason why a pod gets no node in this cycle. A status with Code.ERROR is a fault, not a lack of room."""

    status: Status
    diagnosis: Diagnosis
    nomination: str | None = ""  # the node the pod is nominated to; "" for none, None leaves it as it is

    @property
    def message(self) -> str:
        return self.status.message


@dataclass(frozen=True, slots=True)
class Shortlist:
    """The feasible nodes, for extenders to filter and score."""

    names: list[str]


class OpenRejection:
    """A rejection that waits for extenders, which must first agree to the victims that preemption proposes."""

    def __init__(self, proposal: Proposal, conclude: Callable[[Proposal | Status], Rejection | OpenRejection]) -> None:
        self.proposal = proposal
        # Called with the part that extenders agreed to, or an ERROR. The cluster may have changed meanwhile.
        self.conclude = conclude


def rejected(diagnosis: Diagnosis, nomination: str | None = "") -> Rejection:
    """Return the rejection of a pod that fits on no node, with the message of its diagnosis."""
    return Rejection(Status(Code.UNSCHEDULABLE, (diagnosis.message(),)), diagnosis, nomination)
