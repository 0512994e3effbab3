"""Follows the gangs of a simulated cluster: when they begin to run, and what they hold until then, for its report.

A gang's pods have no use of their nodes before its minimum has nodes: a training whose workers wait for the last one
stands still. So the time that its pods run counts from then on, whatever placed them. A scheduler that knows nothing of
gangs may let several of them hold nodes for ever.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec

from kscheduler.api.objects import Pod
from kscheduler.api.pod_groups import AnyPodGroup, CompositePodGroup, CoschedulingPodGroup
from kscheduler.errors import DecodeError
from kscheduler.gangs.doors import COSCHEDULING_DOOR, KUBERNETES_DOOR, Doors
from kscheduler.gangs.gang import GangKey
from kscheduler.simulator.statistics import mean, percentile, rounded

MAX_LISTED = 1_000  # gangs of a report
MAX_DRAWN = 12  # of them with their placed pods over time, and with so many changes
MAX_CHANGES = 2_000
RAN, HOLDING, WAITING, INCOMPLETE = "ran", "holding", "waiting", "incomplete"


class GangRun(msgspec.Struct, frozen=True):
    gang: str  # namespace/name
    minimum: int
    pods: int  # that arrived
    placed: int  # pods on nodes at the end
    state: str  # "ran": the minimum had nodes at some time; else "holding", "waiting" or "incomplete" at the end
    arrived_s: float  # the first pod
    ran_s: float | None  # since when the minimum had nodes
    idle_pod_s: float  # sum of the times that pods were on nodes before
    time_s: list[float] = []  # at which the number of pods on nodes changed; of the first gangs only
    on_nodes: list[int] = []  # from that time on


class GangRuns(msgspec.Struct, frozen=True):
    """How the gangs of a simulation went."""

    total: int
    ran: int
    holding: int  # with some pods on nodes at the end, fewer than the minimum
    waiting: int  # without any
    incomplete: int  # the same, and fewer pods arrived than the minimum
    idle_pod_s: float
    wait_mean_s: float  # from a gang's first pod until its minimum had nodes, of those that ran
    wait_p99_s: float
    gangs: list[GangRun]  # by the arrival of their first pod
    left_out: int


@dataclass(slots=True)
class _Followed:
    minimum: int
    arrived_s: float
    is_drawn: bool
    pods: int = 0
    ran_s: float | None = None
    idle_pod_s: float = 0.0
    since_s: float = 0.0  # when the number of placed pods last changed
    placed: dict[str, tuple[Pod, float | None]] = field(default_factory=dict)  # uid -> pod, how long it runs
    changes: list[tuple[float, int]] = field(default_factory=list)

    def count(self, now_s: float) -> None:
        """Note that the placed pods have just changed."""
        self.since_s = now_s
        if self.changes and self.changes[-1][0] == now_s:
            self.changes[-1] = now_s, len(self.placed)
        elif self.is_drawn and len(self.changes) < MAX_CHANGES:
            self.changes.append((now_s, len(self.placed)))

    def settle(self, now_s: float) -> None:
        """Add the time of the placed pods up to now, before they change."""
        if self.ran_s is None:
            self.idle_pod_s += len(self.placed) * (now_s - self.since_s)


class GangBook:
    """The gangs of the cluster's PodGroups. Times are virtual seconds.

    The simulation reports each pod that arrives, gets a node and leaves it.
    """

    def __init__(self, groups: Sequence[AnyPodGroup]) -> None:
        self._doors = Doors([KUBERNETES_DOOR, COSCHEDULING_DOOR])
        self._minima: dict[GangKey, int] = {}
        for group in groups:
            if isinstance(group, CompositePodGroup):
                continue  # its groups are shown by themselves
            door = COSCHEDULING_DOOR if isinstance(group, CoschedulingPodGroup) else KUBERNETES_DOOR
            try:
                gang = door.gang_of(group)
            except DecodeError:
                continue  # the scheduler makes no gang of it either
            if not gang.is_basic:
                self._minima[gang.key] = gang.min_members
        self._followed: dict[GangKey, _Followed] = {}

    def arrived(self, pod: Pod, now_s: float) -> None:
        key = self._doors.key_of(pod)
        if key is None or key not in self._minima:
            return
        followed = self._followed.get(key)
        if followed is None:
            is_drawn = len(self._followed) < MAX_DRAWN
            followed = self._followed[key] = _Followed(self._minima[key], now_s, is_drawn)
        followed.pods += 1

    def got_node(self, pod: Pod, runs_s: float | None, now_s: float) -> Sequence[tuple[Pod, float | None]]:
        """Return the pods that begin to run now, with how long they run: this one, its gang's placed ones, or none."""
        followed = self._of(pod)
        if followed is None:
            return ((pod, runs_s),)
        followed.settle(now_s)
        followed.placed[pod.metadata.uid] = pod, runs_s
        followed.count(now_s)
        if followed.ran_s is not None:
            return ((pod, runs_s),)
        if len(followed.placed) < followed.minimum:
            return ()
        followed.ran_s = now_s
        return tuple(followed.placed.values())

    def left(self, pod: Pod, now_s: float) -> None:
        followed = self._of(pod)
        if followed is not None and pod.metadata.uid in followed.placed:
            followed.settle(now_s)
            del followed.placed[pod.metadata.uid]
            followed.count(now_s)

    def close(self, start_s: float, now_s: float) -> GangRuns | None:
        """Return how the gangs went, with times since `start_s`; None if none has a pod."""
        if not self._followed:
            return None
        runs = []
        for key, followed in self._followed.items():
            followed.settle(now_s)
            followed.since_s = now_s
            runs.append(_run_of(str(key), followed, start_s))
        states = [run.state for run in runs]
        waits = sorted(run.ran_s - run.arrived_s for run in runs if run.ran_s is not None)
        return GangRuns(
            len(runs),
            states.count(RAN),
            states.count(HOLDING),
            states.count(WAITING),
            states.count(INCOMPLETE),
            rounded(sum(run.idle_pod_s for run in runs)),
            rounded(mean(waits)),
            rounded(percentile(waits, 0.99)),
            runs[:MAX_LISTED],
            max(0, len(runs) - MAX_LISTED),
        )

    def _of(self, pod: Pod) -> _Followed | None:
        key = self._doors.key_of(pod)
        return None if key is None else self._followed.get(key)


def _run_of(name: str, followed: _Followed, start_s: float) -> GangRun:
    if followed.ran_s is not None:
        state = RAN
    elif followed.placed:
        state = HOLDING
    else:
        state = WAITING if followed.pods >= followed.minimum else INCOMPLETE
    return GangRun(
        name,
        followed.minimum,
        followed.pods,
        len(followed.placed),
        state,
        rounded(followed.arrived_s - start_s),
        None if followed.ran_s is None else rounded(followed.ran_s - start_s),
        rounded(followed.idle_pod_s),
        [rounded(at_s - start_s) for at_s, _ in followed.changes],
        [placed for _, placed in followed.changes],
    )
