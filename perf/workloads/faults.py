"""What is wrong with a workload file, or with the run of one."""

from __future__ import annotations

from kscheduler.errors import KSchedulerError


class WorkloadError(KSchedulerError):
    """A workload file cannot be read, or says what is not understood; nothing was started."""
