"""Errors in a workload file, or in running it."""

from __future__ import annotations

from kscheduler.errors import KSchedulerError


class WorkloadError(KSchedulerError):
    """A workload file cannot be read, or contains something unknown; nothing was started."""
