"""The answer of a plugin. A rejection is a value, not an exception: a code, the plugin's name, and reasons for users.

Codes, order and messages are kube-scheduler's. `None` in place of a Status means Success, so that the common answer
needs no object.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace

from kscheduler.cut_text import SURELY_SHORT, cut_text


class Code(enum.IntEnum):
    """kube-scheduler's status codes, with its numbers."""

    SUCCESS = 0
    ERROR = 1  # a fault: the cycle ends, the pod is tried again after the error backoff
    UNSCHEDULABLE = 2  # does not fit now; preemption may help
    UNSCHEDULABLE_AND_UNRESOLVABLE = 3  # does not fit, and preemption would not help
    WAIT = 4  # Permit only
    SKIP = 5  # PreFilter, PreScore, PreBindPreFlight, Bind: nothing to do for this pod
    PENDING = 6  # as UNSCHEDULABLE, but without backoff once the plugin's event arrives


# The metric labels of codes, as in kube-scheduler.
STATUS_LABELS = {
    Code.SUCCESS: "Success",
    Code.ERROR: "Error",
    Code.UNSCHEDULABLE: "Unschedulable",
    Code.UNSCHEDULABLE_AND_UNRESOLVABLE: "UnschedulableAndUnresolvable",
    Code.WAIT: "Wait",
    Code.SKIP: "Skip",
    Code.PENDING: "Pending",
}

REJECTED = frozenset({Code.UNSCHEDULABLE, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, Code.PENDING})


@dataclass(frozen=True, slots=True)
class Status:
    code: Code
    reasons: tuple[str, ...] = ()
    plugin: str = ""
    error: Exception | None = None  # the fault behind Code.ERROR, for logs and for deciding on a retry

    @property
    def message(self) -> str:
        """The reasons, joined as in kube-scheduler; cut where they are longer than a condition should be."""
        text = ", ".join(self.reasons)
        return text if len(text) <= SURELY_SHORT else cut_text(text)  # asked often: no call for nothing

    @property
    def is_rejected(self) -> bool:
        return self.code in REJECTED

    def of(self, plugin: str) -> Status:
        """Return this status with the plugin's name; a status that already names a plugin keeps that name."""
        return self if self.plugin else replace(self, plugin=plugin)


def unschedulable(*reasons: str) -> Status:
    return Status(Code.UNSCHEDULABLE, reasons)


def unresolvable(*reasons: str) -> Status:
    return Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, reasons)


def error_status(message: str, error: Exception | None = None) -> Status:
    return Status(Code.ERROR, (message,), error=error)


SKIP = Status(Code.SKIP)


def code_of(status: Status | None) -> Code:
    """Return the code of a plugin's answer; None is success. Raises TypeError if the answer is not a status."""
    if status is None:
        return Code.SUCCESS
    try:
        return status.code
    except AttributeError:
        raise TypeError(f"expected a Status or None, got {status!r}") from None
