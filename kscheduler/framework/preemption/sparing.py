"""Puts pods back on the copy of a node where the preemptor fits beside them; those that cannot stay are the victims."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kscheduler.framework.interface import WhatIf
from kscheduler.framework.status import Status
from kscheduler.snapshot.pod_info import PodInfo


def spare(what_if: WhatIf, pods: Sequence[PodInfo], may_stay: Callable[[], bool]) -> list[PodInfo] | Status:
    """Put the pods back one by one, and remove each again for which `may_stay`, asked with it on the copy, is false.

    Returns the pods that had to stay away, or a fault.
    """
    victims: list[PodInfo] = []
    for pod in pods:
        fault = what_if.add(pod)
        if fault is not None:
            return fault
        if not may_stay():
            fault = what_if.remove(pod)
            if fault is not None:
                return fault
            victims.append(pod)
    return victims
