"""Errors of the test control plane."""

from __future__ import annotations

from kscheduler.errors import KSchedulerError


class HarnessError(KSchedulerError):
    """A part of the test control plane could not be built or started, or did not do what was waited for."""


class MissingTool(HarnessError):
    """A program is not installed on this machine; the message names it and says how to get it."""


class StartFailed(HarnessError):
    """A process ended instead of becoming ready; the message has the end of its log."""


class RequestFailed(HarnessError):
    """The apiserver answered a request of the tests with an error."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(f"HTTP {status} {reason}: {message}")
        self.status = status
        self.reason = reason  # metav1.Status.reason, such as "Forbidden"
