"""What ends an allocation other than a solution or the proof that there is none. The texts are kube-scheduler's."""

from __future__ import annotations

from kscheduler.errors import KSchedulerError


class AllocationError(KSchedulerError):
    """Something is wrong with a claim, a class or a slice, on every node: the pod's cycle ends."""


class PoolError(KSchedulerError):
    """The claims cannot be allocated on this node, where a pool is invalid; other nodes are not concerned."""


class SearchStopped(KSchedulerError):
    """The caller's `should_stop` ended the search, which does not mean that there is no solution."""

    def __init__(self) -> None:
        super().__init__("filter operation aborted: context deadline exceeded")
