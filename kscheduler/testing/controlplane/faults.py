"""Why a control plane for tests is not there."""

from __future__ import annotations

from kscheduler.errors import KSchedulerError


class HarnessError(KSchedulerError):
    """A part of the control plane could not be built, started or asked."""


class MissingTool(HarnessError):
    """A program is not on this machine; the text names it and says how to get it."""


class StartFailed(HarnessError):
    """A process ended, or was not ready in time; the text holds the end of its log."""


class RequestFailed(HarnessError):
    """The apiserver refused a request of the harness."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(f"HTTP {status} {reason}: {message}")
        self.status = status
        self.reason = reason  # metav1.Status.reason, such as "Forbidden"
